//! Members ordered by score, then by bytes.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::capacity::shrunk_capacity;

#[derive(Clone, Debug, Default)]
pub(crate) struct SortedSet {
    scores: HashMap<Arc<[u8]>, f64>,
    order: BTreeSet<(Score, Arc<[u8]>)>,
    bytes: usize,
}

/// The bytes of a member beside its content: its entries in both tables, including their free space.
const MEMBER_BYTES: usize = 176;

impl SortedSet {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets the score of a member. Returns the previous one.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let before = self.remove(member);
        self.bytes += member.len() + MEMBER_BYTES;
        let member: Arc<[u8]> = member.into();
        self.scores.insert(Arc::clone(&member), score);
        self.order.insert((Score(score), member));
        before
    }

    /// Removes a member. Returns its score.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (member, score) = self.scores.remove_entry(member)?;
        self.bytes -= member.len() + MEMBER_BYTES;
        self.order.remove(&(Score(score), member));
        if let Some(capacity) = shrunk_capacity(self.scores.len(), self.scores.capacity()) {
            self.scores.shrink_to(capacity);
        }
        Some(score)
    }

    /// Returns all members, lowest score first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.order.iter().map(|(score, member)| (&**member, score.0))
    }

    /// Returns the members with a score of at least `low`, lowest first.
    pub(crate) fn at_least(&self, low: f64) -> impl Iterator<Item = (&[u8], f64)> {
        let start = (Score(low), Arc::from(&b""[..]));
        self.order.range(start..).map(|(score, member)| (&**member, score.0))
    }
}

/// A score. It is never NaN, because no command accepts that.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        // `total_cmp` would order -0 before 0, but they are the same score.
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}
