//! Tests of the port: the protocol byte by byte, and an ordinary client.

mod support;

use std::net::SocketAddr;
use std::thread::JoinHandle;

use steadlock_protocol::Script;
use steadlock_store::server::Server;
use steadlock_store::{Embedded, Reply};
use tokio::sync::oneshot;

use crate::support::Wire;

/// A server on its own thread, stopped when dropped.
struct RunningServer {
    address: SocketAddr,
    store: Embedded,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    fn start() -> Self {
        Self::with_password(None)
    }

    fn with_password(password: Option<&str>) -> Self {
        let store = Embedded::new();
        let (stop, stopped) = oneshot::channel();
        let (send_address, address) = std::sync::mpsc::channel();
        let (password, served) = (password.map(|text| text.as_bytes().to_vec()), store.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let server = Server::bind(("127.0.0.1", 0), password, served).await.unwrap();
                send_address.send(server.local_addr()).unwrap();
                server.serve(async { drop(stopped.await) }).await;
            });
        });
        Self {
            address: address.recv().unwrap(),
            store,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn wire(&self) -> Wire {
        Wire::connect(self.address)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn error_of(reply: Reply) -> String {
    match reply {
        Reply::Error(error) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

fn texts(reply: Reply) -> Vec<String> {
    let Reply::Array(items) = reply else {
        panic!("no list: {reply:?}");
    };
    let text = |item| match item {
        Reply::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        Reply::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    items.into_iter().map(text).collect()
}

#[test]
fn requests_split_at_any_byte_are_answered_in_order() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\nGET a\r\n*2\r\n$4\r\nINCR\r\n$1\r\nb\r\n";
    for cut in 1..bytes.len() {
        wire.send_raw(&bytes[..cut]);
        wire.send_raw(&bytes[cut..]);
        assert_eq!(wire.read(), Reply::OK);
        assert_eq!(wire.read(), Reply::Bytes(b"\r\n\r\n".to_vec()));
        assert_eq!(wire.read(), Reply::Int(i64::try_from(cut).unwrap()));
    }
}

#[test]
fn a_long_pipeline_is_answered_completely() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    let value = "x".repeat(1_000);
    wire.call(&["SET", "big", &value]);
    let requests = b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(2_000);
    let mut sender = wire.second_half();
    // The replies fill the buffers long before the last request is sent.
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut sender, &requests).unwrap());
    for _ in 0..2_000 {
        assert_eq!(wire.read(), Reply::Bytes(value.clone().into_bytes()));
    }
    sending.join().unwrap();
}

#[test]
fn garbage_is_refused_and_the_connection_closed() {
    let server = RunningServer::start();
    for (bytes, why) in [
        (&b"*x\r\n"[..], "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
        (b"*2\r\n$3\r\nGET\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"get \"a\r\n", "ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut wire = server.wire();
        wire.send_raw(bytes);
        assert_eq!(error_of(wire.read()), why);
        assert!(wire.is_closed(), "after {why}");
    }
    let mut wire = server.wire();
    wire.send_raw(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n");
    assert!(wire.is_closed(), "a browser is not served");
    assert_eq!(server.wire().call(&["GET", "a"]), Reply::Nil);
}

#[test]
fn random_bytes_do_no_harm() {
    let server = RunningServer::start();
    let mut state = 7_u64;
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..200 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let chosen = b"*$+-:0123456789\r\n\"'GETSx\0\xFF"[usize::try_from(state >> 33).unwrap() % 26];
            bytes.push(chosen);
        }
        let mut wire = server.wire();
        wire.send_raw_or_closed(&bytes);
    }
    assert_eq!(server.wire().call(&["PING"]), Reply::Status("PONG".into()));
}

#[test]
fn a_password_is_required() {
    let server = RunningServer::with_password(Some("s3cret"));
    let mut wire = server.wire();
    assert_eq!(error_of(wire.call(&["GET", "a"])), "NOAUTH Authentication required.");
    assert_eq!(error_of(wire.call(&["NOSUCH"])), "NOAUTH Authentication required.");
    assert!(error_of(wire.call(&["HELLO", "3"])).starts_with("NOAUTH HELLO must be called"));
    assert!(error_of(wire.call(&["AUTH", "wrong"])).starts_with("WRONGPASS"));
    assert!(error_of(wire.call(&["AUTH", "other", "s3cret"])).starts_with("WRONGPASS"));
    assert_eq!(wire.call(&["AUTH", "s3cret"]), Reply::OK);
    assert_eq!(wire.call(&["GET", "a"]), Reply::Nil);
    assert_eq!(wire.call(&["RESET"]), Reply::Status("RESET".into()));
    assert_eq!(error_of(wire.call(&["GET", "a"])), "NOAUTH Authentication required.");

    let mut wire = server.wire();
    assert_eq!(wire.call(&["AUTH", "default", "s3cret"]), Reply::OK);
    let mut wire = server.wire();
    let hello = wire.call(&["HELLO", "3", "AUTH", "default", "s3cret", "SETNAME", "me"]);
    assert!(matches!(hello, Reply::Map(_)), "{hello:?}");
    assert_eq!(wire.call(&["CLIENT", "GETNAME"]), Reply::Bytes(b"me".to_vec()));

    let mut wire = server.wire();
    wire.send_raw(b"*17\r\n");
    assert_eq!(
        error_of(wire.read()),
        "ERR Protocol error: unauthenticated multibulk length"
    );
}

#[test]
fn hello_selects_the_version_of_the_protocol() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    let hello = texts(wire.call(&["HELLO", "2"]));
    assert_eq!(hello[..6], ["server", "redis", "version", "7.0.15", "proto", "2"]);
    assert_eq!(
        error_of(wire.call(&["HELLO", "4"])),
        "NOPROTO unsupported protocol version"
    );
    assert_eq!(
        error_of(wire.call(&["HELLO", "x"])),
        "ERR Protocol version is not an integer or out of range"
    );
    assert_eq!(
        error_of(wire.call(&["HELLO", "3", "FOO"])),
        "ERR Syntax error in HELLO option 'FOO'"
    );
    wire.call(&["HSET", "h", "a", "1"]);
    assert_eq!(texts(wire.call(&["HGETALL", "h"])), ["a", "1"]);
    wire.call(&["HELLO", "3"]);
    let pair = (Reply::Bytes(b"a".to_vec()), Reply::Bytes(b"1".to_vec()));
    assert_eq!(wire.call(&["HGETALL", "h"]), Reply::Map(vec![pair]));
}

#[test]
fn commands_that_clients_send_when_they_connect_are_accepted() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    for words in [
        &["CLIENT", "SETINFO", "LIB-NAME", "x"][..],
        &["CLIENT", "SETNAME", "me"],
        &["CLIENT", "NO-EVICT", "ON"],
        &["SELECT", "0"],
    ] {
        assert_eq!(wire.call(words), Reply::OK, "{words:?}");
    }
    assert_eq!(error_of(wire.call(&["SELECT", "1"])), "ERR DB index is out of range");
    assert!(matches!(wire.call(&["CLIENT", "ID"]), Reply::Int(1..)));
    assert_eq!(wire.call(&["COMMAND"]), Reply::Array(Vec::new()));
    assert_eq!(wire.call(&["COMMAND", "DOCS"]), Reply::Array(Vec::new()));
    assert_eq!(wire.call(&["CONFIG", "GET", "save"]), Reply::Array(Vec::new()));
    assert!(error_of(wire.call(&["CONFIG", "SET", "save", "x"])).contains("'save'"));
    assert!(error_of(wire.call(&["WATCH", "a"])).contains("not offered"));
    assert!(error_of(wire.call(&["XADD", "a"])).starts_with("ERR unknown command 'XADD'"));
    assert_eq!(wire.call(&["QUIT"]), Reply::OK);
    assert!(wire.is_closed());
}

