//! A key is a lock only if it has the form of a lock. Every script refuses all other keys and writes nothing.

use steadlock_protocol::Script;
use steadlock_store::{Reply, ServerTime, Store};

const NOW: ServerTime = ServerTime::from_micros(1_795_000_000_000_007);
const ME: &str = "00000000-0000-4000-8000-000000000001:1";
/// An owner id in Redisson's form, where the number is that of a thread.
const REDISSON: &str = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:7";
const FAR: &str = "99999999999999";

/// A script with its KEYS and ARGV.
type Verb = (Script, &'static [&'static str], &'static [&'static str]);

const FAIR: &[&str] = &["a", "token", "fair", "alive"];
const LOCK_VERBS: &[Verb] = &[
    (Script::LockAcquire, &["a", "token"], &["30000", ME]),
    (Script::LockRenew, &["a"], &["30000", ME]),
    (Script::LockRelease, &["a"], &[ME, "channel"]),
    (Script::LockInspect, &["a"], &[]),
    (Script::LockForce, &["a"], &["channel"]),
    (Script::FairAcquire, FAIR, &["30000", ME, "1", "0"]),
    (Script::FairAcquire, FAIR, &["30000", ME, "1", "1"]),
    (Script::FairPoll, FAIR, &[ME, "1"]),
    (Script::FairRelease, FAIR, &[ME, "channel"]),
    (Script::FairForce, FAIR, &["channel"]),
];
const MUTEX_VERBS: &[Verb] = &[
    (Script::MutexAcquire, &["a", "token"], &["30000", ME]),
    (Script::MutexRenew, &["a"], &["30000", ME]),
    (Script::MutexRelease, &["a"], &[ME, "channel"]),
    (Script::MutexInspect, &["a"], &[]),
    (Script::MutexForce, &["a"], &["channel"]),
];
const STATE_VERBS: &[Verb] = &[
    (Script::ReadAcquire, &["rw", "readers"], &["30000", ME, "1", ""]),
    (Script::WriteAcquire, &["rw", "readers", "token"], &["30000", ME, "1"]),
    (Script::WriteRenew, &["rw"], &["30000", ME]),
    (Script::WriteRelease, &["rw"], &[ME, "channel"]),
    (Script::ReadWriteInspect, &["rw"], &["write"]),
    (Script::ReadWriteForce, &["rw"], &["write", "channel"]),
];
const READERS_VERBS: &[Verb] = &[
    (Script::ReadAcquire, &["rw", "readers"], &["30000", ME, "1", ""]),
    (Script::WriteAcquire, &["rw", "readers", "token"], &["30000", ME, "1"]),
    (Script::ReadRenew, &["readers"], &["30000", ME]),
    (Script::ReadRelease, &["rw", "readers"], &[ME, "channel"]),
    (Script::ReadWriteInspect, &["readers"], &["read"]),
    (Script::ReadWriteForce, &["readers"], &["read", "channel"]),
];
const PERMITS_VERBS: &[Verb] = &[
    (Script::SemaphoreAcquire, &["permits"], &["30000", ME, "1", "2"]),
    (Script::SemaphoreRenew, &["permits"], &["30000", ME, "1"]),
    (Script::SemaphoreRelease, &["permits"], &[ME, "1", "channel"]),
    (Script::SemaphoreInspect, &["permits"], &[]),
    (Script::SemaphoreLimit, &["permits"], &["3", "channel"]),
    (Script::SemaphoreForce, &["permits"], &["channel"]),
];

/// Creates a store in which this command has run.
fn store(command: &[&str]) -> Store {
    let mut store = Store::new();
    let reply = store.execute(command, NOW);
    assert!(!matches!(reply, Reply::Error(_)), "{command:.80?}: {reply:?}");
    store
}

/// Returns the whole contents of the store.
fn all(store: &mut Store) -> Vec<Vec<Reply>> {
    let Reply::Array(keys) = store.execute(&["KEYS", "*"], NOW) else {
        panic!("no keys");
    };
    let mut all = Vec::new();
    for key in keys {
        let Reply::Bytes(name) = key else { panic!("{key:?}") };
        let mut ask = |words: &[&[u8]]| store.execute(words, NOW);
        all.push(vec![
            Reply::Bytes(name.clone()),
            ask(&[b"PTTL", &name]),
            ask(&[b"GET", &name]),
            ask(&[b"HGETALL", &name]),
            ask(&[b"ZRANGE", &name, b"0", b"-1", b"WITHSCORES"]),
        ]);
    }
    all
}

fn run(store: &mut Store, (script, keys, args): Verb) -> Reply {
    store.run_script(script, keys, args, NOW)
}

