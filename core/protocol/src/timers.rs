//! When something must happen if nothing else does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::ids::{CallId, HoldId, LeaseId, LockId, Primary, ReleaseId, Ticket};
use crate::instant::Instant;
use crate::table::Table;

/// A reason to wake up. Each is set at most once at a time. Of those that are due at one
/// instant, the one that stands first here comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// A call's answer is overdue.
    CallTimeout(CallId),
    /// A waiter asks the server again.
    Wake(Ticket),
    /// A quorum attempt asks again.
    Pause(Ticket),
    /// A waiter's wait is over.
    Wait(Ticket),
    /// The wait of a quorum attempt's caller is over.
    QuorumWait(Ticket),
    /// A refusal has waited long enough for the holder's name.
    Name(Ticket),
    /// A caller has waited long enough for the answer to a question.
    Answer(Ticket),
    /// A caller has waited long enough for its extension.
    Extension(Ticket),
    /// A caller without a bound has heard nothing of the server for a lease.
    Silence(Ticket),
    /// A hold is due for renewal.
    Renew(HoldId),
    /// A hold can no longer be relied on.
    Deadline(HoldId),
    /// A release is sent again.
    ReleaseAgain(ReleaseId),
    /// A caller has waited long enough for its release.
    ReleaseWait(ReleaseId),
    /// Waiters in the server's queue say that they live.
    Poll(LockId),
    /// A message came too soon after others that were in vain: now it may make waiters ask.
    Heard(LockId),
    /// A round of a quorum attempt has taken long enough. After `QuorumWait`: a caller that is
    /// told at the same instant has not asked in vain for those behind it.
    Round(Ticket),
    /// A majority can no longer be relied on.
    Majority(LeaseId),
    /// A name that nobody waits for is forgotten.
    Linger(LockId),
    /// A primary whose breaker is open is asked again.
    Probe(Primary),
    /// The client says again which program it is.
    Identify,
}

impl Timer {
    /// Whether it is a composite lock's.
    pub(crate) const fn is_composites(self) -> bool {
        matches!(
            self,
            Self::Round(_) | Self::Pause(_) | Self::QuorumWait(_) | Self::Majority(_)
        )
    }
}

/// The timer table.
///
/// Nearly every timer is stopped before it is due, so stopping one only forgets
/// it: what its schedule still has of it is stale, and goes when it comes to the front or
/// when there is more that is stale than not. The front is never stale.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Apart from the others: calls come and go by the thousand while many leases only stand.
    calls: Schedule,
    renewals: Schedule,
    deadlines: Schedule,
    others: Schedule,
    set: Table<Timer, Instant>,
}

type Entry = (Instant, Timer);

/// Entries, of which the first is at hand. Most come in the order in which they are due: the
/// same delay from an ever later instant.
#[derive(Debug, Default)]
struct Schedule {
    in_order: VecDeque<Entry>,
    /// Those that came when a later one was there already.
    early: BinaryHeap<Reverse<Entry>>,
}

impl Schedule {
    fn push(&mut self, entry: Entry) {
        if self.in_order.back().is_none_or(|last| *last <= entry) {
            self.in_order.push_back(entry);
        } else {
            self.early.push(Reverse(entry));
        }
    }

    fn first(&self) -> Option<&Entry> {
        let early = self.early.peek().map(|Reverse(entry)| entry);
        match (self.in_order.front(), early) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn drop_first(&mut self) {
        let is_early = match (self.in_order.front(), self.early.peek()) {
            (Some(in_order), Some(Reverse(early))) => early < in_order,
            (in_order, _) => in_order.is_none(),
        };
        if is_early {
            self.early.pop();
        } else {
            self.in_order.pop_front();
        }
    }

    fn len(&self) -> usize {
        self.in_order.len().saturating_add(self.early.len())
    }

    fn retain(&mut self, is_wanted: impl Fn(&Entry) -> bool) {
        self.in_order.retain(&is_wanted);
        self.early.retain(|Reverse(entry)| is_wanted(entry));
    }
}

impl Timers {
    /// So much that is stale is always worth keeping.
    const SLACK: usize = 64;

