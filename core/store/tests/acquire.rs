//! The acquire script, at a time of the test's choice.

use leasehold_protocol::Script;
use leasehold_store::{Reply, ServerTime, Store};

/// Microseconds of one digit: as text they have to be padded.
const NOW: u64 = 1_795_000_000_000_007;

/// Acquires once, after `stored` was put where the last token is kept.
fn acquire(stored: Option<&str>) -> (Store, Reply) {
    let mut store = Store::new();
    let now = ServerTime::from_micros(NOW);
    if let Some(stored) = stored {
        store.execute(&["SET", "token", stored], now);
    }
    let reply = store.run_script(Script::LockAcquire, &["lock", "token"], &["30000", "me"], now);
    (store, reply)
}

#[test]
fn a_token_is_the_clock_or_one_more_than_the_last() {
    for (stored, token, ttl) in [
        (None, "1795000000000007", 60_000),
        (Some("5"), "1795000000000007", 60_000),
        (Some("0000000000000005"), "1795000000000007", 60_000),
        (Some("999999999999999"), "1795000000000007", 60_000),
        (Some("1795000000000006"), "1795000000000007", 60_000),
        (Some("1795000000000007"), "1795000000000008", 60_001),
        (Some("1795000001000007"), "1795000001000008", 61_001),
        (Some("9007199254740990"), "9007199254740991", 7_212_199_314_741),
    ] {
        let (mut store, reply) = acquire(stored);
        let token = Reply::Bytes(token.into());
        assert_eq!(reply, Reply::Array(vec![Reply::Int(1), token.clone()]), "{stored:?}");
        let now = ServerTime::from_micros(NOW);
        assert_eq!(store.execute(&["GET", "token"], now), token, "{stored:?}");
        assert_eq!(store.execute(&["PTTL", "token"], now), Reply::Int(ttl), "{stored:?}");
    }
}

#[test]
fn what_is_no_token_is_refused_and_left_alone() {
    for stored in [
        "9007199254740991",
        "9007199254740992",
        "9999999999999999",
        "10000000000000000",
        "00000000000000005",
        "",
        " 5",
        "5\n",
        "-1",
        "1.5",
        "1e3",
        "0x10",
        "x",
    ] {
        let (mut store, reply) = acquire(Some(stored));
        let refusal = reply.into_result().unwrap_err().to_string();
        assert!(refusal.contains("LEASEHOLD_TOKEN"), "{stored:?}: {refusal}");
        let now = ServerTime::from_micros(NOW);
        assert_eq!(store.execute(&["GET", "token"], now), Reply::Bytes(stored.into()));
        assert_eq!(store.execute(&["EXISTS", "lock"], now), Reply::Int(0), "{stored:?}");
    }
}

#[test]
fn asking_again_gives_the_same_token() {
    let (mut store, first) = acquire(None);
    let later = ServerTime::from_micros(NOW + 1_000_000);
    let ask =
        |store: &mut Store, owner| store.run_script(Script::LockAcquire, &["lock", "token"], &["30000", owner], later);
    assert_eq!(ask(&mut store, "me"), first);
    let held = Reply::Array(vec![Reply::Int(0), Reply::Int(30_000), Reply::Bytes(b"me".to_vec())]);
    assert_eq!(ask(&mut store, "you"), held);
}

#[test]
fn neither_asking_again_nor_renewing_makes_a_record_shorter() {
    let (mut store, _) = acquire(None);
    let now = ServerTime::from_micros(NOW);
    let run = |store: &mut Store, script, lease| {
        store.run_script(script, &["lock"], &[lease, "me"], now);
        store.execute(&["PTTL", "lock"], now)
    };
    for script in [Script::LockAcquire, Script::LockRenew] {
        assert_eq!(run(&mut store, script, "500"), Reply::Int(30_000), "{script:?}");
    }
    assert_eq!(run(&mut store, Script::LockAcquire, "31000"), Reply::Int(31_000));
    assert_eq!(run(&mut store, Script::LockRenew, "32000"), Reply::Int(32_000));
}

#[test]
fn a_lease_out_of_range_is_refused_and_nothing_is_written() {
    for lease in ["0", "-1", "007", "1.5", "x", "", "86400001", "100000000", "9e4"] {
        let mut store = Store::new();
        let now = ServerTime::from_micros(NOW);
        let reply = store.run_script(Script::LockAcquire, &["lock", "token"], &[lease, "me"], now);
        let refusal = reply.into_result().unwrap_err().to_string();
        assert!(refusal.contains("LEASEHOLD_ARGUMENT"), "{lease:?}: {refusal}");
        assert_eq!(
            store.execute(&["KEYS", "*"], now),
            Reply::Array(Vec::new()),
            "{lease:?}"
        );
    }
    for lease in ["1", "9", "86400000"] {
        let mut store = Store::new();
        let now = ServerTime::from_micros(NOW);
        store.run_script(Script::LockAcquire, &["lock", "token"], &[lease, "me"], now);
        let ttl = Reply::Int(lease.parse().unwrap());
        assert_eq!(store.execute(&["PTTL", "lock"], now), ttl);
    }
}