/// Checks that each verb is refused with one of these codes, with a short error, and changes nothing.
fn every_verb_refuses(verbs: &[Verb], command: &[&str], codes: &[&str]) {
    for verb in verbs {
        let mut store = store(command);
        let before = all(&mut store);
        match run(&mut store, *verb) {
            Reply::Error(error) => {
                assert!(
                    codes.contains(&error.code.as_str()),
                    "{} {command:.80?}: {error:?}",
                    verb.0.file()
                );
                assert!(error.to_string().len() < 500, "{} {command:.80?}", verb.0.file());
            }
            other => panic!("{} takes {command:.80?} for a lock: {other:?}", verb.0.file()),
        }
        assert_eq!(all(&mut store), before, "{} {command:.80?}", verb.0.file());
    }
}

const FORM: &[&str] = &["STEADLOCK_FORM"];
const TYPE: &[&str] = &["WRONGTYPE"];
/// The codes for a lock of another kind. The verbs of an owner need not know which kind it is.
const KIND_OR_TYPE: &[&str] = &["STEADLOCK_KIND", "WRONGTYPE"];

#[test]
fn a_hash_with_another_programs_data_is_no_lock() {
    let long = "x".repeat(1_000_000);
    let owner_twice = format!("{REDISSON}:1");
    for fields in [
        &["name", "a", "mail", "b"][..],
        &["visits", "3"],
        &[REDISSON, "1", "note", "b"],
        &["", "1", REDISSON, "1"],
        &[REDISSON, "0"],
        &[REDISSON, "-1"],
        &[REDISSON, "x"],
        &[REDISSON, ""],
        &["", "1"],
        &["1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11", "1"],
        &["1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:", "1"],
        &["1b7a31c48a5e4f0a9c552f1d4f0a3b11:7", "1"],
        &[&owner_twice, "1"],
        &["mode", "write", REDISSON, "1"],
        &["a\nb\u{1b}[2J", "1"],
        &[&long, "1"],
        &[REDISSON, &long],
    ] {
        every_verb_refuses(LOCK_VERBS, &[&["HSET", "a"], fields].concat(), FORM);
    }
    every_verb_refuses(LOCK_VERBS, &["SET", "a", ME], KIND_OR_TYPE);
    every_verb_refuses(LOCK_VERBS, &["SET", "a", "data"], TYPE);
    every_verb_refuses(LOCK_VERBS, &["ZADD", "a", "1", ME], TYPE);
}

#[test]
fn a_hash_with_thousands_of_fields_is_recognized_by_two() {
    let fields: Vec<String> = (0..5_000).map(|number| format!("field:{number}")).collect();
    let fields = fields.iter().flat_map(|field| [field.as_str(), "1"]);
    let command: Vec<&str> = ["HSET", "a"].into_iter().chain(fields).collect();
    for verb in LOCK_VERBS {
        let mut store = store(&command);
        assert!(matches!(run(&mut store, *verb), Reply::Error(_)), "{}", verb.0.file());
        assert_eq!(store.execute(&["HLEN", "a"], NOW), Reply::Int(5_000));
    }
}

#[test]
fn a_record_of_redisson_counts_as_a_holder() {
    for owner in [REDISSON, "1B7A31C4-8a5e-4f0a-9c55-2f1d4f0a3b11:-9223372036854775808"] {
        for count in ["1", "17"] {
            let command = ["HSET", "a", owner, count];
            let held = Reply::Array(vec![Reply::Int(0), Reply::Int(-1), Reply::Bytes(owner.into())]);
            let others = Reply::Array(vec![Reply::Int(2)]);
            let forced = Reply::Array(vec![Reply::Int(1), Reply::Int(0)]);
            for (verb, expected) in LOCK_VERBS.iter().zip([&held, &others, &others, &held, &forced]) {
                assert_eq!(run(&mut store(&command), *verb), *expected, "{}", verb.0.file());
            }
            let mut forced_fair = store(&command);
            assert_eq!(run(&mut forced_fair, LOCK_VERBS[9]), forced);
            assert_eq!(forced_fair.execute(&["EXISTS", "a"], NOW), Reply::Int(0));
        }
    }
}

