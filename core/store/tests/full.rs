//! Scripts on a full store: a waiter learns who holds the lock, no write is left half done, and a lock that is held can
//! be renewed and released.

use steadlock_protocol::Script;
use steadlock_store::{Reply, ServerTime, Store};

const NOW: ServerTime = ServerTime::from_micros(1_795_000_000_000_007);
const FREE: &str = "";
/// An owner id.
const ME: &str = "00000000-0000-4000-8000-000000000001:1";
/// An owner id of another client.
const YOU: &str = "00000000-0000-4000-8000-000000000002:1";

/// An attempt: its script, its keys, and the arguments after the lease and the owner.
type Attempt = (Script, &'static [&'static str], &'static [&'static str]);

const LOCK: Attempt = (Script::LockAcquire, &["a", "token"], &[]);
const MUTEX: Attempt = (Script::MutexAcquire, &["a", "token"], &[]);
const FAIR: Attempt = (Script::FairAcquire, &["a", "token", "fair", "alive"], &["1", "1"]);
const READ: Attempt = (Script::ReadAcquire, &["rw", "readers"], &["1", ""]);
const WRITE: Attempt = (Script::WriteAcquire, &["rw", "readers", "token"], &["1"]);
const PERMITS: Attempt = (Script::SemaphoreAcquire, &["permits"], &["2", "2"]);

fn ask(store: &mut Store, (script, keys, rest): Attempt, owner: &str) -> Reply {
    let args = [&["30000", owner], rest].concat();
    store.run_script(script, keys, &args, NOW)
}

/// Returns all keys of the store with their TTLs.
fn dump(store: &mut Store) -> Vec<(Reply, Reply)> {
    let Reply::Array(keys) = store.execute(&["KEYS", "*"], NOW) else {
        panic!("no keys");
    };
    let mut all = Vec::new();
    for key in keys {
        let Reply::Bytes(name) = &key else { panic!("{key:?}") };
        let ttl = store.execute(&[b"PTTL", name.as_slice()], NOW);
        all.push((key, ttl));
    }
    all
}

fn code(reply: &Reply) -> &str {
    match reply {
        Reply::Error(error) => &error.code,
        _ => FREE,
    }
}

#[test]
fn a_refused_attempt_reports_the_holder_and_every_key_has_a_ttl() {
    for (held, wanted) in [
        (LOCK, LOCK),
        (MUTEX, MUTEX),
        (FAIR, FAIR),
        (LOCK, FAIR),
        (WRITE, WRITE),
        (READ, WRITE),
        (WRITE, READ),
        (PERMITS, PERMITS),
    ] {
        let mut store = Store::new();
        assert_eq!(code(&ask(&mut store, held, ME)), FREE);
        store.set_full(true);
        let reply = ask(&mut store, wanted, YOU);
        let Reply::Array(parts) = &reply else {
            panic!("{} behind {}: {reply:?}", wanted.0.file(), held.0.file());
        };
        assert_eq!(parts[0], Reply::Int(0), "{}", wanted.0.file());
        assert_eq!(parts[2], Reply::Bytes(ME.into()), "{}", wanted.0.file());
        for (key, ttl) in dump(&mut store) {
            assert_ne!(ttl, Reply::Int(-1), "{key:?}");
        }
    }
}

#[test]
fn an_attempt_on_a_free_lock_is_refused_and_nothing_is_written() {
    for attempt in [LOCK, MUTEX, FAIR, READ, WRITE, PERMITS] {
        let mut store = Store::new();
        store.set_full(true);
        assert_eq!(code(&ask(&mut store, attempt, ME)), "OOM", "{}", attempt.0.file());
        assert_eq!(dump(&mut store), Vec::new(), "{}", attempt.0.file());
        store.set_full(false);
        assert_eq!(code(&ask(&mut store, attempt, ME)), FREE, "{}", attempt.0.file());
    }
}

#[test]
fn a_fair_lock_is_handed_over_in_order() {
    const FIRST: &str = "00000000-0000-4000-8000-000000000001:1";
    const SECOND: &str = "00000000-0000-4000-8000-000000000002:1";
    const THIRD: &str = "00000000-0000-4000-8000-000000000003:1";
    let mut store = Store::new();
    ask(&mut store, FAIR, FIRST);
    store.set_full(true);
    for waiter in [SECOND, THIRD] {
        let Reply::Array(parts) = ask(&mut store, FAIR, waiter) else {
            panic!("refused");
        };
        assert_eq!(parts[0], Reply::Int(0));
    }
    for (holder, next) in [(FIRST, SECOND), (SECOND, THIRD)] {
        store.run_script(Script::FairRelease, FAIR.1, &[holder, "channel"], NOW);
        assert_eq!(store.execute(&["HEXISTS", "a", next], NOW), Reply::Int(1), "{next}");
    }
}
