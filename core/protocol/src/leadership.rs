//! Leaders: what an observer learns of them.
//!
//! A *leader* holds a lease of the kind `leader`, which is granted in the order of arrival. One such hold is a *term*;
//! its number is the fencing token. A caller that waits for a term is a *candidate*.

use std::sync::Arc;

use crate::client_info::ClientInfo;
use crate::error::Holder;

/// The present leader, and those that would lead next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The present term; `None` if nobody leads.
    pub term: Option<TermSeen>,
    /// The live candidates in their order, at most 100.
    pub candidates: Vec<Candidate>,
}

impl Leadership {
    /// The number that stands for "nobody leads" where an observer says which term it has seen.
    pub const NOBODY: u64 = 0;

    /// Returns the owner ids of the leader and of the candidates.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        let leader = self.term.iter().map(|term| term.holder.owner.as_str());
        leader.chain(self.candidates.iter().map(|candidate| candidate.owner.as_str()))
    }

    /// Adds the programs of the leader and of the candidates, as far as they are known.
    pub(crate) fn named(mut self, program: impl Fn(&str) -> Option<Arc<ClientInfo>>) -> Self {
        if let Some(term) = &mut self.term {
            term.holder.client = program(&term.holder.owner);
        }
        for candidate in &mut self.candidates {
            candidate.client = program(&candidate.owner);
        }
        self
    }

    /// Returns the number of the present term, or [`Leadership::NOBODY`].
    #[must_use]
    pub fn number(&self) -> u64 {
        self.term.as_ref().map_or(Self::NOBODY, |term| term.number)
    }
}

/// A term, as an observer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermSeen {
    /// The number of the term, which is the fencing token of its leader.
    pub number: u64,
    /// When the term began, in milliseconds since 1970 by the server's clock.
    pub since: u64,
    /// The leader, and how long it leads if nothing renews its lease.
    pub holder: Holder,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The owner id of its request, by which a leader can name it as its successor.
    pub owner: String,
    /// The program of the candidate, if it says so.
    pub client: Option<Arc<ClientInfo>>,
}