#[test]
fn a_mutex_can_be_any_text_and_is_reported_shortened() {
    for owner in ["", "x", "a\nb"] {
        let held = Reply::Array(vec![Reply::Int(0), Reply::Int(-1), Reply::Bytes(owner.into())]);
        let others = Reply::Array(vec![Reply::Int(2)]);
        let forced = Reply::Array(vec![Reply::Int(1), Reply::Int(0)]);
        for (verb, expected) in MUTEX_VERBS.iter().zip([&held, &others, &others, &held, &forced]) {
            let mut store = store(&["SET", "a", owner]);
            assert_eq!(run(&mut store, *verb), *expected, "{} {owner:?}", verb.0.file());
        }
    }
    every_verb_refuses(MUTEX_VERBS, &["HSET", "a", ME, "1"], KIND_OR_TYPE);
    every_verb_refuses(MUTEX_VERBS, &["HSET", "a", "name", "1"], TYPE);
    let long = "x".repeat(1_000_000);
    for verb in [MUTEX_VERBS[0], MUTEX_VERBS[3]] {
        let Reply::Array(parts) = run(&mut store(&["SET", "a", &long]), verb) else {
            panic!("{}", verb.0.file());
        };
        assert_eq!(parts[2], Reply::Bytes(vec![b'x'; 256]));
    }
}

#[test]
fn the_state_of_a_read_write_lock_has_no_other_fields() {
    let long = "x".repeat(1_000_000);
    for fields in [
        &["name", "a"][..],
        &["mode", "read", REDISSON, "1"],
        &["writer", "bob", "writer_until", FAR],
        &["writer", &long, "writer_until", FAR],
        &["writer", ME, "writer_until", "soon"],
        &["writer", REDISSON, "writer_until", "1e300"],
        &["mark", "bob", "mark_until", FAR],
        &["refused", &long],
        &["blocked_since", "", "name", "a"],
    ] {
        let verbs = STATE_VERBS
            .iter()
            .filter(|verb| !(fields[1] == ME && verb.0 == Script::WriteRelease));
        let verbs: Vec<Verb> = verbs
            .filter(|verb| !(fields[1] == ME && verb.0 == Script::WriteRenew))
            .copied()
            .collect();
        every_verb_refuses(&verbs, &[&["HSET", "rw"], fields].concat(), FORM);
    }
    every_verb_refuses(STATE_VERBS, &["SET", "rw", "x"], TYPE);
}

#[test]
fn a_member_of_readers_or_permits_must_be_an_owner_id() {
    let long = "x".repeat(1_000_000);
    for member in ["bob", "", &long, "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11"] {
        for score in [FAR, "5", "-inf"] {
            every_verb_refuses(READERS_VERBS, &["ZADD", "readers", score, member], FORM);
        }
        for score in [FAR, "1500000"] {
            every_verb_refuses(PERMITS_VERBS, &["ZADD", "permits", score, member], FORM);
            let beside = ["ZADD", "permits", score, member, "1", "limit"];
            every_verb_refuses(PERMITS_VERBS, &beside, &["STEADLOCK_FORM", "STEADLOCK_LIMIT"]);
        }
    }
    every_verb_refuses(READERS_VERBS, &["SET", "readers", "x"], TYPE);
    every_verb_refuses(PERMITS_VERBS, &["SET", "permits", "x"], TYPE);
}

#[test]
fn a_key_that_is_no_queue_does_not_stop_a_release_and_is_not_changed() {
    for (key, word) in [("fair", "queue"), ("alive", "waiters")] {
        let wait: Verb = (Script::FairPoll, FAIR, &[ME, "1"]);
        let mut foreign = store(&["SET", key, word]);
        assert!(matches!(run(&mut foreign, wait), Reply::Error(_)), "{key}");
        assert_eq!(foreign.execute(&["PTTL", key], NOW), Reply::Int(-1), "{key}");
        assert_eq!(
            foreign.execute(&["EXISTS", "fair", "alive"], NOW),
            Reply::Int(1),
            "{key}"
        );
    }
    for (key, command) in [("fair", &["SET", "fair", "x"][..]), ("token", &["RPUSH", "token", "x"])] {
        for verb in [LOCK_VERBS[8], LOCK_VERBS[9]] {
            let mut held = store(&["HSET", "a", ME, "1"]);
            held.execute(command, NOW);
            let released = Reply::Array(vec![Reply::Int(1), Reply::Int(0)]);
            assert_eq!(run(&mut held, verb), released, "{key}: {}", verb.0.file());
            assert_eq!(held.execute(&["EXISTS", "a", key], NOW), Reply::Int(1), "{key}");
        }
    }
}

#[test]
fn a_member_of_the_queue_that_is_no_owner_id_is_skipped() {
    let mut queued = store(&["ZADD", "fair", "1", "bob", "2", "1b7a31c4"]);
    queued.execute(&["HSET", "alive", "bob", "1795000000000000 1"], NOW);
    let reply = run(&mut queued, (Script::FairAcquire, FAIR, &["30000", ME, "0", "1"]));
    assert_eq!(reply, Reply::Array(vec![Reply::Int(1), Reply::Bytes(Vec::new())]));
    assert_eq!(queued.execute(&["HEXISTS", "a", ME], NOW), Reply::Int(1));
}
