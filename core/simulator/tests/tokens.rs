//! Histories of two kinds of lock that have one name and do not exclude each other: a plain kind beside the write side.
//! Their tokens form one sequence. Tokens rise, and no owner is given the token of another, even when a call is
//! repeated after a lost reply.

use std::collections::BTreeMap;

use steadlock_protocol::Script;
use steadlock_store::{Reply, ServerTime, Store};

/// A script, a part of its text, and the text that replaces it.
type Change = (Script, &'static str, &'static str);

/// Second attempts that return the stored token.
const MISTAKES: [Change; 5] = [
    (
        Script::LockAcquire,
        "token = draw_token(",
        "token = mine and stored or draw_token(",
    ),
    (
        Script::MutexAcquire,
        "token = draw_token(",
        "token = holder and stored or draw_token(",
    ),
    (
        Script::WriteAcquire,
        "token = draw_token(",
        "token = mine and stored or draw_token(",
    ),
    (
        Script::FairAcquire,
        "draw_again(owner, stored, redis.call('TIME')) or ''}",
        "stored or ''}",
    ),
    (
        Script::FairPoll,
        "granted and drawn or draw_again(holder, stored, time)",
        "redis.call('GET', KEYS[2])",
    ),
];

/// The number of seeds within which a mistake must be found.
const SEEDS: u64 = 50;

#[test]
fn no_history_gives_an_owner_the_token_of_another() {
    for seed in 0..2_000 {
        if let Err(what) = history(seed, None) {
            panic!("seed {seed}: {what}");
        }
    }
}

#[test]
fn second_attempts_that_return_the_stored_token_are_found() {
    for mistake in &MISTAKES {
        let found = (0..SEEDS).find_map(|seed| Some((seed, history(seed, Some(mistake)).err()?)));
        let (seed, what) = found.unwrap_or_else(|| panic!("not found within {SEEDS} seeds: {mistake:?}"));
        println!("{:?}: seed {seed}: {what}", mistake.0);
    }
}

/// A second answer can come after the first one, whose number others may have seen already.
#[test]
fn a_leader_that_asks_again_keeps_the_number_of_its_term() {
    let keys = ["leader", "token", "queue:leader-fair", "alive", "term"];
    let (one, other) = (
        "00000000-0000-4000-8000-000000000001:1",
        "00000000-0000-4000-8000-000000000002:1",
    );
    let mut store = Store::new();
    let mut call =
        |script, arguments: &[&str], now| run(&mut store, None, script, &keys, arguments, ServerTime::from_micros(now));
    let ask = ["30000", one, "1", "0"];
    let first = token_for(one, &call(Script::FairAcquire, &ask, 1_000_000));
    assert!(first.is_some());
    assert_eq!(token_for(one, &call(Script::FairAcquire, &ask, 2_000_000)), first);
    assert_eq!(token_for(one, &call(Script::FairPoll, &[one, "1"], 3_000_000)), first);
    call(Script::FairRelease, &[one, "channel", ""], 4_000_000);
    let ask = ["30000", other, "1", "0"];
    let second = token_for(other, &call(Script::FairAcquire, &ask, 5_000_000));
    assert!(second > first);
    assert_eq!(
        token_for(other, &call(Script::FairPoll, &[other, "1"], 6_000_000)),
        second
    );
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }
}

/// One of the kinds of the name: its scripts and keys, and its holder.
struct Side {
    acquire: Script,
    release: Script,
    keys: &'static [&'static str],
    holder: Option<String>,
}

fn sides(random: &mut Random) -> [Side; 2] {
    let plain = match random.below(3) {
        0 => (Script::LockAcquire, Script::LockRelease, &["name", "token"][..]),
        1 => (Script::MutexAcquire, Script::MutexRelease, &["name", "token"][..]),
        _ => (
            Script::FairAcquire,
            Script::FairRelease,
            &["name", "token", "queue:fair", "alive"][..],
        ),
    };
    let write = (
        Script::WriteAcquire,
        Script::WriteRelease,
        &["rw", "readers", "token"][..],
    );
    [plain, write].map(|(acquire, release, keys)| Side {
        acquire,
        release,
        keys,
        holder: None,
    })
}

fn history(seed: u64, mistake: Option<&Change>) -> Result<(), String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut store, mut sides) = (Store::new(), sides(&mut random));
    let (mut now, mut last, mut owners) = (1_795_000_000_000_000, 0, 0);
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..60 {
        now += match random.below(40) {
            0 => 90_000_000,
            _ => random.below(3_000),
        };
        let side = &mut sides[usize::try_from(random.below(2)).unwrap()];
        let is_fair = side.acquire == Script::FairAcquire;
        let mut run = |script: Script, keys: &[&str], arguments: &[&str]| {
            run(
                &mut store,
                mistake,
                script,
                keys,
                arguments,
                ServerTime::from_micros(now),
            )
        };
        let (owner, reply) = match side.holder.clone() {
            // The holder releases the lock, or has died.
            Some(owner) if random.below(4) == 0 => {
                let keys = if is_fair { side.keys } else { &side.keys[..1] };
                run(side.release, keys, &[&owner, "channel"]);
                side.holder = None;
                continue;
            }
            Some(owner) if is_fair && random.below(2) == 0 => {
                let reply = run(Script::FairPoll, side.keys, &[&owner, "1"]);
                (owner, reply)
            }
            holder => {
                let owner = holder.unwrap_or_else(|| {
                    owners += 1;
                    format!("00000000-0000-4000-8000-000000000001:{owners}")
                });
                let arguments = ["30000", owner.as_str(), "1", "0"];
                let arguments = if is_fair { &arguments[..] } else { &arguments[..3] };
                let reply = run(side.acquire, side.keys, arguments);
                (owner, reply)
            }
        };
        let Some(token) = token_for(&owner, &reply) else {
            side.holder = None;
            continue;
        };
        side.holder = Some(owner.clone());
        let before = own.insert(owner.clone(), token);
        // An owner may get its own token again if no other was drawn since. Otherwise its token must exceed all earlier
        // ones.
        if token < last || (token == last && before != Some(token)) {
            return Err(format!(
                "{owner} has {before:?}, and gets {token} after {last} was given to another"
            ));
        }
        last = token;
    }
    Ok(())
}

/// Returns the token that a reply gives an owner.
fn token_for(owner: &str, reply: &Reply) -> Option<u64> {
    let Reply::Array(parts) = reply else { return None };
    let text = match parts.as_slice() {
        [Reply::Int(1), Reply::Bytes(token)] => token,
        [Reply::Int(_), Reply::Bytes(holder), Reply::Bytes(token), _] if holder == owner.as_bytes() => token,
        _ => return None,
    };
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn run(
    store: &mut Store,
    mistake: Option<&Change>,
    script: Script,
    keys: &[&str],
    arguments: &[&str],
    now: ServerTime,
) -> Reply {
    match mistake.filter(|(of, ..)| *of == script) {
        None => store.run_script(script, keys, arguments, now),
        Some((_, right, wrong)) => {
            assert_eq!(
                script.text().matches(right).count(),
                1,
                "{} has {right:?} once",
                script.file()
            );
            let text = script.text().replace(right, wrong);
            let count = keys.len().to_string();
            let words = ["EVAL", &text, &count].into_iter();
            let words: Vec<&str> = words
                .chain(keys.iter().copied())
                .chain(arguments.iter().copied())
                .collect();
            store.execute(&words, now)
        }
    }
}
