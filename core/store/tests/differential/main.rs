//! Sends the same calls to the store and to a real redis-server. Replies and state must agree.
//!
//! - `STEADLOCK_SEED` repeats a run. The seed is printed at the start and with every failure.
//! - `STEADLOCK_STEPS` sets the length of a run; the default is 25,000.

mod compare;
mod fixed;
mod generate;
#[path = "../support/mod.rs"]
mod support;

use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use steadlock_store::{Reply, ServerTime, Store};

use crate::compare::{Check, differences, resp2};
use crate::generate::{Generator, Step};
use crate::support::{RealRedis, Wire};

/// Both servers, side by side.
struct Pair {
    store: Store,
    real: Wire,
    _server: RealRedis,
}

impl Pair {
    fn start() -> Self {
        let server = RealRedis::start();
        Self {
            store: Store::new(),
            real: Wire::connect(server.address()),
            _server: server,
        }
    }

    /// Returns the replies of the store and of Redis.
    fn call(&mut self, words: &[Vec<u8>]) -> (Reply, Reply) {
        let ours = self.store.execute(words, wall_clock());
        let theirs = self.real.call(words);
        (resp2(ours), theirs)
    }

    /// Returns the first difference between the two states, if there is one.
    fn state_differences(&mut self) -> Option<String> {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let (ours, theirs) = self.call(&words(&[b"KEYS", b"*"]));
        if let Some(difference) = differences(&ours, &theirs, Check::Unordered) {
            return Some(format!("keys: {difference}"));
        }
        let Reply::Array(keys) = ours else {
            return Some(format!("KEYS gave {ours:?}"));
        };
        for key in keys {
            let Reply::Bytes(key) = key else { continue };
            let (kind, _) = self.call(&words(&[b"TYPE", &key]));
            let (dump, check): (&[&[u8]], Check) = match &kind {
                Reply::Status(kind) if kind == "string" => (&[b"GET", &key], Check::Times),
                Reply::Status(kind) if kind == "hash" => (&[b"HGETALL", &key], Check::Times),
                Reply::Status(kind) if kind == "list" => (&[b"LRANGE", &key, b"0", b"-1"], Check::Exact),
                Reply::Status(kind) if kind == "set" => (&[b"SMEMBERS", &key], Check::Unordered),
                _ => (&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"], Check::Times),
            };
            for (dump, check) in [(dump, check), (&[b"PTTL", &key], Check::Times)] {
                let dump = words(dump);
                let (ours, theirs) = self.call(&dump);
                if let Some(difference) = differences(&ours, &theirs, check) {
                    return Some(format!("{}: {difference}", generate::show(&dump)));
                }
            }
        }
        None
    }
}

#[test]
fn random_calls_agree() {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
        Err(_) => default,
    };
    let seed = number("STEADLOCK_SEED", 1);
    let steps = number("STEADLOCK_STEPS", 25_000);
    say(&format!("seed {seed}, {steps} steps (STEADLOCK_SEED, STEADLOCK_STEPS)"));

    let mut pair = Pair::start();
    let mut generator = Generator::new(seed, wall_clock());
    let mut recent: Vec<String> = Vec::new();
    for step_number in 1..=steps {
        let Step { words, check, wait } = generator.step();
        recent.push(generate::show(&words));
        let (ours, theirs) = pair.call(&words);
        let mut difference = differences(&ours, &theirs, check);
        if let Some(wait) = wait {
            // The real server has its own clock, so a short TTL always comes with a wait that is longer.
            let until = Instant::now() + wait;
            while let Some(rest) = until
                .checked_duration_since(Instant::now())
                .filter(|rest| !rest.is_zero())
            {
                std::thread::sleep(rest);
            }
        }
        if difference.is_none() && (step_number % 250 == 0 || step_number == steps) {
            difference = pair.state_differences();
        }
        if let Some(difference) = difference {
            let from = recent.len().saturating_sub(12);
            panic!(
                "seed {seed}, step {step_number}: {difference}\nthe last calls:\n{}",
                recent[from..].join("\n")
            );
        }
    }
    say(&format!("{steps} steps with seed {seed}: replies and state agree"));
}

#[test]
fn chosen_calls_agree() {
    let mut pair = Pair::start();
    let mut failures = Vec::new();
    let mut check = |pair: &mut Pair, words: &[Vec<u8>], check| {
        let (ours, theirs) = pair.call(words);
        if let Some(difference) = differences(&ours, &theirs, check) {
            failures.push(format!("{}: {difference}", generate::show(words)));
        }
    };
    for line in fixed::COMMANDS {
        check(&mut pair, &fixed::words(line), Check::Exact);
    }
    for (line, rule) in fixed::TIMES {
        check(&mut pair, &fixed::words(line), *rule);
    }
    for script in fixed::SCRIPTS {
        for words in [
            vec![b"DEL".to_vec(), b"k".to_vec()],
            vec![b"SET".to_vec(), b"k".to_vec(), b"v".to_vec()],
            vec![
                b"EVAL".to_vec(),
                script.as_bytes().to_vec(),
                b"1".to_vec(),
                b"k".to_vec(),
                b"b".to_vec(),
            ],
        ] {
            check(&mut pair, &words, Check::Exact);
        }
    }
    assert!(
        failures.is_empty(),
        "{} calls differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert_eq!(pair.state_differences(), None);
}

#[test]
fn scripts_see_what_redis_offers_and_no_more() {
    let mut pair = Pair::start();
    let names = "local names = {} for name in pairs(_G) do names[#names + 1] = name end table.sort(names) return names";
    let (ours, theirs) = pair.call(&[b"EVAL".to_vec(), names.into(), b"0".to_vec()]);
    let (Reply::Array(ours), Reply::Array(theirs)) = (ours, theirs) else {
        panic!("no lists");
    };
    let extra: Vec<_> = ours.iter().filter(|name| !theirs.contains(name)).collect();
    assert!(extra.is_empty(), "beyond Redis: {extra:?}");
    let missing: Vec<String> = theirs
        .iter()
        .filter(|name| !ours.contains(name))
        .map(|name| match name {
            Reply::Bytes(name) => String::from_utf8_lossy(name).into_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    // Libraries that Steadlock's scripts do not use, functions that load or measure code, and Redis' own error handler.
    let left_out = [
        "__redis__err__handler",
        "bit",
        "cjson",
        "cmsgpack",
        "collectgarbage",
        "gcinfo",
        "load",
        "loadstring",
        "struct",
    ];
    assert_eq!(missing, left_out);
}

/// Prints a line even if the test passes. The test harness hides the output of `println!`.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "differential test: {text}");
}

fn wall_clock() -> ServerTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    ServerTime::from_micros(u64::try_from(since_epoch.as_micros()).unwrap())
}