    /// Sets `timer` to `at`, whatever it was set to before.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        let before = self.set.insert(timer, at);
        if before == Some(at) {
            return;
        }
        let enough = self.set.len().saturating_mul(2).saturating_add(Self::SLACK);
        let (schedule, set) = self.schedule(timer);
        schedule.push((at, timer));
        if before.is_some() {
            settle(schedule, set);
        }
        if schedule.len() > enough {
            schedule.retain(|(at, timer)| set.get(timer) == Some(at));
        }
    }

    /// Unsets `timer`.
    pub(crate) fn stop(&mut self, timer: Timer) {
        if self.set.remove(&timer).is_some() {
            let (schedule, set) = self.schedule(timer);
            settle(schedule, set);
        }
    }

    /// The next instant at which one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.first().map(|(at, _)| at)
    }

    /// The next instant at which a renewal is due.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        self.renewals.first().map(|(at, _)| *at)
    }

    /// When `timer` is due, if it is set.
    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        self.set.get(&timer).copied()
    }

    /// Takes one timer that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let (_, timer) = self.first().filter(|(at, _)| *at <= now)?;
        self.stop(timer);
        Some(timer)
    }

    /// How many are set.
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    fn first(&self) -> Option<Entry> {
        let schedules = [&self.calls, &self.renewals, &self.deadlines, &self.others];
        schedules.into_iter().filter_map(Schedule::first).min().copied()
    }

    /// Where a timer stands, and what is set.
    const fn schedule(&mut self, timer: Timer) -> (&mut Schedule, &Table<Timer, Instant>) {
        let schedule = match timer {
            Timer::CallTimeout(_) => &mut self.calls,
            Timer::Renew(_) => &mut self.renewals,
            Timer::Deadline(_) => &mut self.deadlines,
            _ => &mut self.others,
        };
        (schedule, &self.set)
    }
}

