//! The group under which a lock is counted, in place of its name. The number of groups is limited.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use steadlock_protocol::{Kind, shown};

use super::Metrics;
use super::series::Series;
use crate::unwind::catch;

/// The default limit of the number of groups.
const DEFAULT_GROUPS: usize = 100;
/// The highest limit that a program can set.
pub(crate) const MAX_GROUPS: u32 = 10_000;

/// The group of the locks that have none.
const NONE: &str = "none";
/// The group of all locks beyond the limit of groups.
const OTHER: &str = "other";
/// The limit of a label's length in bytes.
const LABEL_BYTES: usize = 128;

/// A function that returns a lock's group for the metrics; see
/// [`Builder::metrics_group`](crate::Builder::metrics_group).
#[derive(Clone)]
pub struct GroupBy(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl GroupBy {
    /// Groups locks by this function. Its argument is a lock's name without the client's key prefix; for a multi-lock,
    /// all names joined by `, `.
    pub fn new(group: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(group))
    }
}

impl fmt::Debug for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupBy(..)")
    }
}

/// The rule for grouping locks.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    /// `None` makes the part of the name before the first `:` the group.
    pub(crate) function: Option<GroupBy>,
    /// The limit of the number of groups, without `none` and `other`.
    pub(crate) max_groups: usize,
}

impl Grouping {
    /// Returns the group of a lock before the limit is applied; empty for no group.
    fn group<'a>(&self, kind: &str, name: &'a str) -> Cow<'a, str> {
        match &self.function {
            // A job or a leader without a colon in its name is a group of its own: there are few, and each matters.
            None if kind == Kind::Once.name() || kind == Kind::Leader.name() => {
                truncated(name.split_once(':').map_or(name, |(group, _)| group)).into()
            }
            None => truncated(name.split_once(':').map_or("", |(group, _)| group)).into(),
            // A panic of the function must not end the engine, which keeps the locks.
            Some(GroupBy(function)) => match catch(|| function(name)) {
                Some(group) => truncated(&shown(&group)).to_owned().into(),
                None => OTHER.into(),
            },
        }
    }

    /// Returns the label of the group of a lock with this name.
    pub(crate) fn label(&self, metrics: &Metrics, name: &str) -> Arc<str> {
        let counted = metrics.groups();
        let group = self.group("", name);
        match &*group {
            "" => NONE.into(),
            group if counted.contains(group) => group.into(),
            group => {
                let named = counted.iter().filter(|group| ![NONE, OTHER].contains(&&***group));
                if named.count() < self.max_groups { group } else { OTHER }.into()
            }
        }
    }
}

impl Default for Grouping {
    fn default() -> Self {
        Self {
            function: None,
            max_groups: DEFAULT_GROUPS,
        }
    }
}

/// The series of all locks, by group and kind. Belongs to one engine.
pub(crate) struct Groups {
    metrics: Arc<Metrics>,
    grouping: Grouping,
    /// The index of each group in `series`.
    indexes: HashMap<Box<str>, usize>,
    /// For each group the series of its kinds, which are few.
    series: Vec<Vec<(&'static str, Arc<Series>)>>,
}

impl Groups {
    pub(crate) fn new(metrics: Arc<Metrics>, grouping: Grouping) -> Self {
        Self {
            metrics,
            grouping,
            indexes: HashMap::from([(NONE.into(), 0), (OTHER.into(), 1)]),
            series: vec![Vec::new(), Vec::new()],
        }
    }

    /// Returns the series of a lock of this kind and name.
    pub(crate) fn series(&mut self, kind: &'static str, name: &str) -> &Arc<Series> {
        match self.grouping.group(kind, name) {
            Cow::Borrowed(group) => self.series_of(kind, group),
            Cow::Owned(group) => self.series_of(kind, &group),
        }
    }

    fn series_of(&mut self, kind: &'static str, group: &str) -> &Arc<Series> {
        // An empty group is `none`, whose index is 0. It is not looked up: on some processors the comparison of an empty
        // key was measured to take longer than all other steps here.
        let known = if group.is_empty() {
            Some(&0)
        } else {
            self.indexes.get(group)
        };
        let (index, label) = match known {
            Some(0) => (0, NONE),
            Some(index) => (*index, group),
            None if self.series.len() < self.grouping.max_groups + 2 => {
                let index = self.series.len();
                self.indexes.insert(group.into(), index);
                self.series.push(Vec::new());
                (index, group)
            }
            None => (1, OTHER),
        };
        let kinds = &mut self.series[index];
        let known = kinds.iter().position(|(known, _)| *known == kind);
        let known = known.unwrap_or_else(|| {
            kinds.push((kind, self.metrics.add(kind, label.into())));
            kinds.len() - 1
        });
        &kinds[known].1
    }
}

/// Returns the part of a label that fits the limit.
fn truncated(label: &str) -> &str {
    let ends = (0..=LABEL_BYTES.min(label.len())).rev();
    let end = ends.into_iter().find(|end| label.is_char_boundary(*end));
    &label[..end.unwrap_or(0)]
}