#[test]
fn info_names_the_versions_and_counts_calls() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    wire.call(&["SCRIPT", "LOAD", Script::LockInspect.text()]);
    for _ in 0..3 {
        wire.call(&["EVALSHA", Script::LockInspect.sha1(), "1", "stock"]);
    }
    wire.call(&["EVALSHA", "0000000000000000000000000000000000000000", "0"]);
    let info = |wire: &mut Wire, words: &[&str]| match wire.call(words) {
        Reply::Bytes(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    let all = info(&mut wire, &["INFO"]);
    for line in [
        "redis_version:7.0.15".to_owned(),
        format!("steadlock_version:{}", env!("CARGO_PKG_VERSION")),
        "role:master".to_owned(),
        "loading:0".to_owned(),
        "cluster_enabled:0".to_owned(),
        format!("tcp_port:{}", server.address.port()),
        "connected_clients:1".to_owned(),
        "cmdstat_evalsha:calls=4,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1".to_owned(),
        "cmdstat_pttl:calls=3,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0".to_owned(),
    ] {
        assert!(all.lines().any(|found| found == line), "{line} is missing in\n{all}");
    }
    let run_id = all.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    assert!(run_id.len() == 40 && run_id != "0".repeat(40), "{run_id}");
    let section = info(&mut wire, &["INFO", "replication"]);
    assert!(section.starts_with("# Replication\r\n") && !section.contains("redis_version"));
    wire.call(&["CONFIG", "RESETSTAT"]);
    assert!(!info(&mut wire, &["INFO", "commandstats"]).contains("cmdstat_evalsha"));
}

#[test]
fn messages_reach_subscribers_in_resp2() {
    let server = RunningServer::start();
    let (mut listener, mut other) = (server.wire(), server.wire());
    assert_eq!(texts(listener.call(&["SUBSCRIBE", "a", "b"])), ["subscribe", "a", "1"]);
    assert_eq!(texts(listener.read()), ["subscribe", "b", "2"]);
    assert_eq!(other.call(&["PUBLISH", "a", "1"]), Reply::Int(1));
    assert_eq!(texts(listener.read()), ["message", "a", "1"]);
    assert!(error_of(listener.call(&["GET", "a"])).starts_with("ERR Can't execute 'get': only"));
    assert_eq!(texts(listener.call(&["PING"])), ["pong", ""]);
    assert_eq!(texts(listener.call(&["UNSUBSCRIBE", "a"])), ["unsubscribe", "a", "1"]);
    assert_eq!(other.call(&["PUBLISH", "a", "2"]), Reply::Int(0));
    assert_eq!(texts(listener.call(&["UNSUBSCRIBE"])), ["unsubscribe", "b", "0"]);
    assert_eq!(texts(listener.call(&["UNSUBSCRIBE"])), ["unsubscribe", "Nil", "0"]);
    assert_eq!(listener.call(&["GET", "a"]), Reply::Nil);
}

#[test]
fn in_resp3_a_subscribed_connection_still_takes_commands() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    wire.call(&["HELLO", "3"]);
    assert_eq!(texts(wire.call(&["SUBSCRIBE", "a"])), ["subscribe", "a", "1"]);
    assert_eq!(wire.call(&["SET", "k", "v"]), Reply::OK);
    assert_eq!(wire.call(&["PING"]), Reply::Status("PONG".into()));
    wire.send(&["PUBLISH", "a", "own"]);
    let mut replies = [wire.read(), wire.read()];
    replies.sort_by_key(|reply| matches!(reply, Reply::Array(_)));
    assert_eq!(replies[0], Reply::Int(1));
    assert_eq!(texts(replies[1].clone()), ["message", "a", "own"]);
}

