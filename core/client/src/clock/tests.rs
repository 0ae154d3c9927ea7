use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::*;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// A day within the lifetime of this program.
const TODAY: i64 = NEVER_SET + 300 * DAY;

thread_local! {
    static SETTABLE_CLOCK: RefCell<Option<Rc<SettableClock>>> = const { RefCell::new(None) };
}

/// The distance by which a test has set this process's wall clock forward.
static STEPPED: AtomicI64 = AtomicI64::new(0);

/// Sets the wall clock of the whole process forward. Only for a test that runs in its own process.
pub(crate) fn step_wall_clock(by: Duration) {
    STEPPED.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
}

/// Runs `work` in a process of its own; `test` is the test's full name.
pub(crate) fn in_a_process_of_its_own(test: &str, work: impl FnOnce()) {
    const ALONE: &str = "STEADLOCK_TEST_ALONE";
    if std::env::var_os(ALONE).is_some_and(|alone| alone == test) {
        return work();
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, test)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The system's clocks, with the wall clock set forward by a test.
struct SteppedSystem;

impl ClockSources for SteppedSystem {
    fn steady(&self) -> u64 {
        System.steady()
    }

    fn wall(&self) -> i64 {
        System.wall() + STEPPED.load(Ordering::SeqCst)
    }

    fn wall_coarse(&self) -> i64 {
        System.wall_coarse() + STEPPED.load(Ordering::SeqCst)
    }
}

/// A wall clock of one thread, which a test can set.
pub(crate) struct SettableClock {
    clock: Clock,
    ahead: Cell<i64>,
}

impl SettableClock {
    /// Sets this thread's wall clock forward.
    pub(crate) fn step(&self, by: Duration) {
        self.ahead
            .set(self.ahead.get() + i64::try_from(by.as_micros()).unwrap());
    }
}

impl ClockSources for SettableClock {
    fn steady(&self) -> u64 {
        System.steady()
    }

    fn wall(&self) -> i64 {
        System.wall() + self.ahead.get()
    }
}

pub(super) fn test_now() -> Option<Instant> {
    let stepped = || (STEPPED.load(Ordering::SeqCst) != 0).then(|| CLOCK.now(&SteppedSystem));
    SETTABLE_CLOCK
        .try_with(|settable| settable.borrow().clone())
        .ok()
        .flatten()
        .map(|settable| settable.clock.now(&*settable))
        .or_else(stepped)
}

/// Runs `work` on this thread, whose wall clock `work` can set forward.
pub(crate) fn with_wall_clock<T>(work: impl FnOnce(&SettableClock) -> T) -> T {
    let settable = Rc::new(SettableClock {
        clock: Clock::new(),
        ahead: Cell::new(0),
    });
    SETTABLE_CLOCK.set(Some(Rc::clone(&settable)));
    now();
    let result = work(&settable);
    SETTABLE_CLOCK.set(None);
    result
}

/// Both clocks of a machine, which the test moves.
struct Machine {
    clock: Clock,
    steady: AtomicU64,
    wall: AtomicI64,
    /// The time that passes on both clocks between two readings.
    stall: Cell<i64>,
}

impl ClockSources for Machine {
    fn steady(&self) -> u64 {
        self.advance(self.stall.get());
        self.steady.load(Ordering::SeqCst)
    }

    fn wall(&self) -> i64 {
        self.advance(self.stall.get());
        self.wall.load(Ordering::SeqCst)
    }
}

impl Machine {
    /// Makes a machine that has been up for an hour.
    fn at(wall: i64) -> Self {
        let machine = Self {
            clock: Clock::new(),
            steady: AtomicU64::new(3_600_000_000),
            wall: AtomicI64::new(wall),
            stall: Cell::new(0),
        };
        machine.now();
        machine
    }

    fn now(&self) -> i64 {
        i64::try_from(self.clock.now(self).as_micros()).unwrap()
    }

    /// Returns how far `work` moves the engine's clock.
    fn moved_by(&self, work: impl FnOnce(&Self)) -> i64 {
        let before = self.now();
        work(self);
        self.now() - before
    }

    fn advance(&self, micros: i64) {
        self.steady.fetch_add(micros.unsigned_abs(), Ordering::SeqCst);
        self.step_wall(micros);
    }

    /// Moves only the wall clock, as when it is set, or corrected after a pause.
    fn step_wall(&self, micros: i64) {
        self.wall.fetch_add(micros, Ordering::SeqCst);
    }
}

#[test]
fn the_clock_goes_forward() {
    let first = now();
    while now() == first {}
    assert!(now() > first);
}

#[test]
fn a_pause_that_only_the_wall_clock_shows_counts_once() {
    let machine = Machine::at(TODAY);
    assert_eq!(machine.moved_by(|machine| machine.advance(5 * SECOND)), 5 * SECOND);
    assert_eq!(machine.moved_by(|machine| machine.step_wall(60 * SECOND)), 60 * SECOND);
    assert_eq!(machine.moved_by(|machine| machine.advance(5 * SECOND)), 5 * SECOND);
}

#[test]
fn a_pause_of_any_length_counts() {
    let machine = Machine::at(TODAY);
    for pause in [
        TOLERANCE + 1,
        SECOND / 10,
        20 * SECOND,
        3_600 * SECOND,
        3 * DAY,
        4_000 * DAY,
    ] {
        assert_eq!(machine.moved_by(|machine| machine.step_wall(pause)), pause);
    }
}

#[test]
fn steps_within_the_tolerance_do_not_count_until_they_add_up() {
    let machine = Machine::at(TODAY);
    assert_eq!(machine.moved_by(|machine| machine.step_wall(TOLERANCE)), 0);
    assert_eq!(machine.moved_by(|machine| machine.step_wall(1)), TOLERANCE + 1);
    let jittering = machine.moved_by(|machine| {
        for _ in 0..1_000 {
            machine.step_wall(TOLERANCE);
            machine.now();
            machine.step_wall(-TOLERANCE);
            machine.now();
        }
    });
    assert_eq!(jittering, 0);
}

#[test]
fn a_step_back_lengthens_no_lease_and_hides_no_pause() {
    let machine = Machine::at(TODAY);
    for back in [SECOND, 3_600 * SECOND, 200 * DAY] {
        assert_eq!(machine.moved_by(|machine| machine.step_wall(-back)), 0);
        machine.step_wall(2 * DAY);
        let before = machine.now();
        assert_eq!(machine.moved_by(|machine| machine.step_wall(back)), back);
        machine.step_wall(-2 * DAY);
        assert_eq!(machine.now(), before + back);
    }
    assert_eq!(machine.moved_by(|machine| machine.step_wall(-SECOND)), 0);
    assert_eq!(machine.moved_by(|machine| machine.step_wall(60 * SECOND)), 60 * SECOND);
}

#[test]
fn a_clock_that_is_set_for_the_first_time_ends_no_lease() {
    for unset in [0, 45 * SECOND, NEVER_SET - DAY] {
        let machine = Machine::at(unset);
        assert_eq!(machine.moved_by(|machine| machine.step_wall(3 * SECOND)), 0);
        assert_eq!(
            machine.moved_by(|machine| machine.wall.store(TODAY, Ordering::SeqCst)),
            0
        );
        assert_eq!(machine.moved_by(|machine| machine.step_wall(60 * SECOND)), 60 * SECOND);
    }
}

#[test]
fn a_wall_clock_that_is_slewed_alone_costs_no_more_than_its_rate() {
    const MILLISECOND: i64 = 1_000;
    for rate in [500, -500] {
        let machine = Machine::at(TODAY);
        let hour = machine.moved_by(|machine| {
            for _ in 0..36_000 {
                machine.advance(100 * MILLISECOND);
                machine.step_wall(rate / 10);
                machine.now();
            }
        });
        let excess = hour - 3_600 * SECOND;
        assert!((0..=1_800 * MILLISECOND).contains(&excess), "{rate} ppm: {excess} µs");
    }
}

#[test]
fn a_thread_that_is_stopped_between_two_readings_counts_its_stop_once() {
    let machine = Machine::at(TODAY);
    for stall in [5_000, 700_000, 90 * SECOND] {
        let before = (machine.now(), machine.steady.load(Ordering::SeqCst));
        machine.stall.set(stall);
        for _ in 0..100 {
            machine.now();
        }
        machine.stall.set(0);
        let moved = machine.now() - before.0;
        let passed = (machine.steady.load(Ordering::SeqCst) - before.1).cast_signed();
        assert_eq!(moved, passed, "stopped for {stall} µs at each reading");
    }
}

#[test]
fn a_pause_counts_even_if_the_thread_is_stopped_at_each_reading() {
    let machine = Machine::at(TODAY);
    let before = (machine.now(), machine.steady.load(Ordering::SeqCst));
    machine.stall.set(3 * SECOND);
    machine.step_wall(600 * SECOND);
    machine.now();
    machine.stall.set(0);
    let moved = machine.now() - before.0;
    let passed = (machine.steady.load(Ordering::SeqCst) - before.1).cast_signed();
    assert_eq!(moved, passed + 600 * SECOND);
}

#[test]
fn many_threads_count_each_step_once_and_none_goes_back() {
    struct Shared {
        clock: Clock,
        wall: AtomicI64,
    }
    impl ClockSources for Shared {
        fn steady(&self) -> u64 {
            3_600_000_000
        }

        fn wall(&self) -> i64 {
            self.wall.load(Ordering::SeqCst)
        }
    }

    const STEPS: i64 = 2_000;
    let shared = Shared {
        clock: Clock::new(),
        wall: AtomicI64::new(TODAY),
    };
    let start = shared.clock.now(&shared);
    // The assertion is at the end, because the other threads run until the last step.
    let mut counted = true;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = start;
                while shared.wall.load(Ordering::SeqCst) < TODAY + STEPS * SECOND {
                    let now = shared.clock.now(&shared);
                    assert!(now >= last);
                    last = now;
                }
            });
        }
        for step in 1..=STEPS {
            shared.wall.fetch_add(SECOND, Ordering::SeqCst);
            let passed = shared.clock.now(&shared).saturating_since(start);
            counted &= passed == Duration::from_secs(step.unsigned_abs());
        }
    });
    assert!(counted, "a step was missed, or counted twice");
}

