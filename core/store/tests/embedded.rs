//! The shared store, as the clients' memory transport uses it.

use std::sync::{Arc, Mutex, mpsc};

use steadlock_protocol::Script;
use steadlock_store::{Embedded, Reply};

const LOCK: &[&str] = &["stock"];

/// An owner id.
const ME: &str = "00000000-0000-4000-8000-000000000001:1";
/// An owner id of another client.
const YOU: &str = "00000000-0000-4000-8000-000000000002:1";

#[test]
fn a_lock_is_acquired_and_released() {
    let store = Embedded::new();
    let taken = store
        .run_script(Script::LockAcquire, &["stock", "token"], &["30000", ME])
        .unwrap();
    let Reply::Array(items) = taken else {
        panic!("{taken:?}")
    };
    assert_eq!(items[0], Reply::Int(1));

    let refused = store
        .run_script(Script::LockAcquire, &["stock", "token"], &["30000", YOU])
        .unwrap();
    let Reply::Array(items) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(items[0], Reply::Int(0));
    assert_eq!(items[2], Reply::Bytes(ME.into()));

    let released = store
        .run_script(Script::LockRelease, &["stock"], &[ME, "channel"])
        .unwrap();
    assert_eq!(released, Reply::Array(vec![Reply::Int(1), Reply::Int(0)]));
    assert_eq!(store.execute(&["EXISTS", "stock"]).unwrap(), Reply::Int(0));
}

#[test]
fn a_refusal_has_a_code() {
    let store = Embedded::new();
    store.execute(&["SET", "stock", "1"]).unwrap();
    let error = store.run_script(Script::LockRenew, LOCK, &["30000", ME]).unwrap_err();
    assert_eq!(error.code, "WRONGTYPE");
    let error = store.run_script(Script::LockRenew, LOCK, &["0", ME]).unwrap_err();
    assert_eq!(error.code, "STEADLOCK_ARGUMENT");
}

#[test]
fn stores_with_the_same_name_are_one_store() {
    let first = Embedded::named("embedded-test");
    first.execute(&["SET", "key", "value"]).unwrap();
    let second = Embedded::named("embedded-test");
    assert_eq!(
        second.execute(&["GET", "key"]).unwrap(),
        Reply::Bytes(b"value".to_vec())
    );
    assert_eq!(Embedded::named("another").execute(&["GET", "key"]).unwrap(), Reply::Nil);

    drop((first, second));
    assert_eq!(
        Embedded::named("embedded-test").execute(&["GET", "key"]).unwrap(),
        Reply::Nil
    );
}

#[test]
fn a_subscriber_receives_messages_until_it_is_dropped() {
    let store = Embedded::new();
    let (received, messages) = mpsc::channel();
    let subscriber = store.connect(Box::new(move |channel, payload| {
        let _ = received.send((channel.to_vec(), payload.to_vec()));
    }));
    assert_eq!(store.execute(&["PUBLISH", "a", "early"]).unwrap(), Reply::Int(0));
    subscriber.subscribe(b"a");
    subscriber.subscribe(b"a");
    assert_eq!(store.execute(&["PUBLISH", "a", "1"]).unwrap(), Reply::Int(1));
    assert_eq!(store.execute(&["PUBLISH", "b", "2"]).unwrap(), Reply::Int(0));
    assert_eq!(messages.try_recv().unwrap(), (b"a".to_vec(), b"1".to_vec()));
    subscriber.unsubscribe(b"a");
    assert_eq!(store.execute(&["PUBLISH", "a", "3"]).unwrap(), Reply::Int(0));
    subscriber.subscribe(b"a");
    drop(subscriber);
    assert_eq!(store.execute(&["PUBLISH", "a", "4"]).unwrap(), Reply::Int(0));
    assert!(messages.try_recv().is_err());
}

#[test]
fn a_listener_may_call_the_store() {
    let store = Embedded::new();
    let received = Arc::new(Mutex::new(Vec::new()));
    let subscriber = {
        let (store, received) = (store.clone(), Arc::clone(&received));
        move |_: &[u8], payload: &[u8]| {
            received.lock().unwrap().push(payload.to_vec());
            if payload == b"ping" {
                store.execute(&["PUBLISH", "a", "pong"]).unwrap();
            }
        }
    };
    let subscriber = store.connect(Box::new(subscriber));
    subscriber.subscribe(b"a");
    store.execute(&["PUBLISH", "a", "ping"]).unwrap();
    assert_eq!(*received.lock().unwrap(), [b"ping".to_vec(), b"pong".to_vec()]);
}

#[test]
fn a_store_can_load_many_scripts() {
    let store = Embedded::new();
    for number in 0..20_000 {
        let text = format!("return {number}");
        assert_eq!(store.execute(&["EVAL", &text, "0"]).unwrap(), Reply::Int(number));
    }
    assert_eq!(store.execute(&["SCRIPT", "FLUSH"]).unwrap(), Reply::OK);
    let gone = store.execute(&["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"]);
    assert_eq!(gone.unwrap_err().code, "NOSCRIPT");
}

#[test]
fn a_listener_that_panics_does_not_stop_the_others() {
    let store = Embedded::new();
    let (received, messages) = mpsc::channel();
    let subscriber = store.connect(Box::new(move |_, payload| {
        assert_ne!(payload, b"bad", "the test's own panic");
        received.send(payload.to_vec()).unwrap();
    }));
    subscriber.subscribe(b"a");
    let publisher = store.clone();
    let publishing = std::thread::spawn(move || publisher.execute(&["PUBLISH", "a", "bad"]));
    assert!(publishing.join().is_err());
    store.execute(&["PUBLISH", "a", "good"]).unwrap();
    assert_eq!(messages.try_recv().unwrap(), b"good");
}

#[test]
fn messages_of_many_publishers_arrive_one_at_a_time_and_none_is_lost() {
    let store = Embedded::new();
    let received = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&received);
    let subscriber = store.connect(Box::new(move |_, payload| {
        // `try_lock` fails if two messages are delivered at the same time.
        listener.try_lock().unwrap().push(payload.to_vec());
    }));
    subscriber.subscribe(b"a");
    std::thread::scope(|scope| {
        for publisher in 0..4 {
            let store = store.clone();
            scope.spawn(move || {
                for number in 0..500 {
                    let payload = format!("{publisher}:{number:03}");
                    store.execute(&["PUBLISH", "a", &payload]).unwrap();
                }
            });
        }
    });
    let received = received.lock().unwrap();
    assert_eq!(received.len(), 2_000);
    for publisher in 0..4 {
        let prefix = format!("{publisher}:").into_bytes();
        let own: Vec<_> = received.iter().filter(|payload| payload.starts_with(&prefix)).collect();
        assert!(own.is_sorted(), "publisher {publisher}");
    }
}