#[test]
fn a_closed_connection_is_unsubscribed() {
    let server = RunningServer::start();
    let mut listener = server.wire();
    listener.call(&["SUBSCRIBE", "a"]);
    drop(listener);
    let mut other = server.wire();
    // The server learns from the socket that the connection is closed, after a short time.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while other.call(&["PUBLISH", "a", "x"]) != Reply::Int(0) {
        assert!(std::time::Instant::now() < deadline, "still subscribed");
    }
}

#[test]
fn a_transaction_is_executed_without_other_commands_in_between() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    assert_eq!(error_of(wire.call(&["EXEC"])), "ERR EXEC without MULTI");
    assert_eq!(error_of(wire.call(&["DISCARD"])), "ERR DISCARD without MULTI");
    assert_eq!(wire.call(&["MULTI"]), Reply::OK);
    assert_eq!(error_of(wire.call(&["MULTI"])), "ERR MULTI calls can not be nested");
    assert_eq!(wire.call(&["INCR", "a"]), Reply::Status("QUEUED".into()));
    assert_eq!(wire.call(&["LPUSH", "a", "x"]), Reply::Status("QUEUED".into()));
    assert_eq!(server.wire().call(&["GET", "a"]), Reply::Nil);
    let Reply::Array(replies) = wire.call(&["EXEC"]) else {
        panic!("no list")
    };
    assert_eq!(replies[0], Reply::Int(1));
    assert!(error_of(replies[1].clone()).starts_with("WRONGTYPE"));

    wire.call(&["MULTI"]);
    assert!(error_of(wire.call(&["NOSUCH"])).starts_with("ERR unknown command"));
    assert_eq!(wire.call(&["INCR", "a"]), Reply::Status("QUEUED".into()));
    assert!(error_of(wire.call(&["EXEC"])).starts_with("EXECABORT"));
    wire.call(&["MULTI"]);
    wire.call(&["INCR", "a"]);
    assert_eq!(wire.call(&["DISCARD"]), Reply::OK);
    assert_eq!(wire.call(&["GET", "a"]), Reply::Bytes(b"1".to_vec()));
}

