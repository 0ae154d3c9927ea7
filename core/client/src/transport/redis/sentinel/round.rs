//! One round of questions to all sentinels, and the condition for its end.
//!
//! ```text
//!   all are asked ──► answers, failures ──► over: all have answered, or most of the known ones agree
//!                                           already, or the time of those that are missing is up, or
//!                                           all that are missing have failed and no answer names a primary
//! ```
//!
//! The first answer has no priority. A sentinel that has not answered is waited for until its time is up, except in one
//! case: a majority of the known sentinels, reachable or not, agree on a primary and on its epoch, no other answer has
//! a newer epoch, and no newer epoch was known before.

use std::collections::BTreeMap;
use std::time::Duration;

use steadlock_protocol::Instant;

use super::answer::{self, Answer};
use crate::transport::redis::address::Address;
use crate::transport::redis::failure::Failure;

/// Sentinels that are down have this long to come back after the first answer that names a primary. While there are
/// connections to a primary, sentinels that are up have no longer than this either, because that answer shows that the
/// primary may have been replaced.
const DOWN_SENTINEL_WAIT: Duration = Duration::from_millis(250);

/// A known sentinel at one of its addresses.
pub(super) struct KnownSentinel<'a> {
    pub(super) address: &'a Address,
    /// The sentinel's id. Two addresses with one id are one sentinel, which counts once.
    pub(super) id: Option<&'a str>,
    /// Whether the sentinel is down or unreachable from here.
    pub(super) is_down: bool,
}

/// The outcome of a round.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// One answer from each sentinel that names a primary.
    pub(super) answers: Vec<Answer>,
    /// Whether a majority of the known sentinels has answered.
    pub(super) has_majority_answered: bool,
}

/// The answers of one round.
pub(super) struct Round {
    /// Whether connections wait for the outcome.
    is_foreground: bool,
    /// The time until which the round waits for sentinels that are up, once an answer names a primary.
    wait_for_up_until: Instant,
    /// The time until which the round waits for sentinels that are down. Set by the first answer that names a primary.
    wait_for_down_until: Option<Instant>,
    /// The time at which the round may be over if no other answer arrives.
    due: Option<Instant>,
    /// `None` for sentinels that do not know the service.
    answers: BTreeMap<Address, Option<Answer>>,
    failures: BTreeMap<Address, Failure>,
}

/// One sentinel, with the answer at any of its addresses.
#[derive(Default)]
struct SentinelState<'a> {
    answer: Option<&'a Option<Answer>>,
    is_up: bool,
}

