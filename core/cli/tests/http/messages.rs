//! Subscriptions as server-sent events.

use serde_json::json;

use crate::support::{Served, secret};

#[test]
fn messages_are_events_in_the_order_of_publishing() {
    let served = Served::start(&[]);
    let mut listener = served.listen("/subscribe/chan/other%20one");
    assert_eq!(listener.event().as_deref(), Some("subscribe,chan,1"));
    assert_eq!(listener.event().as_deref(), Some("subscribe,other one,2"));
    assert_eq!(served.ask("POST /publish/chan/hello", b"").json(), json!({"result": 1}));
    assert_eq!(served.send_inline("PUBLISH chan \"a, b\""), ":1");
    assert_eq!(served.send_inline("PUBLISH elsewhere x"), ":0");
    served.result(r#"["PUBLISH","other one","{\"n\":1}"]"#);
    served.result(r#"["PUBLISH","chan","two\nlines"]"#);
    served.result(r#"["EVAL","redis.call('PUBLISH', 'chan', 'by a script')",0]"#);
    for expected in [
        "message,chan,hello",
        "message,chan,a, b",
        "message,other one,{\"n\":1}",
        "message,chan,two\nlines",
        "message,chan,by a script",
    ] {
        assert_eq!(listener.event().as_deref(), Some(expected));
    }
}

#[test]
fn a_subscriber_that_disconnects_is_removed() {
    let served = Served::start(&[]);
    let mut listener = served.listen("/subscribe/chan");
    assert_eq!(listener.event().as_deref(), Some("subscribe,chan,1"));
    assert_eq!(served.result(r#"["PUBSUB","NUMSUB","chan"]"#), json!(["chan", 1]));
    drop(listener);
    // With each call the server runs one round, in which it can notice that the subscriber is gone.
    while served.result(r#"["PUBSUB","NUMSUB","chan"]"#) != json!(["chan", 0]) {}
}

#[test]
fn an_event_source_gives_its_token_in_the_query() {
    let file = secret("event-token", "s3cret+/=\n");
    let served = Served::start(&["--http-token-file", &file]);
    assert_eq!(served.ask("GET /subscribe/chan", b"").status, 401);
    assert_eq!(served.ask("GET /subscribe/chan?_token=s3cret", b"").status, 401);
    let mut listener = served.listen("/subscribe/chan?_token=s3cret%2B%2F%3D");
    assert_eq!(listener.event().as_deref(), Some("subscribe,chan,1"));
    assert_eq!(served.send_inline("PUBLISH chan x"), ":1");
    assert_eq!(listener.event().as_deref(), Some("message,chan,x"));
}

#[test]
fn a_subscriber_that_does_not_read_is_disconnected_and_others_receive_all() {
    const MESSAGES: usize = 200;
    let served = Served::start(&[]);
    let mut lazy = served.listen("/subscribe/chan");
    let mut eager = served.listen("/subscribe/chan");
    assert_eq!(eager.event().as_deref(), Some("subscribe,chan,1"));
    let payload = "x".repeat(100_000);
    let publish = json!(["PUBLISH", "chan", payload]).to_string();
    for number in 0..MESSAGES {
        served.result(&publish);
        let event = eager.event().unwrap_or_else(|| panic!("cut off at message {number}"));
        assert_eq!(event.len(), "message,chan,".len() + payload.len());
    }
    // The subscriber still receives what was on its way when it was cut off, but not all messages.
    let received = std::iter::from_fn(|| lazy.event()).count();
    assert!(received < MESSAGES, "{received}");
}
