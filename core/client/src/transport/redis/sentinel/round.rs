//! One round of questions to all sentinels, and the condition for its end.
//!
//! ```text
//!   all are asked ──► answers, failures ──► over: all have answered, or most of the known ones agree
//!                                           already, or the time of those that are missing is up
//! ```
//!
//! The first answer has no priority. A sentinel that has not answered is waited for, except in one case: a majority of
//! the known sentinels, reachable or not, agree on a primary and on its epoch, no other answer has a newer epoch, and
//! no newer epoch was known before.

use std::collections::BTreeMap;
use std::time::Duration;

use steadlock_protocol::Instant;

use super::answer::{self, Vote};
use crate::transport::redis::address::Address;
use crate::transport::redis::failure::Failure;

/// How long sentinels that are down have to come back after the first answer. While there are connections to a primary,
/// the other sentinels have no longer either, because the first answer shows that the primary may have been replaced.
const PATIENCE: Duration = Duration::from_millis(250);

/// A known sentinel at one of its addresses.
pub(super) struct Known<'a> {
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
    pub(super) votes: Vec<Vote>,
    /// Whether most of the known sentinels have answered.
    pub(super) have_most_answered: bool,
}

/// The answers of one round.
pub(super) struct Round {
    /// Whether connections wait for the outcome.
    is_awaited: bool,
    /// A deliberate mistake for tests: the round ends with the first answer.
    is_hasty: bool,
    /// The time until which the round waits for sentinels that are up, once one has answered.
    patient_until: Instant,
    /// The time until which the round waits for sentinels that are down. Set by the first answer that names a primary.
    first_until: Option<Instant>,
    /// The time at which the round may be over if no other answer arrives.
    due: Option<Instant>,
    /// `None` for sentinels that do not know the service.
    answers: BTreeMap<Address, Option<Vote>>,
    failures: BTreeMap<Address, Failure>,
}

/// One sentinel, with the answer at any of its addresses.
#[derive(Default)]
struct One<'a> {
    answer: Option<&'a Option<Vote>>,
    is_up: bool,
}

