//! Tests of a semaphore's scripts at chosen times: its limit, and clocks that go back.

use steadlock_protocol::Script;
use steadlock_store::{Reply, ServerTime, Store};

/// A semaphore, and the current time in milliseconds.
struct Semaphore {
    store: Store,
    now: u64,
}

impl Semaphore {
    fn new() -> Self {
        Self {
            store: Store::new(),
            now: 1_795_000_000_000,
        }
    }

    fn run(&mut self, script: Script, keys: &[&str], args: &[&str]) -> Reply {
        self.store
            .run_script(script, keys, args, ServerTime::from_micros(self.now * 1_000))
    }

    /// Returns whether the attempt was granted, or the code of its error.
    fn acquire(&mut self, name: &str, wanted: &str, limit: &str) -> Result<bool, String> {
        match self.run(
            Script::SemaphoreAcquire,
            &["s"],
            &["30000", &owner(name), wanted, limit],
        ) {
            Reply::Array(parts) => Ok(parts[0] == Reply::Int(1)),
            Reply::Error(error) => Err(error.code),
            other => panic!("{other:?}"),
        }
    }

    fn set_limit(&mut self, limit: &str) -> Reply {
        self.run(Script::SemaphoreLimit, &["s"], &[limit, "channel"])
    }

    fn renew(&mut self, name: &str, permits: &str) -> Reply {
        self.run(Script::SemaphoreRenew, &["s"], &["30000", &owner(name), permits])
    }

    fn release(&mut self, name: &str, permits: &str) -> Reply {
        self.run(Script::SemaphoreRelease, &["s"], &[&owner(name), permits, "channel"])
    }

    /// Returns the number of held permits, and the limit.
    fn permits(&mut self) -> Option<(i64, i64)> {
        match self.run(Script::SemaphoreInspect, &["s"], &[]) {
            Reply::Array(parts) => match parts.as_slice() {
                [_, _, _, Reply::Int(held), Reply::Int(limit)] => Some((*held, *limit)),
                _ => None,
            },
            other => panic!("{other:?}"),
        }
    }
}

/// Returns an owner id for a short name.
fn owner(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("00000000-0000-4000-8000-{digits:0>12}:1")
}

fn ints(parts: &[i64]) -> Reply {
    Reply::Array(parts.iter().copied().map(Reply::Int).collect())
}

#[test]
fn a_lower_limit_revokes_no_permit_and_grants_none_until_enough_are_released() {
    let mut semaphore = Semaphore::new();
    assert_eq!(semaphore.acquire("a", "2", "3"), Ok(true));
    assert_eq!(semaphore.acquire("b", "1", "3"), Ok(true));
    assert_eq!(semaphore.set_limit("1"), ints(&[1, 0]));
    assert_eq!(semaphore.permits(), Some((3, 1)));
    assert_eq!(semaphore.acquire("c", "1", "3"), Err("STEADLOCK_LIMIT".into()));
    assert_eq!(semaphore.renew("a", "2"), ints(&[1]), "holders keep their permits");
    assert_eq!(semaphore.acquire("c", "1", "1"), Ok(false));
    assert_eq!(semaphore.release("a", "2"), ints(&[1, 0]));
    assert_eq!(semaphore.permits(), Some((1, 1)));
    assert_eq!(semaphore.acquire("c", "1", "1"), Ok(false));
    assert_eq!(semaphore.release("b", "1"), ints(&[1, 0]));
    assert_eq!(semaphore.acquire("c", "1", "1"), Ok(true));
}

#[test]
fn a_higher_limit_grants_at_once() {
    let mut semaphore = Semaphore::new();
    assert_eq!(semaphore.acquire("a", "1", "1"), Ok(true));
    assert_eq!(semaphore.acquire("b", "1", "1"), Ok(false));
    assert_eq!(semaphore.set_limit("1000000"), ints(&[1, 0]));
    assert_eq!(semaphore.acquire("b", "1", "1000000"), Ok(true));
    assert_eq!(semaphore.permits(), Some((2, 1_000_000)));
}

#[test]
fn a_repeated_attempt_with_the_old_limit_keeps_its_permits_and_the_new_limit() {
    let mut semaphore = Semaphore::new();
    assert_eq!(semaphore.acquire("a", "2", "3"), Ok(true));
    assert_eq!(semaphore.set_limit("1"), ints(&[1, 0]));
    assert_eq!(semaphore.acquire("a", "2", "3"), Ok(true));
    assert_eq!(semaphore.permits(), Some((2, 1)));
}

#[test]
fn without_a_held_permit_there_is_no_limit_to_change() {
    let mut semaphore = Semaphore::new();
    assert_eq!(semaphore.set_limit("2"), ints(&[0]));
    assert_eq!(semaphore.acquire("dead", "1", "3"), Ok(true));
    semaphore.now += 10_000;
    assert_eq!(semaphore.acquire("live", "1", "3"), Ok(true));
    semaphore.now += 20_000;
    assert_eq!(semaphore.set_limit("2"), ints(&[1, 0]), "one permit is still held");
    assert_eq!(semaphore.release("live", "1"), ints(&[1, 0]));
    assert_eq!(semaphore.set_limit("4"), ints(&[0]), "the last permit has expired");
    assert_eq!(semaphore.acquire("next", "5", "5"), Ok(true));
}

#[test]
fn a_limit_out_of_its_range_is_refused_before_the_first_write() {
    let mut semaphore = Semaphore::new();
    assert_eq!(semaphore.acquire("a", "1", "3"), Ok(true));
    for limit in ["0", "-1", "1000001", "2.5", "x", ""] {
        match semaphore.set_limit(limit) {
            Reply::Error(error) => assert_eq!(error.code, "STEADLOCK_ARGUMENT"),
            other => panic!("{limit:?}: {other:?}"),
        }
    }
    assert_eq!(semaphore.permits(), Some((1, 3)));
}

#[test]
fn permits_that_are_left_when_the_clock_goes_back_do_not_block_their_owner() {
    for others in [None, Some("b")] {
        let mut semaphore = Semaphore::new();
        // This hold keeps the key alive.
        let keeper = ["60000", &owner("keeper"), "1", "73"];
        semaphore.run(Script::SemaphoreAcquire, &["s"], &keeper);
        assert_eq!(semaphore.acquire("a", "70", "73"), Ok(true));
        semaphore.now += 31_000;
        // This attempt removes 64 of the expired permits, among them the first.
        assert_eq!(semaphore.acquire("c", "1", "73"), Ok(true));
        assert_eq!(semaphore.release("c", "1"), ints(&[1, 0]));
        semaphore.now -= 20_000;
        assert_eq!(semaphore.permits(), Some((1 + 6, 73)));
        if let Some(other) = others {
            assert_eq!(semaphore.acquire(other, "2", "73"), Ok(true));
        }
        assert_eq!(semaphore.acquire("a", "70", "73"), Ok(true));
        let others = if others.is_some() { 2 } else { 0 };
        assert_eq!(semaphore.permits(), Some((1 + 70 + others, 73)));
        assert_eq!(semaphore.renew("a", "70"), ints(&[1]));
        assert_eq!(semaphore.acquire("d", "3", "73"), Ok(false));
    }
}