#[test]
fn the_clock_of_a_child_forked_during_a_store_still_counts_steps() {
    let machine = Machine::at(TODAY);
    // The thread that was storing does not exist in the child.
    machine.clock.is_storing.store(true, Ordering::SeqCst);
    let jump = machine.moved_by(|machine| machine.step_wall(60 * SECOND));
    assert_eq!(jump, 60 * SECOND);
    assert_eq!(machine.moved_by(|machine| machine.advance(SECOND)), SECOND);
}

#[test]
fn the_portable_clocks_agree_with_those_of_this_system() {
    struct Portable;
    impl ClockSources for Portable {
        fn steady(&self) -> u64 {
            portable::steady()
        }

        fn wall(&self) -> i64 {
            portable::wall()
        }
    }

    let clock = Clock::new();
    let (began, ours) = (clock.now(&Portable), now());
    while now().saturating_since(ours) < Duration::from_millis(5) {}
    let (passed, ours) = (
        clock.now(&Portable).saturating_since(began),
        now().saturating_since(ours),
    );
    assert!(passed >= Duration::from_millis(4) && passed <= ours + Duration::from_secs(60));
    assert!((System.wall() - portable::wall()).abs() < 60 * SECOND);
    assert!((System.wall() - System.wall_coarse()).abs() < 60 * SECOND);
}
