//! The choosers of a history. Each has its own random generator, made from the seed and from the chooser's identity. A
//! chooser that draws more often therefore does not change the choices of others. For example, if a session makes one
//! more call, the delays on the connection of that call change. All other choosers still draw the same numbers.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use crate::fault::Fault;
use crate::fnv::Fnv;
use crate::random::Random;
use crate::route::{ConnectionKind, Route};

/// Something that makes random choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Chooser {
    /// The session of a client, for its entropy. A client has only one session, because a crashed client does not come
    /// back.
    Session { client: usize },
    /// A client, for choices that no task makes.
    Client { client: usize },
    /// A caller: its actions, and their times.
    Task { client: usize, task: usize },
    /// A connection: the faults and delays of everything that is sent on it.
    Connection {
        client: usize,
        node: usize,
        connection: ConnectionKind,
    },
    /// A fault with random times: when it strikes, its target, and when it ends.
    Fault(Fault),
}

impl Chooser {
    /// Returns the chooser's generator in its initial state.
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

    /// Returns the generator of a connection. Later connections of the same kind continue with it.
    pub(crate) fn connection(&mut self, route: Route) -> &mut Random {
        let Route {
            client,
            node,
            connection,
            ..
        } = route;
        self.of(Chooser::Connection {
            client,
            node,
            connection,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_draws_of_one_chooser_do_not_shift_the_others() {
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
        let connection = |connection| Chooser::Connection {
            client: 0,
            node: 1,
            connection,
        };
        let choosers = (0..5).flat_map(|client| {
            let tasks = (0..5).map(move |task| Chooser::Task { client, task });
            tasks.chain([Chooser::Session { client }, Chooser::Client { client }])
        });
        let choosers = choosers
            .chain(Fault::ALL.iter().map(fault))
            .chain(ConnectionKind::ALL.map(connection));
        let drawn: Vec<u64> = choosers
            .flat_map(|chooser| [0, 1].map(|seed| chooser.generator(seed).next()))
            .collect();
        let different: std::collections::BTreeSet<&u64> = drawn.iter().collect();
        assert_eq!(different.len(), drawn.len());
    }
}
