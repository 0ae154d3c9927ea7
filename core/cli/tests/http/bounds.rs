//! Limits on what clients send, keep open and do not read.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::Served;

const MB: usize = 1024 * 1024;

/// Returns whether the server closes a connection.
fn ends(mut stream: TcpStream) -> bool {
    match std::io::copy(&mut stream, &mut std::io::sink()) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn too_large_requests_are_refused() {
    let served = Served::start(&[]);
    let large = format!("[\"SET\",\"k\",\"{}\"]", "x".repeat(5 * MB));
    let answer = served.post(&large);
    assert_eq!(answer.status, 400);
    assert!(
        answer.error().contains("an argument is too large"),
        "{}",
        answer.error()
    );
    let many = format!("[[\"MGET\"{}]]", ",\"a\"".repeat(200_000));
    let answer = served.ask("POST /pipeline", many.as_bytes());
    assert!(answer.error().contains("it is too large"), "{}", answer.error());
    let transaction = format!("[[\"PING\"]{}]", ",[\"PING\"]".repeat(20_000));
    let answer = served.ask("POST /multi-exec", transaction.as_bytes());
    assert!(
        answer.error().contains("this transaction is too large"),
        "{}",
        answer.error()
    );
    assert_eq!(served.ask("POST /pipeline", transaction.as_bytes()).status, 200);
    // The limit applies to the announced length and to the bytes that arrive.
    let mut stream = served.connect();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    let mut stream = served.connect();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let piece = format!("100000\r\n{}\r\n", " ".repeat(MB));
    for _ in 0..13 {
        // The server may already have refused the request.
        let _ = stream.write_all(piece.as_bytes());
    }
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    let answer = served.ask(&format!("GET /get/{}", "k".repeat(100_000)), b"");
    assert!(matches!(answer.status, 414 | 431), "{}", answer.status);
    assert_eq!(served.result("[\"PING\"]"), "PONG");
}

#[test]
fn a_reply_that_is_too_large_is_refused_and_the_rest_is_not_done() {
    let served = Served::start(&[]);
    // Each byte takes six characters in JSON.
    assert_eq!(served.ask("POST /set/k", &[1; 2 * MB]).status, 200);
    let body = r#"[["GET","k"],["GET","k"],["GET","k"],["INCR","n"],["INCR","n"]]"#;
    for path in ["/pipeline", "/multi-exec"] {
        let json = served.ask(&format!("POST {path}"), body.as_bytes()).json();
        let replies = json.as_array().unwrap();
        assert_eq!(replies.len(), 5, "{path}");
        assert!(replies[1]["result"].is_string(), "{path}");
        let error = replies[2]["error"].as_str().unwrap();
        assert!(error.contains("the reply is too large"), "{path}: {error}");
    }
    // The pipeline stopped at the error, but the transaction did not: its commands are executed even if a reply does
    // not fit.
    assert_eq!(served.result(r#"["GET","n"]"#), "2");
    let answer = served.post(r#"["MGET","k","k","k"]"#);
    assert_eq!(answer.status, 400);
    assert!(answer.error().contains("the reply is too large"), "{}", answer.error());
}

#[test]
fn clients_that_send_no_request_are_disconnected() {
    let served = Served::start(&[]);
    let begun: [&[u8]; 3] = [b"", b"GET /pi", b"GET /ping HTTP/1.1\r\nHost: localhost\r\n"];
    let connected = Instant::now();
    let streams: Vec<_> = begun
        .iter()
        .map(|begun| {
            let mut stream = served.connect();
            stream.write_all(begun).unwrap();
            stream
        })
        .collect();
    assert!(streams.into_iter().all(ends));
    assert!(
        connected.elapsed() >= Duration::from_secs(5),
        "{:?}",
        connected.elapsed()
    );
}

#[test]
fn too_many_connections_are_refused_until_one_closes() {
    let served = Served::start(&[]);
    let mut open: Vec<_> = (0..1_000).map(|_| served.connect()).collect();
    let answer = served.ask_on(served.connect(), "GET /ping", b"");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.error(), "ERR max number of clients reached");
    assert_eq!(served.send_inline("PING"), "+PONG");
    open.pop();
    // The server needs a moment to notice that the connection is closed.
    while served.ask("GET /ping", b"").status == 503 {}
}

#[test]
fn several_requests_use_one_connection() {
    let served = Served::start(&[]);
    let mut stream = served.connect();
    for number in 1..=50 {
        let request = "GET /incr/n HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let expected = format!("{{\"result\":{number}}}");
        let mut seen = Vec::new();
        while !seen.ends_with(expected.as_bytes()) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn large_requests_and_replies_of_many_clients_take_no_more_than_512_mb() {
    const CLIENTS: usize = 24;
    let served = Served::start(&[]);
    for key in 0..8 {
        assert_eq!(served.ask(&format!("POST /set/k{key}"), &[1; 2 * MB]).status, 200);
    }
    // The server can close a new connection to make room for others, but not one that has received an answer.
    let mut known = served.redis_client();
    assert_eq!(known.send_inline("PING"), "+PONG");
    // Half of the clients begin requests and do not finish them. The others request large replies and read none.
    let mut open = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = served.connect();
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12000000\r\n\r\n[\"";
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&vec![b'x'; 11 * MB]);
        open.push(stream);
        let mut stream = served.connect();
        let slow = "for i = 1, 500000 do end";
        let body = json!([["GET", "k1"], ["EVAL", slow, 0], ["GET", "k2"], ["EVAL", slow, 0]]).to_string();
        let head = format!(
            "POST /pipeline HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all((head + &body).as_bytes());
        open.push(stream);
        assert_eq!(known.send_inline("PING"), "+PONG");
    }
    assert!(served.peak_megabytes() < 512, "{} MB", served.peak_megabytes());
    drop(open);
    while served.ask("GET /ping", b"").status != 200 {}
}
