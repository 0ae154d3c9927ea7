//! Decides whether the engine spins for a moment before it sleeps.
//!
//! Waking a sleeping thread takes longer than a reply of a server on the same machine. While callers are busy and
//! commands or replies arrive quickly, the engine therefore spins: it checks for them repeatedly, and yields its
//! processor to other threads between two checks. An engine does not spin if its client is idle or only renews, if its
//! server is far away, or if it expects many replies at once. It does not spin on a single processor either, because no
//! other thread could run meanwhile.

use std::time::Duration;

use steadlock_protocol::Instant;

/// The longest spin of one wait.
const LONGEST: Duration = Duration::from_micros(200);
/// Callers are busy if the last command is younger than this.
const BUSY: Duration = Duration::from_millis(1);
/// A wait without a spin was short if it took no longer than this, the wake-up included.
const QUICK: Duration = Duration::from_micros(300);

/// The kind of arrival that the engine waits for. Replies can be quick while callers are slow, and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The next command of a caller: no reply is outstanding.
    Command,
    /// A reply for a caller.
    Reply,
    /// Replies for so many callers that one shared wake-up costs less than a spin.
    ManyReplies,
}

/// The kind of caller that sends commands and receives the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerKind {
    /// Threads and tasks, each with a wake-up for its own result.
    Threads,
    /// An event loop, or a thread that hands events on. One wake-up delivers all results, and new commands follow only
    /// after it.
    EventLoop,
}

impl CallerKind {
    /// Returns the largest number of calls in flight for which the engine spins.
    const fn spin_limit(self) -> usize {
        match self {
            Self::Threads => 32,
            Self::EventLoop => 128,
        }
    }
}

impl Arrival {
    /// Returns the kind of arrival to expect with this number of calls in flight.
    pub(super) const fn of(calls_in_flight: usize, caller_kind: CallerKind) -> Self {
        match calls_in_flight {
            0 => Self::Command,
            few if few <= caller_kind.spin_limit() => Self::Reply,
            _ => Self::ManyReplies,
        }
    }
}

#[derive(Debug)]
pub(super) struct Spin {
    /// Whether another thread can run during a spin.
    others_can_run: bool,
    last_command: Option<Instant>,
    /// Whether a spin helped, or would have helped, in the last wait for a command.
    commands_are_quick: bool,
    /// The same for the last wait for a reply.
    replies_are_quick: bool,
}

impl Spin {
    /// Creates the state for an engine that may use this many processors.
    pub(super) const fn on(processors: usize) -> Self {
        Self {
            others_can_run: processors > 1,
            last_command: None,
            commands_are_quick: false,
            replies_are_quick: false,
        }
    }

    /// Notes that a caller sent a command.
    pub(super) fn on_command(&mut self, now: Instant) {
        self.last_command = Some(now);
    }

    /// Returns the time until which a wait that begins now should spin; `None` to sleep at once.
    pub(super) fn spin_until(&self, arrival: Arrival, now: Instant) -> Option<Instant> {
        let is_busy = self
            .last_command
            .is_some_and(|command| now.saturating_since(command) < BUSY);
        let is_quick = match arrival {
            Arrival::Command => self.commands_are_quick,
            Arrival::Reply => self.replies_are_quick,
            Arrival::ManyReplies => false,
        };
        (self.others_can_run && is_busy && is_quick).then(|| now + LONGEST)
    }

    /// Notes the end of a wait without a spin.
    pub(super) fn record_sleep(&mut self, arrival: Arrival, began: Instant, now: Instant) {
        self.record(arrival, now.saturating_since(began) < QUICK);
    }

    /// Notes the end of a spin; `has_arrived` if something arrived during it.
    pub(super) fn record_spin(&mut self, arrival: Arrival, has_arrived: bool) {
        self.record(arrival, has_arrived);
    }

