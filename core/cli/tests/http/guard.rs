//! Tokens, hosts and origins.

use std::process::Command;

use crate::support::{Served, secret, temporary};

/// Returns whether a request was allowed.
fn is_allowed(served: &Served, head: &str) -> bool {
    match served.ask(head, b"").status {
        200 => true,
        401 | 403 => false,
        other => panic!("{head}: {other}"),
    }
}

#[test]
fn without_the_token_no_command_runs() {
    let file = secret("token", "s3cret\n");
    let served = Served::start(&["--http-token-file", &file]);
    for (head, expected) in [
        ("GET /set/k/v", false),
        ("GET /set/k/v\nAuthorization: Bearer wrong", false),
        ("GET /set/k/v\nAuthorization: Bearer s3cre", false),
        ("GET /set/k/v\nAuthorization: Bearer s3crets", false),
        ("GET /set/k/v\nAuthorization: Basic s3cret", false),
        ("GET /set/k/v\nAuthorization: s3cret", false),
        ("GET /set/k/v?_token=wrong", false),
        ("GET /set/k/v?_token=", false),
        ("GET /set/k/v?token=s3cret", false),
        ("GET /exists/k\nAuthorization: Bearer s3cret", true),
        ("GET /exists/k\nauthorization: bearer s3cret", true),
        ("GET /exists/k?_token=s3cret", true),
    ] {
        assert_eq!(is_allowed(&served, head), expected, "{head}");
    }
    let answer = served.ask("GET /exists/k", b"");
    assert_eq!(answer.error(), "WRONGPASS invalid or missing auth token");
    let exists = served.ask("GET /exists/k?_token=s3cret", b"");
    assert_eq!(exists.json()["result"], 0, "a refused command ran");
    for path in ["/pipeline", "/multi-exec", "/"] {
        assert_eq!(
            served.ask(&format!("POST {path}"), b"[[\"PING\"]]").status,
            401,
            "{path}"
        );
    }
    // Redis clients need no token: their port has its own password option, and here it is on loopback.
    assert_eq!(served.send_inline("PING"), "+PONG");
}

#[test]
fn the_password_is_the_token_if_there_is_no_other() {
    let password = secret("password", "pass\n");
    let served = Served::start(&["--password-file", &password]);
    assert!(!is_allowed(&served, "GET /ping"));
    assert!(is_allowed(&served, "GET /ping\nAuthorization: Bearer pass"));
    let token = secret("other-token", "token");
    let served = Served::start(&["--password-file", &password, "--http-token-file", &token]);
    assert!(!is_allowed(&served, "GET /ping\nAuthorization: Bearer pass"));
    assert!(is_allowed(&served, "GET /ping\nAuthorization: Bearer token"));
}

#[test]
fn without_a_token_every_request_is_allowed() {
    let served = Served::start(&[]);
    assert!(is_allowed(&served, "GET /ping\nAuthorization: Bearer any"));
    assert!(is_allowed(&served, "GET /ping?_token=any"));
}

#[test]
fn the_network_is_admitted_only_with_a_token_or_by_insecure() {
    let refused = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_steadlock"))
            .args(["serve", "--port", "0"])
            .args(arguments)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = refused(&["--http", "0.0.0.0:0"]);
    assert_eq!(code, Some(78), "{text}");
    assert!(
        text.contains("--http-token-file") && text.contains("--insecure"),
        "{text}"
    );
    for alone in ["--http-token-file", "--http-origin", "--http-root"] {
        let (code, text) = refused(&[alone, "*"]);
        assert_eq!(code, Some(2), "{text}");
    }
    let missing = temporary("missing").join("s3cret");
    let missing = missing.to_str().unwrap();
    for (option, wrong) in [
        ("--http-token-file", missing),
        ("--http-root", missing),
        ("--http-root", env!("CARGO_BIN_EXE_steadlock")),
    ] {
        let (code, text) = refused(&["--http", "0", option, wrong]);
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains(option) && !text.contains("s3cret"), "{text}");
    }
    for wrong in ["app.example", "https://app.example/path", "null"] {
        assert_eq!(refused(&["--http", "0", "--http-origin", wrong]).0, Some(2), "{wrong}");
    }
    let served = Served::start(&[]);
    let (code, text) = refused(&["--http", &served.http.to_string()]);
    assert_eq!(code, Some(69), "{text}");
    assert!(
        text.contains(&format!("cannot listen on 127.0.0.1:{}", served.http)),
        "{text}"
    );
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let served = Served::start(&[
        "--http-origin",
        "http://localhost:5173",
        "--http-origin",
        "https://app.example",
    ]);
    let own = format!("http://127.0.0.1:{}", served.http);
    for (origin, reads) in [
        ("http://evil.example", None),
        ("null", None),
        ("http://localhost:5174", None),
        ("https://localhost:5173", None),
        ("http://localhost:5173", Some("http://localhost:5173")),
        ("https://app.example", Some("https://app.example")),
    ] {
        let answer = served.ask(
            &format!("POST /\nOrigin: {origin}\nContent-Type: text/plain"),
            format!("[\"SADD\",\"origins\",\"{origin}\"]").as_bytes(),
        );
        assert_eq!(answer.status, if reads.is_some() { 200 } else { 403 }, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), reads, "{origin}");
        assert_eq!(answer.header("vary"), Some("Origin"));
    }
    assert_eq!(served.result(r#"["SCARD","origins"]"#), 2);
    assert!(is_allowed(
        &served,
        &format!("GET /ping\nOrigin: {own}\nSec-Fetch-Site: same-origin")
    ));
    // A browser's request for a link or an image has no `Origin`, but its `Sec-Fetch-Site` says whether the page is of
    // the same site.
    for (site, expected) in [
        ("cross-site", false),
        ("same-site", false),
        ("same-origin", true),
        ("none", true),
    ] {
        assert_eq!(
            is_allowed(&served, &format!("GET /ping\nSec-Fetch-Site: {site}")),
            expected,
            "{site}"
        );
    }
    // A page of an allowed origin must be able to read errors, too.
    let answer = served.ask("GET /nosuch\nOrigin: https://app.example", b"");
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://app.example")
    );
}

