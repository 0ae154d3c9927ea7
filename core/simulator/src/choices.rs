//! Who chooses in a history. Each chooser has a generator of its own, made from the seed and
//! from who it is, so that one that draws more often shifts nobody else's choices: a session
//! that makes one call more meets other delays on that connection, and no other fault, no
//! other owner id and no other plan of any caller.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use crate::fault::Fault;
use crate::fnv::Fnv;
use crate::random::Random;
use crate::route::{Line, Route};

/// Somebody or something that chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Chooser {
    /// The session of a client, by its entropy. A client has one: who crashed does not come back.
    Session { client: usize },
    /// A client, beside what its tasks do.
    Client { client: usize },
    /// A caller: what it does, and when.
    Task { client: usize, task: usize },
    /// A connection: what becomes of what travels on it, and how long that takes.
    Line { client: usize, node: usize, line: Line },
    /// A fault that strikes at times of its own: when, whom and for how long.
    Fault(Fault),
}

impl Chooser {
    /// Its generator, as it is when a history begins.
    pub(crate) fn generator(self, seed: u64) -> Random {
        let mut hash = Fnv::default();
        (seed, self).hash(&mut hash);
        Random::new(hash.finish())
    }
}

/// The generators of a history.
#[derive(Debug)]
pub(crate) struct Choices {
    seed: u64,
    generators: BTreeMap<Chooser, Random>,
}

impl Choices {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            seed,
            generators: BTreeMap::new(),
        }
    }

    pub(crate) fn of(&mut self, chooser: Chooser) -> &mut Random {
        let generator = || chooser.generator(self.seed);
        self.generators.entry(chooser).or_insert_with(generator)
    }

    pub(crate) fn task(&mut self, client: usize, task: usize) -> &mut Random {
        self.of(Chooser::Task { client, task })
    }

    /// The choices of a connection, and of all that take its place.
    pub(crate) fn line(&mut self, route: Route) -> &mut Random {
        let Route { client, node, line, .. } = route;
        self.of(Chooser::Line { client, node, line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_draws_more_often_shifts_nobody_else() {
        let (mut one, mut other) = (Choices::new(7), Choices::new(7));
        one.task(0, 0).next();
        one.of(Chooser::Session { client: 1 }).next();
        assert_eq!(one.task(0, 1).next(), other.task(0, 1).next());
        assert_eq!(
            one.of(Chooser::Client { client: 1 }).next(),
            other.of(Chooser::Client { client: 1 }).next()
        );
    }

    #[test]
    fn no_two_choosers_and_no_two_seeds_choose_alike() {
        let fault = |fault: &Fault| Chooser::Fault(*fault);
        let line = |line| Chooser::Line {
            client: 0,
            node: 1,
            line,
        };
        let choosers = (0..5).flat_map(|client| {
            let tasks = (0..5).map(move |task| Chooser::Task { client, task });
            tasks.chain([Chooser::Session { client }, Chooser::Client { client }])
        });
        let choosers = choosers.chain(Fault::ALL.iter().map(fault)).chain(Line::ALL.map(line));
        let drawn: Vec<u64> = choosers
            .flat_map(|chooser| [0, 1].map(|seed| chooser.generator(seed).next()))
            .collect();
        let different: std::collections::BTreeSet<&u64> = drawn.iter().collect();
        assert_eq!(different.len(), drawn.len());
    }
}
