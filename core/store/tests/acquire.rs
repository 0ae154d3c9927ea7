//! Tests of the acquire scripts at chosen times.

use steadlock_protocol::Script;
use steadlock_store::{Reply, ServerTime, Store};

/// The microseconds of this time have one digit, so as text they must be padded.
const NOW: u64 = 1_795_000_000_000_007;

/// An owner id.
const ME: &str = "00000000-0000-4000-8000-000000000001:1";
/// An owner id of another client.
const YOU: &str = "00000000-0000-4000-8000-000000000002:1";
/// An owner id of a third client.
const THEY: &str = "00000000-0000-4000-8000-000000000003:1";

/// Acquires once, after setting the key of the last token to `stored`.
fn acquire(stored: Option<&str>) -> (Store, Reply) {
    let mut store = Store::new();
    let now = ServerTime::from_micros(NOW);
    if let Some(stored) = stored {
        store.execute(&["SET", "token", stored], now);
    }
    let reply = store.run_script(Script::LockAcquire, &["lock", "token"], &["30000", ME], now);
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
fn an_invalid_token_is_refused_and_not_changed() {
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
        assert!(refusal.contains("STEADLOCK_TOKEN"), "{stored:?}: {refusal}");
        let now = ServerTime::from_micros(NOW);
        assert_eq!(store.execute(&["GET", "token"], now), Reply::Bytes(stored.into()));
        assert_eq!(store.execute(&["EXISTS", "lock"], now), Reply::Int(0), "{stored:?}");
    }
}

#[test]
fn a_repeated_attempt_gets_the_same_hold_and_a_higher_token() {
    let (mut store, first) = acquire(None);
    let later = ServerTime::from_micros(NOW + 1_000_000);
    let ask =
        |store: &mut Store, owner| store.run_script(Script::LockAcquire, &["lock", "token"], &["30000", owner], later);
    let again = ask(&mut store, ME);
    assert!(token_of(&again) > token_of(&first), "{first:?}, then {again:?}");
    let held = Reply::Array(vec![Reply::Int(0), Reply::Int(30_000), Reply::Bytes(ME.into())]);
    assert_eq!(ask(&mut store, YOU), held);
}

/// Returns the token of a grant: the last text of the reply that is a number.
fn token_of(reply: &Reply) -> u64 {
    let Reply::Array(parts) = reply else {
        panic!("{reply:?} grants nothing");
    };
    let text = parts.get(if parts.len() == 4 { 2 } else { 1 });
    match text {
        Some(Reply::Bytes(token)) => std::str::from_utf8(token).unwrap().parse().unwrap(),
        _ => panic!("{reply:?} has no token"),
    }
}

