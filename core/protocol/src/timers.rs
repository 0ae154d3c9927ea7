//! The timers of a session.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use steadlock_collections::Table;

use crate::ids::{CallId, ElectionId, HoldId, LeaseId, LockId, Primary, ReleaseId, Ticket};
use crate::instant::Instant;

/// The timers, by their purposes. Each timer is set at most once at a time. If several timers are due at the same
/// instant, they fire in the order of this enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// The answer to a call is overdue.
    CallTimeout(CallId),
    /// A waiter sends the next attempt.
    Wake(Ticket),
    /// The pause of a RedLock's caller between two rounds is over.
    Pause(Ticket),
    /// The wait of a caller is over.
    Wait(Ticket),
    /// The wait of a RedLock's caller is over.
    QuorumWait(Ticket),
    /// A refusal has waited long enough for the holder's name.
    Name(Ticket),
    /// A caller has waited long enough for the answer to a question.
    Answer(Ticket),
    /// A caller has waited long enough for its extension.
    Extension(Ticket),
    /// A caller whose wait has no bound checks whether the server has been silent for too long.
    Silence(Ticket),
    /// The renewal of a hold is due.
    Renew(HoldId),
    /// The deadline of a hold has come.
    Deadline(HoldId),
    /// A release must be sent again.
    ReleaseAgain(ReleaseId),
    /// A caller has waited long enough for its release.
    ReleaseWait(ReleaseId),
    /// The next poll is due, which keeps waiters in the server's queue alive.
    Poll(LockId),
    /// A message that the lock may be free was delayed, because waiters had asked too often after earlier ones without
    /// success.
    DelayedMessage(LockId),
    /// The response timeout of a round is over. This timer comes after `QuorumWait`: if a wait and its round end at the
    /// same instant, only the wait ends. The round must not count as too slow, because all waiters share that count.
    Round(Ticket),
    /// The deadline of a RedLock's lease has come.
    Majority(LeaseId),
    /// The client forgets a lock that has been idle for a while.
    Linger(LockId),
    /// The client asks again who leads.
    Observe(ElectionId),
    /// The client forgets an election that nobody has observed for a while.
    Unwatch(ElectionId),
    /// A primary with an open breaker is probed.
    Probe(Primary),
    /// The client repeats its identity.
    Identify,
}

impl Timer {
    /// Whether the timer belongs to a RedLock.
    pub(crate) const fn is_composites(self) -> bool {
        matches!(
            self,
            Self::Round(_) | Self::Pause(_) | Self::QuorumWait(_) | Self::Majority(_)
        )
    }
}

/// The timer table.
///
/// Most timers are stopped before they are due. To stop a timer is therefore cheap: only its entry in `set` is removed,
/// and its entry in a schedule becomes stale. A stale entry is dropped when it reaches the front of the schedule, or
/// when the schedule has many more entries than `set`. The front entry is never stale.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Call timeouts are separate from the timers of leases: thousands of calls start and end while many leases only
    /// wait.
    calls: Schedule,
    renewals: Schedule,
    deadlines: Schedule,
    others: Schedule,
    set: Table<Timer, Instant>,
}

type Entry = (Instant, Timer);

/// Entries with cheap access to the first one. Most entries arrive in the order of their times, because most timers of
/// a schedule have the same delay.
#[derive(Debug, Default)]
struct Schedule {
    in_order: VecDeque<Entry>,
    /// The entries that arrived after an entry with a later time.
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
    /// The number of stale entries that a schedule may always keep.
    const SLACK: usize = 64;

    /// Sets `timer` to `at`. An earlier setting is replaced.
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

    /// Stops `timer`.
    pub(crate) fn stop(&mut self, timer: Timer) {
        if self.set.remove(&timer).is_some() {
            let (schedule, set) = self.schedule(timer);
            settle(schedule, set);
        }
    }

    /// Returns the next instant at which a timer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.first().map(|(at, _)| at)
    }

    /// Returns the next instant at which a renewal is due.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        self.renewals.first().map(|(at, _)| *at)
    }

    /// Returns when `timer` is due, if it is set.
    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        self.set.get(&timer).copied()
    }

    /// Takes one timer that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let (_, timer) = self.first().filter(|(at, _)| *at <= now)?;
        self.stop(timer);
        Some(timer)
    }

    /// Returns the number of timers that are set.
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    fn first(&self) -> Option<Entry> {
        let schedules = [&self.calls, &self.renewals, &self.deadlines, &self.others];
        schedules.into_iter().filter_map(Schedule::first).min().copied()
    }

    /// Returns the schedule of a timer, and the table.
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

/// Drops stale entries from the front of a schedule.
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
        for step in 0..50_000 {
            random = random * 48_271 % 2_147_483_647;
            let (number, time) = (random % 300, at(step + random / 300 % 1_000));
            match random % 7 {
                0 | 1 => {
                    timers.stop(timer(number));
                    sorted.remove(&timer(number));
                }
                2 => {
                    let first = sorted.iter().map(|(timer, time)| (*time, *timer)).min();
                    let due = first.filter(|(time, _)| *time <= at(step)).map(|(_, timer)| timer);
                    assert_eq!(timers.take_due(at(step)), due);
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
    fn a_timer_that_is_set_again_to_its_time_does_not_pile_up() {
        let mut timers = Timers::default();
        for _ in 0..1_000 {
            timers.set(timer(1), at(1));
        }
        assert_eq!(timers.others.len(), 1);
    }

    #[test]
    fn stopped_timers_do_not_pile_up() {
        let mut timers = Timers::default();
        // The first timer stays at the front, so that no stale entry reaches the front.
        timers.set(timer(0), at(1));
        for number in 1..100_000 {
            timers.set(timer(number), at(number + 1));
            timers.stop(timer(number));
        }
        assert_eq!(timers.len(), 1);
        assert!(timers.others.len() <= 2 + Timers::SLACK, "{}", timers.others.len());
    }
}