/// Over plain HTTP in the network, browsers send no `Sec-Fetch-Site`, and the server cannot recognize a DNS name that
/// was rebound to it. It can therefore not tell which page a GET comes from.
#[test]
fn over_the_network_without_a_token_commands_by_get_are_refused() {
    let served = Served::start_at("0.0.0.0", &["--insecure", "--http-origin", "https://app.example"]);
    for path in ["/set/k/v", "/flushall", "/subscribe/c", "/"] {
        for host in ["10.0.0.5:8079", "evil.example"] {
            let answer = served.ask(&format!("GET {path}\nHost: {host}"), b"");
            assert_eq!(answer.status, 403, "{path}");
            assert!(answer.error().contains("--http-token-file"), "{}", answer.error());
        }
    }
    assert!(!is_allowed(&served, "HEAD /set/k/v"));
    assert_eq!(served.result(r#"["EXISTS","k"]"#), 0, "a refused command ran");
    assert!(is_allowed(&served, "POST /set/k/v"));
    assert!(!is_allowed(
        &served,
        "POST /set/k/v\nHost: evil.example\nOrigin: http://evil.example"
    ));
    assert!(is_allowed(&served, "GET /get/k\nOrigin: https://app.example"));
    let token = secret("network-token", "token");
    let served = Served::start_at("0.0.0.0", &["--http-token-file", &token]);
    assert!(is_allowed(&served, "GET /ping?_token=token"));
    assert!(!is_allowed(&served, "GET /ping"));
}

#[test]
fn every_page_is_allowed_only_by_the_wildcard_origin() {
    let served = Served::start(&["--http-origin", "*"]);
    for origin in ["http://evil.example", "null"] {
        let answer = served.ask(&format!("GET /ping\nOrigin: {origin}"), b"");
        assert_eq!(answer.status, 200, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[test]
fn a_preflight_lists_the_headers_a_page_may_send() {
    let served = Served::start(&["--http-origin", "https://app.example"]);
    let asked = "Access-Control-Request-Method: POST\nAccess-Control-Request-Headers: authorization, \
                 content-type,upstash-encoding,Upstash-Telemetry-Sdk,x-other";
    let answer = served.ask(&format!("OPTIONS /pipeline\nOrigin: https://app.example\n{asked}"), b"");
    assert_eq!(answer.status, 204);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(
        answer.header("access-control-allow-headers"),
        Some("authorization, content-type, upstash-encoding, upstash-telemetry-sdk")
    );
    assert!(answer.header("access-control-allow-methods").unwrap().contains("POST"));
    assert_eq!(answer.header("access-control-allow-private-network"), None);
    let answer = served.ask(
        &format!("OPTIONS /\nOrigin: https://app.example\nAccess-Control-Request-Private-Network: true\n{asked}"),
        b"",
    );
    assert_eq!(answer.header("access-control-allow-private-network"), Some("true"));
    let answer = served.ask(&format!("OPTIONS /\nOrigin: http://evil.example\n{asked}"), b"");
    assert_eq!(answer.status, 403);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn a_rebound_dns_name_is_refused() {
    let served = Served::start(&[]);
    for (host, expected) in [
        ("localhost", true),
        ("127.0.0.1:9999", true),
        ("[::1]:80", true),
        ("evil.example", false),
        ("localhost.evil.example", false),
        ("192.168.0.1", false),
        ("", false),
    ] {
        assert_eq!(
            is_allowed(&served, &format!("GET /ping\nHost: {host}")),
            expected,
            "{host}"
        );
    }
    let rebound = "GET /ping\nHost: evil.example\nOrigin: http://evil.example\nSec-Fetch-Site: same-origin";
    assert!(!is_allowed(&served, rebound));
    assert!(!is_allowed(&served, "GET http://evil.example/ping\nHost: localhost"));
    assert!(!is_allowed(&served, "GET /ping\nHost: localhost\nHost: evil.example"));
}
