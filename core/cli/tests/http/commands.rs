//! Commands, pipelines, transactions and scripts.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::support::Served;

#[test]
fn a_command_is_a_json_array_or_a_path() {
    let served = Served::start(&[]);
    for (head, body, status, expected) in [
        ("POST /", r#"["SET","k","v"]"#, 200, json!({"result": "OK"})),
        ("GET /get/k", "", 200, json!({"result": "v"})),
        ("HEAD /set/head/1", "", 200, Value::Null),
        ("GET /get/head", "", 200, json!({"result": "1"})),
        ("PUT /SET/p", "body", 200, json!({"result": "OK"})),
        ("POST /set/q?EX=100&NX", "{\"a\": 1}", 200, json!({"result": "OK"})),
        ("GET /ttl/q", "", 200, json!({"result": 100})),
        ("GET /get/q", "", 200, json!({"result": "{\"a\": 1}"})),
        ("GET /mget/k/p/none", "", 200, json!({"result": ["v", "body", null]})),
        ("GET /set/a%2Fb/c%20d", "", 200, json!({"result": "OK"})),
        ("POST /", r#"["GET","a/b"]"#, 200, json!({"result": "c d"})),
        ("POST /", r#"["SET","n",1.50]"#, 200, json!({"result": "OK"})),
        ("GET /get/n", "", 200, json!({"result": "1.50"})),
        ("POST /", r#"["SET","t",true]"#, 200, json!({"result": "OK"})),
        ("GET /get/t", "", 200, json!({"result": "true"})),
        ("POST /", r#"["ZADD","z","1.5","m"]"#, 200, json!({"result": 1})),
        ("GET /zscore/z/m", "", 200, json!({"result": "1.5"})),
        ("POST /", r#"["HSET","h","f","1","g","2"]"#, 200, json!({"result": 2})),
        ("GET /hgetall/h", "", 200, json!({"result": ["f", "1", "g", "2"]})),
        ("GET /ping", "", 200, json!({"result": "PONG"})),
    ] {
        let answer = served.ask(head, body.as_bytes());
        assert_eq!(answer.status, status, "{head} {body}: {}", answer.text());
        if !head.starts_with("HEAD") {
            assert_eq!(answer.json(), expected, "{head} {body}");
            assert_eq!(answer.header("content-type"), Some("application/json"));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
        }
    }
}

#[test]
fn a_failed_command_is_an_error_with_a_status() {
    let served = Served::start(&[]);
    served.result(r#"["SET","k","v"]"#);
    for (head, body, status, error) in [
        ("POST /", r#"["NOSUCH","a"]"#, 400, "ERR unknown command 'NOSUCH'"),
        (
            "POST /",
            r#"["GET"]"#,
            400,
            "ERR wrong number of arguments for 'get' command",
        ),
        ("POST /", r#"["LPUSH","k",1]"#, 400, "WRONGTYPE "),
        ("POST /", "[]", 400, "ERR empty command"),
        ("POST /", "", 400, "ERR failed to read the command: EOF"),
        ("POST /", r#"{"a":1}"#, 400, "ERR failed to read the command: "),
        (
            "POST /",
            r#"["SET","k",null]"#,
            400,
            "ERR failed to read the command: null is not an argument",
        ),
        (
            "POST /",
            r#"["SET","k",["v"]]"#,
            400,
            "ERR failed to read the command: arrays",
        ),
        (
            "POST /pipeline",
            r#"["GET","k"]"#,
            400,
            "ERR failed to read the commands: ",
        ),
        (
            "POST /pipeline",
            "[]",
            400,
            "ERR failed to read the commands: there are no commands",
        ),
        ("GET /nosuch/a", "", 400, "ERR unknown command 'nosuch'"),
        ("GET /get/%zz", "", 400, "ERR the path or the query cannot be decoded"),
        ("GET /", "", 405, "ERR this method is not allowed here"),
        ("GET /pipeline", "", 405, "ERR this method is not allowed here"),
        ("DELETE /get/k", "", 405, "ERR this method is not allowed here"),
        ("PATCH /", "", 405, "ERR this method is not allowed here"),
        (
            "GET /get/k\nUpstash-Encoding: hex",
            "",
            400,
            "ERR the only Upstash-Encoding",
        ),
        (
            "GET /get/k\nUpstash-Response-Format: x",
            "",
            400,
            "ERR the only Upstash-Response-Format",
        ),
    ] {
        let answer = served.ask(head, body.as_bytes());
        assert_eq!(answer.status, status, "{head} {body}: {}", answer.text());
        assert!(answer.error().starts_with(error), "{head} {body}: {}", answer.error());
        assert_eq!(answer.header("allow").is_some(), status == 405, "{head}");
    }
}

#[test]
fn commands_that_change_a_connection_are_refused() {
    let served = Served::start(&[]);
    let commands = [
        r#"["SUBSCRIBE","c"]"#,
        r#"["UNSUBSCRIBE"]"#,
        r#"["MULTI"]"#,
        r#"["EXEC"]"#,
        r#"["HELLO","3"]"#,
        r#"["AUTH","x"]"#,
        r#"["CLIENT","ID"]"#,
        r#"["WATCH","k"]"#,
        r#"["QUIT"]"#,
        r#"["RESET"]"#,
    ];
    for command in commands {
        let answer = served.post(command);
        assert_eq!(answer.status, 400, "{command}");
        assert!(
            answer
                .error()
                .ends_with("is for connections of the Redis protocol only"),
            "{command}: {}",
            answer.error()
        );
        let all = served.ask("POST /multi-exec", format!("[[\"SET\",\"k\",1],{command}]").as_bytes());
        assert!(all.error().starts_with("EXECABORT "), "{command}: {}", all.error());
    }
    assert_eq!(served.result(r#"["EXISTS","k"]"#), 0);
}

#[test]
fn a_pipeline_answers_each_command_in_its_place() {
    let served = Served::start(&[]);
    let body = r#"[["SET","k",1],["INCR","k"],["NOSUCH"],["LPUSH","k","x"],[],["GET","k"]]"#;
    let answer = served.ask("POST /pipeline", body.as_bytes());
    assert_eq!(answer.status, 200);
    let json = answer.json();
    assert_eq!(json[0], json!({"result": "OK"}));
    assert_eq!(json[1], json!({"result": 2}));
    for (place, error) in [(2, "ERR unknown command"), (3, "WRONGTYPE"), (4, "ERR empty command")] {
        let text = json[place]["error"].as_str().unwrap();
        assert!(text.starts_with(error), "{text}");
    }
    assert_eq!(json[5], json!({"result": "2"}));
}

#[test]
fn a_transaction_with_a_command_that_cannot_be_executed_executes_none() {
    let served = Served::start(&[]);
    for wrong in [r#"["NOSUCH"]"#, r#"["GET"]"#, r#"["MULTI"]"#, "[]"] {
        let answer = served.ask("POST /multi-exec", format!("[[\"SET\",\"k\",1],{wrong}]").as_bytes());
        assert_eq!(answer.status, 400, "{wrong}");
        let error = answer.error();
        assert!(
            error.starts_with("EXECABORT Transaction discarded because of: ERR "),
            "{wrong}: {error}"
        );
    }
    assert_eq!(served.result(r#"["EXISTS","k"]"#), 0);
    // A command that fails during execution does not stop the others.
    let body = br#"[["SET","k","a"],["INCR","k"],["GET","k"]]"#;
    let json = served.ask("POST /multi-exec", body).json();
    assert_eq!(json[0], json!({"result": "OK"}));
    assert_eq!(json[1]["error"], "ERR value is not an integer or out of range");
    assert_eq!(json[2], json!({"result": "a"}));
}

#[test]
fn no_other_command_runs_between_those_of_a_transaction() {
    const ROUNDS: i64 = 50;
    let served = Served::start(&[]);
    served.result(r#"["SET","n",0]"#);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..ROUNDS {
                    let body = br#"[["GET","n"],["INCR","n"],["INCRBY","n",2],["GET","n"]]"#;
                    let json = served.ask("POST /multi-exec", body).json();
                    let number = |place: usize| json[place]["result"].as_str().unwrap().parse::<i64>().unwrap();
                    assert_eq!(json[1]["result"], number(0) + 1, "{json}");
                    assert_eq!(number(3), number(0) + 3, "{json}");
                }
            });
        }
        scope.spawn(|| {
            start.wait();
            for _ in 0..ROUNDS {
                assert!(served.send_inline("INCR n").starts_with(':'));
            }
        });
        scope.spawn(|| {
            start.wait();
            for _ in 0..ROUNDS {
                served.result(r#"["INCR","n"]"#);
            }
        });
    });
    assert_eq!(
        served.result(r#"["GET","n"]"#),
        (2 * 3 * ROUNDS + 2 * ROUNDS).to_string()
    );
}

#[test]
fn scripts_give_numbers_nothing_and_lists() {
    let served = Served::start(&[]);
    let script = "return {1, 'a', false, {KEYS[1], ARGV[1]}, redis.call('INCR', KEYS[1])}";
    let eval = json!(["EVAL", script, 1, "k", 7]);
    assert_eq!(served.result(&eval.to_string()), json!([1, "a", null, ["k", "7"], 1]));
    let sha = served.result(&json!(["SCRIPT", "LOAD", "return ARGV[1]"]).to_string());
    let evalsha = json!(["EVALSHA", sha, 0, "x"]);
    assert_eq!(served.result(&evalsha.to_string()), "x");
    let missing = json!(["EVALSHA", "0".repeat(40), 0]);
    let answer = served.post(&missing.to_string());
    assert_eq!(answer.status, 400);
    assert!(answer.error().starts_with("NOSCRIPT "), "{}", answer.error());
    let endless = served.post(r#"["EVAL","while true do end",0]"#);
    assert_eq!(endless.status, 400);
    assert!(endless.error().starts_with("BUSY "), "{}", endless.error());
    assert_eq!(
        served.result(r#"["EVAL","return redis.status_reply('FINE')",0]"#),
        "FINE"
    );
}

#[test]
fn strings_are_sent_in_base64_or_as_resp() {
    let served = Served::start(&[]);
    let ask = |head: &str, body: &str| served.ask(head, body.as_bytes());
    let bytes = [0, 0xff, b'"', b'\n'];
    assert_eq!(served.ask("POST /set/raw", &bytes).json(), json!({"result": "OK"}));
    assert_eq!(ask("GET /get/raw", "").json(), json!({"result": "\u{0}\u{fffd}\"\n"}));
    let encoded = "\nUpstash-Encoding: base64";
    for (head, body, expected) in [
        ("GET /get/raw", "", json!({"result": "AP8iCg=="})),
        ("POST /", r#"["SET","k","OK"]"#, json!({"result": "OK"})),
        ("GET /get/k", "", json!({"result": "T0s="})),
        ("GET /ping", "", json!({"result": "UE9ORw=="})),
        ("GET /strlen/k", "", json!({"result": 2})),
        ("GET /mget/k/none", "", json!({"result": ["T0s=", null]})),
        (
            "POST /pipeline",
            r#"[["SET","k","v"],["GET","k"],["LPUSH","k","x"]]"#,
            json!([
                {"result": "OK"},
                {"result": "dg=="},
                {"error": "WRONGTYPE Operation against a key holding the wrong kind of value"},
            ]),
        ),
    ] {
        assert_eq!(ask(&format!("{head}{encoded}"), body).json(), expected, "{head}");
    }
    let redis = "\nUpstash-Response-Format: resp2";
    let answer = ask(&format!("GET /get/raw{redis}"), "");
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.bytes(), b"$4\r\n\x00\xff\"\n\r\n");
    let answer = ask(&format!("POST /pipeline{redis}"), r#"[["PING"],["NOSUCH"]]"#);
    assert_eq!(answer.status, 200);
    assert!(answer.text().starts_with("+PONG\r\n-ERR unknown"), "{}", answer.text());
    let answer = ask(&format!("POST /multi-exec{redis}"), r#"[["PING"]]"#);
    assert_eq!(answer.json(), json!([{"result": "PONG"}]));
    let answer = ask(&format!("GET /get/k{redis}{encoded}"), "");
    assert_eq!(answer.status, 400);
}

#[test]
fn both_ports_serve_the_same_store() {
    let served = Served::start(&[]);
    served.result(r#"["SET","k","from http"]"#);
    assert_eq!(served.send_inline("STRLEN k"), ":9");
    assert_eq!(served.send_inline("SET k redis"), "+OK");
    assert_eq!(served.result(r#"["GET","k"]"#), "redis");
}

#[test]
fn http_clients_are_counted_like_others() {
    let served = Served::start(&[]);
    let clients = served.result(r#"["INFO","clients"]"#);
    assert!(clients.as_str().unwrap().contains("connected_clients:1"), "{clients}");
}