#[test]
fn the_port_and_the_process_share_one_store() {
    let server = RunningServer::start();
    let mut wire = server.wire();
    server
        .store
        .run_script(Script::LockAcquire, &["stock"], &["30000", "me"])
        .unwrap();
    assert_eq!(texts(wire.call(&["HGETALL", "stock"])), ["me", "1"]);
    wire.call(&["SUBSCRIBE", "stock:free"]);
    let released = server
        .store
        .run_script(Script::LockRelease, &["stock"], &["me", "stock:free"])
        .unwrap();
    assert_eq!(released, Reply::Array(vec![Reply::Int(1), Reply::Int(1)]));
    assert_eq!(texts(wire.read()), ["message", "stock:free", "0"]);
}

#[test]
fn the_redis_crate_can_use_the_server() {
    for protocol in ["resp2", "resp3"] {
        let server = RunningServer::with_password(Some("s3cret"));
        let url = format!("redis://:s3cret@{}/?protocol={protocol}", server.address);
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut run = |words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            for word in &words[1..] {
                command.arg(*word);
            }
            command.query::<redis::Value>(&mut connection).unwrap()
        };
        assert_eq!(run(&["SET", "stock", "7"]), redis::Value::Okay);
        assert_eq!(run(&["DECRBY", "stock", "2"]), redis::Value::Int(5));
        let sum = run(&[
            "EVAL",
            "return redis.call('INCRBY', KEYS[1], ARGV[1])",
            "1",
            "stock",
            "3",
        ]);
        assert_eq!(sum, redis::Value::Int(8));
        let mut pipe = redis::pipe();
        let counts: (i64, i64) = pipe.atomic().incr("a", 1).incr("a", 1).query(&mut connection).unwrap();
        assert_eq!(counts, (1, 2));
    }
}