    fn record(&mut self, arrival: Arrival, is_quick: bool) {
        match arrival {
            Arrival::Command => self.commands_are_quick = is_quick,
            Arrival::Reply => self.replies_are_quick = is_quick,
            Arrival::ManyReplies => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_spins_for_more_replies_of_an_event_loop_than_of_threads() {
        assert_eq!(Arrival::of(0, CallerKind::EventLoop), Arrival::Command);
        assert_eq!(Arrival::of(32, CallerKind::Threads), Arrival::Reply);
        assert_eq!(Arrival::of(33, CallerKind::Threads), Arrival::ManyReplies);
        assert_eq!(Arrival::of(128, CallerKind::EventLoop), Arrival::Reply);
        assert_eq!(Arrival::of(129, CallerKind::EventLoop), Arrival::ManyReplies);
    }

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn a_busy_client_spins_while_replies_arrive_quickly() {
        let mut spin = Spin::on(2);
        spin.on_command(at(0));
        assert_eq!(spin.spin_until(Arrival::Reply, at(0)), None, "nothing is known yet");
        spin.record_sleep(Arrival::Reply, at(0), at(90));
        assert_eq!(spin.spin_until(Arrival::Reply, at(90)), Some(at(90) + LONGEST));
        spin.record_spin(Arrival::Reply, true);
        assert!(spin.spin_until(Arrival::Reply, at(190)).is_some());
        spin.record_sleep(Arrival::Reply, at(190), at(790));
        assert_eq!(spin.spin_until(Arrival::Reply, at(790)), None, "the server is slow");
    }

    #[test]
    fn the_engine_does_not_spin_on_one_processor() {
        let mut spin = Spin::on(1);
        for arrival in [Arrival::Reply, Arrival::Command] {
            spin.on_command(at(0));
            spin.record_sleep(arrival, at(0), at(90));
            assert_eq!(spin.spin_until(arrival, at(90)), None);
        }
    }

    #[test]
    fn a_spin_without_an_arrival_ends_the_spinning() {
        let mut spin = Spin::on(2);
        spin.on_command(at(0));
        spin.record_sleep(Arrival::Reply, at(0), at(90));
        spin.record_spin(Arrival::Reply, false);
        assert_eq!(spin.spin_until(Arrival::Reply, at(300)), None);
        spin.record_sleep(Arrival::Reply, at(300), at(650));
        assert_eq!(spin.spin_until(Arrival::Reply, at(650)), None);
    }

    #[test]
    fn quick_replies_do_not_cause_spins_for_slow_callers() {
        let mut spin = Spin::on(2);
        for repeat in 0..3 {
            let start = repeat * 900;
            spin.on_command(at(start));
            assert_eq!(spin.spin_until(Arrival::Reply, at(start)).is_some(), repeat > 0);
            spin.record_sleep(Arrival::Reply, at(start), at(start + 90));
            assert_eq!(spin.spin_until(Arrival::Command, at(start + 90)), None);
            spin.record_sleep(Arrival::Command, at(start + 90), at(start + 900));
        }
    }

    #[test]
    fn the_engine_does_not_spin_for_replies_of_many_callers() {
        let mut spin = Spin::on(2);
        spin.on_command(at(0));
        spin.record_sleep(
            Arrival::of(CallerKind::Threads.spin_limit(), CallerKind::Threads),
            at(0),
            at(90),
        );
        assert!(
            spin.spin_until(
                Arrival::of(CallerKind::Threads.spin_limit(), CallerKind::Threads),
                at(90)
            )
            .is_some()
        );
        assert_eq!(
            spin.spin_until(
                Arrival::of(CallerKind::Threads.spin_limit() + 1, CallerKind::Threads),
                at(90)
            ),
            None
        );
        spin.record_sleep(
            Arrival::of(CallerKind::Threads.spin_limit() + 1, CallerKind::Threads),
            at(90),
            at(800),
        );
        assert!(
            spin.spin_until(Arrival::of(1, CallerKind::Threads), at(800)).is_some(),
            "the spin for a single reply is not affected"
        );
    }

    #[test]
    fn an_engine_without_commands_sleeps() {
        let mut spin = Spin::on(2);
        spin.record_sleep(Arrival::Command, at(0), at(10));
        assert_eq!(
            spin.spin_until(Arrival::Command, at(10)),
            None,
            "there are only renewals"
        );
        spin.on_command(at(10));
        assert!(spin.spin_until(Arrival::Command, at(1_000)).is_some());
        assert_eq!(
            spin.spin_until(Arrival::Command, at(1_010)),
            None,
            "its callers are idle"
        );
    }
}