/// An attempt: script, keys and arguments. Then the script and the arguments of the second attempt.
type FirstAndAgain<'a> = (Script, &'a [&'a str], &'a [&'a str], Script, &'a [&'a str]);

/// All sides and kinds of one name share one sequence of tokens. An owner that repeats its attempt after a grant of
/// another kind must not receive the token of that grant.
#[test]
fn a_repeated_attempt_never_gets_the_token_of_another_kind_of_lock() {
    let now = ServerTime::from_micros(NOW);
    let fair = ["lock", "token", "queue", "alive"];
    let first_and_again: [FirstAndAgain<'_>; 5] = [
        (
            Script::LockAcquire,
            &["lock", "token"],
            &["9000", ME],
            Script::LockAcquire,
            &["9000", ME],
        ),
        (
            Script::MutexAcquire,
            &["lock", "token"],
            &["9000", ME],
            Script::MutexAcquire,
            &["9000", ME],
        ),
        (
            Script::FairAcquire,
            &fair,
            &["9000", ME, "1", "1"],
            Script::FairAcquire,
            &["9000", ME, "1", "1"],
        ),
        (
            Script::FairAcquire,
            &fair,
            &["9000", ME, "1", "1"],
            Script::FairPoll,
            &[ME, "1"],
        ),
        (
            Script::WriteAcquire,
            &["rw", "readers", "token"],
            &["9000", ME, "1"],
            Script::WriteAcquire,
            &["9000", ME, "1"],
        ),
    ];
    for (script, keys, arguments, again, question) in first_and_again {
        let mut store = Store::new();
        let first = token_of(&store.run_script(script, keys, arguments, now));
        let other = match script {
            Script::WriteAcquire => store.run_script(Script::LockAcquire, &["lock", "token"], &["9000", YOU], now),
            _ => store.run_script(
                Script::WriteAcquire,
                &["rw", "readers", "token"],
                &["9000", YOU, "1"],
                now,
            ),
        };
        let other = token_of(&other);
        let own = token_of(&store.run_script(again, keys, question, now));
        assert!(
            first < other && other < own,
            "{script:?}, {again:?}: {first}, {other}, {own}"
        );
        // A poll whose reply has no token must not use one up.
        let before = store.execute(&["GET", "token"], now);
        if again == Script::FairPoll {
            for question in [[ME, "0"], [THEY, "1"]] {
                let Reply::Array(parts) = store.run_script(again, keys, &question, now) else {
                    panic!("a poll replies a list");
                };
                assert_eq!(parts[2], Reply::Bytes(Vec::new()));
            }
            assert_eq!(store.execute(&["GET", "token"], now), before);
        }
    }
}

#[test]
fn neither_a_repeated_attempt_nor_a_renewal_shortens_a_record() {
    let (mut store, _) = acquire(None);
    let now = ServerTime::from_micros(NOW);
    let run = |store: &mut Store, script, lease| {
        store.run_script(script, &["lock"], &[lease, ME], now);
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
        let reply = store.run_script(Script::LockAcquire, &["lock", "token"], &[lease, ME], now);
        let refusal = reply.into_result().unwrap_err().to_string();
        assert!(refusal.contains("STEADLOCK_ARGUMENT"), "{lease:?}: {refusal}");
        assert_eq!(
            store.execute(&["KEYS", "*"], now),
            Reply::Array(Vec::new()),
            "{lease:?}"
        );
    }
    for lease in ["1", "9", "86400000"] {
        let mut store = Store::new();
        let now = ServerTime::from_micros(NOW);
        store.run_script(Script::LockAcquire, &["lock", "token"], &[lease, ME], now);
        let ttl = Reply::Int(lease.parse().unwrap());
        assert_eq!(store.execute(&["PTTL", "lock"], now), ttl);
    }
}

#[test]
fn one_call_is_for_as_many_permits_and_waiters_as_are_allowed() {
    let mut store = Store::new();
    let now = ServerTime::from_micros(NOW);
    let reply = |parts: &[i64]| Reply::Array(parts.iter().copied().map(Reply::Int).collect());
    for (script, args, expected) in [
        (Script::SemaphoreRenew, &["40000", ME, "1000"][..], reply(&[1])),
        (Script::SemaphoreRelease, &[ME, "1000", "channel"], reply(&[1, 0])),
    ] {
        store.run_script(
            Script::SemaphoreAcquire,
            &["permits"],
            &["30000", ME, "1000", "1000"],
            now,
        );
        assert_eq!(store.execute(&["ZCARD", "permits"], now), Reply::Int(1_001));
        assert_eq!(store.run_script(script, &["permits"], args, now), expected);
    }
    assert_eq!(store.execute(&["EXISTS", "permits"], now), Reply::Int(0));

    let keys = ["lock", "token", "queue:fair", "alive"];
    store.run_script(Script::FairAcquire, &keys, &["30000", YOU, "0", "0"], now);
    let waiters: Vec<String> = (0..128)
        .map(|number| format!("00000000-0000-4000-8000-000000000004:{number}"))
        .collect();
    let named: Vec<&str> = waiters.iter().flat_map(|waiter| [waiter.as_str(), "1"]).collect();
    for _ in 0..2 {
        store.run_script(Script::FairPoll, &keys, &named, now);
        let queue = store.execute(&["ZRANGE", "queue:fair", "0", "-1"], now);
        let in_order = waiters.iter().map(|waiter| Reply::Bytes(waiter.as_str().into()));
        assert_eq!(queue, Reply::Array(in_order.collect()));
    }
}