impl Round {
    /// Begins a round that connections wait for. The sentinels have half of the connect timeout; the other half is for
    /// the connection to the primary.
    pub(super) fn foreground(connect_timeout: Duration, now: Instant) -> Self {
        Self {
            is_foreground: true,
            wait_for_up_until: now + connect_timeout / 2,
            wait_for_down_until: None,
            due: None,
            answers: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Begins a round while there are connections to a primary.
    pub(super) fn background(now: Instant) -> Self {
        Self {
            is_foreground: false,
            ..Self::foreground(Duration::ZERO, now)
        }
    }

    pub(super) fn add_answer(&mut self, address: Address, answer: Option<Answer>, now: Instant) {
        if answer.is_some() {
            self.wait_for_down_until.get_or_insert(now + DOWN_SENTINEL_WAIT);
            self.due = self.due.or(self.wait_for_down_until);
        }
        self.failures.remove(&address);
        self.answers.insert(address, answer);
    }

    /// Notes a failed attempt to connect, or a bad answer.
    pub(super) fn add_failure(&mut self, address: &Address, failure: Failure) {
        self.failures.insert(address.clone(), failure.with_address(address));
    }

    /// Whether connections wait for the outcome.
    pub(super) const fn is_foreground(&self) -> bool {
        self.is_foreground
    }

    /// Returns the time at which the round may be over if no other answer arrives.
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the outcome, if the round is over. `newest` is the answer that was known before.
    pub(super) fn outcome<'a>(
        &mut self,
        known: impl Iterator<Item = KnownSentinel<'a>>,
        newest: Option<&Answer>,
        now: Instant,
    ) -> Option<Outcome> {
        let mut by_sentinel: BTreeMap<Result<&str, &Address>, SentinelState<'_>> = BTreeMap::new();
        for KnownSentinel { address, id, is_down } in known {
            let one = by_sentinel.entry(id.ok_or(address)).or_default();
            one.is_up |= !is_down && !self.failures.contains_key(address);
            one.answer = one.answer.or_else(|| self.answers.get(address));
        }
        let all: Vec<SentinelState<'_>> = by_sentinel.into_values().collect();
        let answers: Vec<Answer> = all.iter().filter_map(|one| one.answer?.clone()).collect();
        let is_majority = |count: usize| count * 2 > all.len();
        let is_agreed = answer::best(answers.iter(), newest).is_some_and(|best| {
            is_majority(best.count) && newest.is_none_or(|newest| best.answer.epoch >= newest.epoch)
        });
        let mut missing = all.iter().filter(|one| one.answer.is_none()).peekable();
        let has_ended = is_agreed
            || missing.peek().is_none()
            || match self.wait_for_down_until {
                Some(until) if now < until => false,
                Some(_) if now >= self.wait_for_up_until => true,
                _ => missing.all(|one| !one.is_up),
            };
        if !has_ended {
            // The time of the sentinels that are down is over.
            let wait_for_down_until = self.wait_for_down_until.filter(|until| now >= *until);
            self.due = wait_for_down_until
                .map(|until| until.max(self.wait_for_up_until))
                .or(self.due);
            return None;
        }
        Some(Outcome {
            has_majority_answered: is_majority(all.iter().filter(|one| one.answer.is_some()).count()),
            answers,
        })
    }

    /// Returns the reason why no sentinel named a primary.
    pub(super) fn failure(&self, service: &str) -> Failure {
        if !self.answers.is_empty() {
            return Failure::unknown_service(service);
        }
        if let Some(lasting) = self.failures.values().find(|failure| failure.is_lasting()) {
            return lasting.clone();
        }
        let all = Failure::joined(self.failures.values());
        Failure::unavailable(all.reworded(|text| format!("no sentinel names a primary of {service} ({text})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn sentinel(number: u16) -> Address {
        Address::new("s", number)
    }

    fn answer_naming(port: u16, epoch: u64) -> Answer {
        Answer {
            primary: Address::new("h", port),
            epoch,
        }
    }

    /// A round of the sentinels 1 to `known`, some of which have answered at 10 ms.
    struct Case {
        round: Round,
        known: u16,
        newest: Option<Answer>,
    }

    impl Case {
        fn of(known: u16, answers: &[(u16, u16, u64)]) -> Self {
            let mut round = Round::foreground(2 * SECOND, at(0));
            for (number, port, epoch) in answers {
                round.add_answer(sentinel(*number), Some(answer_naming(*port, *epoch)), at(10));
            }
            Self {
                round,
                known,
                newest: None,
            }
        }

        fn with_failure(mut self, number: u16) -> Self {
            self.round
                .add_failure(&sentinel(number), Failure::unavailable("refused"));
            self
        }

        fn with_newest(mut self, newest: Answer) -> Self {
            self.newest = Some(newest);
            self
        }

        fn outcome(&mut self, millis: u64) -> Option<Outcome> {
            let addresses: Vec<Address> = (1..=self.known).map(sentinel).collect();
            let known = addresses.iter().map(|address| KnownSentinel {
                address,
                id: None,
                is_down: false,
            });
            self.round.outcome(known, self.newest.as_ref(), at(millis))
        }

        fn has_ended(&mut self, millis: u64) -> bool {
            self.outcome(millis).is_some()
        }
    }

    #[test]
    fn after_the_first_answer_the_others_have_half_of_the_connect_timeout() {
        let one = || Case::of(3, &[(1, 7, 4)]);
        assert!(!one().has_ended(999));
        let outcome = one().outcome(1_000).unwrap();
        assert_eq!(
            (outcome.answers, outcome.has_majority_answered),
            (vec![answer_naming(7, 4)], false)
        );
        assert!(!one().with_failure(2).has_ended(999), "the third is missing");
        assert!(Case::of(1, &[(1, 7, 4)]).has_ended(10), "there is no other");
        assert!(!Case::of(1, &[]).has_ended(100_000), "no answer at all");
        assert!(
            Case::of(2, &[]).with_failure(1).with_failure(2).has_ended(10),
            "no answer will come"
        );
    }

    #[test]
    fn sentinels_that_are_down_have_a_quarter_of_a_second_to_come_back() {
        let mut one = Case::of(3, &[(1, 7, 4)]).with_failure(2).with_failure(3);
        assert_eq!(one.round.poll_timeout(), Some(at(260)));
        assert!(!one.has_ended(259) && one.has_ended(260));
        let mut other = Case::of(3, &[(1, 7, 4)]).with_failure(2);
        assert!(!other.has_ended(260));
        assert_eq!(other.round.poll_timeout(), Some(at(1_000)), "the third is missing");
    }

    #[test]
    fn after_a_late_first_answer_the_others_have_a_quarter_of_a_second() {
        let mut late = Case::of(2, &[]);
        late.round.add_answer(sentinel(1), Some(answer_naming(7, 4)), at(5_000));
        assert!(!late.has_ended(5_249) && late.has_ended(5_250));
        let mut background = Case::of(2, &[]);
        background.round = Round::background(at(100));
        background
            .round
            .add_answer(sentinel(1), Some(answer_naming(7, 4)), at(100));
        assert!(!background.has_ended(349) && background.has_ended(350));
    }

    #[test]
    fn a_majority_of_the_known_sentinels_that_agrees_on_the_newest_epoch_ends_the_round() {
        assert!(Case::of(3, &[(1, 7, 4), (2, 7, 4)]).has_ended(10));
        assert!(!Case::of(4, &[(1, 7, 4), (2, 7, 4)]).has_ended(10), "half of them");
        assert!(!Case::of(3, &[(1, 7, 4), (2, 8, 4)]).has_ended(10), "another primary");
        assert!(!Case::of(3, &[(1, 7, 4), (2, 7, 5)]).has_ended(10), "another epoch");
        assert!(
            !Case::of(4, &[(1, 7, 4), (2, 7, 4), (3, 8, 5)]).has_ended(10),
            "one has a newer epoch"
        );
        let before = |epoch| Case::of(3, &[(1, 7, 4), (2, 7, 4)]).with_newest(answer_naming(8, epoch));
        assert!(before(4).has_ended(10));
        assert!(!before(5).has_ended(999), "a newer epoch was known before");
        assert!(before(5).outcome(1_000).unwrap().has_majority_answered);
    }

    #[test]
    fn two_addresses_with_one_id_are_one_sentinel() {
        let [one, same, other] = [1, 2, 3].map(sentinel);
        let mut round = Round::foreground(2 * SECOND, at(0));
        let outcome = |round: &mut Round, is_other_down: bool| {
            let known = [(&one, "a"), (&same, "a"), (&other, "b")].map(|(address, id)| KnownSentinel {
                address,
                id: Some(id),
                is_down: is_other_down && address == &other,
            });
            round.outcome(known.into_iter(), None, at(300))
        };
        round.add_answer(one.clone(), Some(answer_naming(7, 4)), at(10));
        round.add_answer(same.clone(), Some(answer_naming(7, 4)), at(10));
        assert_eq!(outcome(&mut round, false), None);
        let alone = outcome(&mut round, true).unwrap();
        assert_eq!((alone.answers.len(), alone.has_majority_answered), (1, false));
        round.add_answer(other.clone(), None, at(10));
        assert!(outcome(&mut round, false).unwrap().has_majority_answered);
    }
}