/// Drops what is stale from the front.
fn settle(schedule: &mut Schedule, set: &Table<Timer, Instant>) {
    while let Some((at, timer)) = schedule.first()
        && set.get(timer) != Some(at)
    {
        schedule.drop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    fn timer(number: u64) -> Timer {
        Timer::Wake(Ticket::from_u64(number))
    }

    fn renewal(number: u64) -> Timer {
        Timer::Renew((0..number).fold(HoldId::default(), |id, _| id.next()))
    }

    #[test]
    fn a_wait_that_ends_with_its_round_ends_first() {
        let mut timers = Timers::default();
        let (of, other) = (Ticket::from_u64(1), Ticket::from_u64(2));
        for timer in [
            Timer::Round(of),
            Timer::Silence(other),
            Timer::QuorumWait(of),
            Timer::Wake(other),
        ] {
            timers.set(timer, at(7));
        }
        let due: Vec<Timer> = std::iter::from_fn(|| timers.take_due(at(7))).collect();
        let expected = [
            Timer::Wake(other),
            Timer::QuorumWait(of),
            Timer::Silence(other),
            Timer::Round(of),
        ];
        assert_eq!(due, expected);
    }

    #[test]
    fn the_next_renewal_is_known_among_timers_that_are_due_before() {
        let mut timers = Timers::default();
        assert_eq!(timers.next_renewal(), None);
        timers.set(timer(1), at(5));
        timers.set(renewal(1), at(30));
        timers.set(renewal(2), at(20));
        assert_eq!((timers.next(), timers.next_renewal()), (Some(at(5)), Some(at(20))));
        timers.stop(renewal(2));
        assert_eq!(timers.next_renewal(), Some(at(30)));
        timers.set(renewal(1), at(60));
        assert_eq!(timers.next_renewal(), Some(at(60)));
        timers.set(renewal(1), at(10));
        assert_eq!(
            (timers.take_due(at(9)), timers.take_due(at(10))),
            (Some(timer(1)), Some(renewal(1)))
        );
        assert_eq!(timers.next_renewal(), None);
    }

    #[test]
    fn timers_come_in_order_and_only_when_due() {
        let mut timers = Timers::default();
        timers.set(timer(1), at(30));
        timers.set(timer(2), at(10));
        timers.set(timer(3), at(20));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.take_due(at(9)), None);
        let taken: Vec<_> = std::iter::from_fn(|| timers.take_due(at(25))).collect();
        assert_eq!(taken, [timer(2), timer(3)]);
        assert_eq!((timers.next(), timers.len()), (Some(at(30)), 1));
    }

    #[test]
    fn a_timer_that_is_set_again_or_stopped_is_due_no_more_at_its_old_time() {
        let mut timers = Timers::default();
        timers.set(timer(1), at(10));
        timers.set(timer(1), at(50));
        assert_eq!((timers.next(), timers.len()), (Some(at(50)), 1));
        timers.set(timer(1), at(20));
        timers.set(timer(2), at(15));
        timers.stop(timer(2));
        assert_eq!((timers.next(), timers.len()), (Some(at(20)), 1));
        assert_eq!(timers.take_due(at(100)), Some(timer(1)));
        assert_eq!(timers.take_due(at(100)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_timer_stopped_and_set_to_the_same_time_is_due_once() {
        let mut timers = Timers::default();
        timers.set(timer(1), at(5));
        timers.set(timer(2), at(10));
        timers.stop(timer(2));
        timers.set(timer(2), at(10));
        let taken: Vec<_> = std::iter::from_fn(|| timers.take_due(at(10))).collect();
        assert_eq!(taken, [timer(1), timer(2)]);
    }

    #[test]
    fn timers_do_what_a_sorted_list_would() {
        let timer = |number| match number % 4 {
            0 => Timer::CallTimeout(CallId::from_u64(number)),
            1 => renewal(number),
            2 => Timer::Deadline((0..number).fold(HoldId::default(), |id, _| id.next())),
            _ => timer(number),
        };
        let mut timers = Timers::default();
        let mut sorted = std::collections::BTreeMap::new();
        let mut random = 1_u64;
        for round in 0..50_000 {
            random = random * 48_271 % 2_147_483_647;
            let (number, time) = (random % 300, at(round + random / 300 % 1_000));
            match random % 7 {
                0 | 1 => {
                    timers.stop(timer(number));
                    sorted.remove(&timer(number));
                }
                2 => {
                    let first = sorted.iter().map(|(timer, time)| (*time, *timer)).min();
                    let due = first.filter(|(time, _)| *time <= at(round)).map(|(_, timer)| timer);
                    assert_eq!(timers.take_due(at(round)), due);
                    due.map(|timer| sorted.remove(&timer));
                }
                _ => {
                    timers.set(timer(number), time);
                    sorted.insert(timer(number), time);
                }
            }
            assert_eq!(timers.next(), sorted.values().min().copied());
            assert_eq!(timers.len(), sorted.len());
        }
    }

    #[test]
    fn what_is_set_to_its_own_time_again_does_not_pile_up() {
        let mut timers = Timers::default();
        for _ in 0..1_000 {
            timers.set(timer(1), at(1));
        }
        assert_eq!(timers.others.len(), 1);
    }

    #[test]
    fn what_was_stopped_does_not_pile_up() {
        let mut timers = Timers::default();
        // Its place is before all the others, so that none of them reaches the top.
        timers.set(timer(0), at(1));
        for number in 1..100_000 {
            timers.set(timer(number), at(number + 1));
            timers.stop(timer(number));
        }
        assert_eq!(timers.len(), 1);
        assert!(timers.others.len() <= 2 + Timers::SLACK, "{}", timers.others.len());
    }
}