impl Round {
    /// Begins a round that connections wait for. The sentinels have half of the connect timeout; the other half is for
    /// the connection to the primary.
    pub(super) fn awaited(connect_timeout: Duration, now: Instant) -> Self {
        Self {
            is_awaited: true,
            is_hasty: false,
            patient_until: now + connect_timeout / 2,
            first_until: None,
            due: None,
            answers: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Begins a round while there are connections to a primary.
    pub(super) fn aside(now: Instant) -> Self {
        Self {
            is_awaited: false,
            ..Self::awaited(Duration::ZERO, now)
        }
    }

    /// Sets whether the round makes the deliberate mistake.
    pub(super) const fn hasty(mut self, is_hasty: bool) -> Self {
        self.is_hasty = is_hasty;
        self
    }

    pub(super) fn answered(&mut self, address: Address, vote: Option<Vote>, now: Instant) {
        if vote.is_some() {
            self.first_until.get_or_insert(now + PATIENCE);
            self.due = self.due.or(self.first_until);
        }
        self.failures.remove(&address);
        self.answers.insert(address, vote);
    }

    /// Notes a failed attempt to connect, or a bad answer.
    pub(super) fn failed(&mut self, address: &Address, failure: Failure) {
        self.failures.insert(address.clone(), failure.at(address));
    }

    /// Whether connections wait for the outcome.
    pub(super) const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns the time at which the round may be over if no other answer arrives.
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the outcome, if the round is over. `newest` is the primary that was known before.
    pub(super) fn outcome<'a>(
        &mut self,
        known: impl Iterator<Item = Known<'a>>,
        newest: Option<&Vote>,
        now: Instant,
    ) -> Option<Outcome> {
        let mut of: BTreeMap<Result<&str, &Address>, One<'_>> = BTreeMap::new();
        for Known { address, id, is_down } in known {
            let one = of.entry(id.ok_or(address)).or_default();
            one.is_up |= !is_down && !self.failures.contains_key(address);
            one.answer = one.answer.or_else(|| self.answers.get(address));
        }
        let all: Vec<One<'_>> = of.into_values().collect();
        let votes: Vec<Vote> = all.iter().filter_map(|one| one.answer?.clone()).collect();
        let is_most = |count: usize| count * 2 > all.len();
        let agreed = answer::best(votes.iter(), newest)
            .is_some_and(|(vote, count)| is_most(count) && newest.is_none_or(|newest| vote.epoch >= newest.epoch));
        let mut missing = all.iter().filter(|one| one.answer.is_none()).peekable();
        let is_over = agreed
            || self.is_hasty && !votes.is_empty()
            || missing.peek().is_none()
            || match self.first_until {
                Some(until) if now < until => false,
                Some(_) if now >= self.patient_until => true,
                _ => missing.all(|one| !one.is_up),
            };
        if !is_over {
            // The time of the sentinels that are down is over.
            let first_until = self.first_until.filter(|until| now >= *until);
            self.due = first_until.map(|until| until.max(self.patient_until)).or(self.due);
            return None;
        }
        Some(Outcome {
            have_most_answered: is_most(all.iter().filter(|one| one.answer.is_some()).count()),
            votes,
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

    fn names(port: u16, epoch: u64) -> Vote {
        Vote {
            primary: Address::new("h", port),
            epoch,
        }
    }

    /// A round of the sentinels 1 to `known`, some of which have answered at 10 ms.
    struct Case {
        round: Round,
        known: u16,
        newest: Option<Vote>,
    }

    impl Case {
        fn of(known: u16, answers: &[(u16, u16, u64)]) -> Self {
            let mut round = Round::awaited(2 * SECOND, at(0));
            for (number, port, epoch) in answers {
                round.answered(sentinel(*number), Some(names(*port, *epoch)), at(10));
            }
            Self {
                round,
                known,
                newest: None,
            }
        }

        fn fails(mut self, number: u16) -> Self {
            self.round.failed(&sentinel(number), Failure::unavailable("refused"));
            self
        }

        fn knowing(mut self, newest: Vote) -> Self {
            self.newest = Some(newest);
            self
        }

        fn outcome(&mut self, millis: u64) -> Option<Outcome> {
            let addresses: Vec<Address> = (1..=self.known).map(sentinel).collect();
            let known = addresses.iter().map(|address| Known {
                address,
                id: None,
                is_down: false,
            });
            self.round.outcome(known, self.newest.as_ref(), at(millis))
        }

        fn is_over(&mut self, millis: u64) -> bool {
            self.outcome(millis).is_some()
        }
    }

    #[test]
    fn a_first_answer_waits_for_the_others_and_they_have_half_of_the_connect_timeout() {
        let one = || Case::of(3, &[(1, 7, 4)]);
        assert!(!one().is_over(999));
        let outcome = one().outcome(1_000).unwrap();
        assert_eq!((outcome.votes, outcome.have_most_answered), (vec![names(7, 4)], false));
        assert!(!one().fails(2).is_over(999), "the third is missing");
        assert!(Case::of(1, &[(1, 7, 4)]).is_over(10), "there is no other");
        assert!(!Case::of(1, &[]).is_over(100_000), "no answer at all");
        assert!(Case::of(2, &[]).fails(1).fails(2).is_over(10), "nor any to come");
    }

    #[test]
    fn those_that_are_down_have_a_quarter_of_a_second_to_come_back() {
        let mut one = Case::of(3, &[(1, 7, 4)]).fails(2).fails(3);
        assert_eq!(one.round.poll_timeout(), Some(at(260)));
        assert!(!one.is_over(259) && one.is_over(260));
        let mut other = Case::of(3, &[(1, 7, 4)]).fails(2);
        assert!(!other.is_over(260));
        assert_eq!(other.round.poll_timeout(), Some(at(1_000)), "the third is missing");
    }

    #[test]
    fn a_late_first_answer_gives_the_others_a_quarter_of_a_second() {
        let mut late = Case::of(2, &[]);
        late.round.answered(sentinel(1), Some(names(7, 4)), at(5_000));
        assert!(!late.is_over(5_249) && late.is_over(5_250));
        let mut aside = Case::of(2, &[]);
        aside.round = Round::aside(at(100));
        aside.round.answered(sentinel(1), Some(names(7, 4)), at(100));
        assert!(!aside.is_over(349) && aside.is_over(350));
    }

    #[test]
    fn most_of_those_that_are_known_decide_at_once_if_they_agree_on_the_newest() {
        assert!(Case::of(3, &[(1, 7, 4), (2, 7, 4)]).is_over(10));
        assert!(!Case::of(4, &[(1, 7, 4), (2, 7, 4)]).is_over(10), "a half");
        assert!(!Case::of(3, &[(1, 7, 4), (2, 8, 4)]).is_over(10), "another primary");
        assert!(!Case::of(3, &[(1, 7, 4), (2, 7, 5)]).is_over(10), "another epoch");
        assert!(
            !Case::of(4, &[(1, 7, 4), (2, 7, 4), (3, 8, 5)]).is_over(10),
            "one knows more"
        );
        let before = |epoch| Case::of(3, &[(1, 7, 4), (2, 7, 4)]).knowing(names(8, epoch));
        assert!(before(4).is_over(10));
        assert!(!before(5).is_over(999), "more was known before");
        assert!(before(5).outcome(1_000).unwrap().have_most_answered);
    }

    #[test]
    fn two_addresses_with_one_id_are_one_sentinel() {
        let [one, same, other] = [1, 2, 3].map(sentinel);
        let mut round = Round::awaited(2 * SECOND, at(0));
        let outcome = |round: &mut Round, is_far: bool| {
            let known = [(&one, "a"), (&same, "a"), (&other, "b")].map(|(address, id)| Known {
                address,
                id: Some(id),
                is_down: is_far && address == &other,
            });
            round.outcome(known.into_iter(), None, at(300))
        };
        round.answered(one.clone(), Some(names(7, 4)), at(10));
        round.answered(same.clone(), Some(names(7, 4)), at(10));
        assert_eq!(outcome(&mut round, false), None);
        let alone = outcome(&mut round, true).unwrap();
        assert_eq!((alone.votes.len(), alone.have_most_answered), (1, false));
        round.answered(other.clone(), None, at(10));
        assert!(outcome(&mut round, false).unwrap().have_most_answered);
    }
}
