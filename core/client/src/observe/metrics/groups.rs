//! Which group a lock counts for: never its whole name, and never too many groups.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use steadlock_protocol::shown;

use super::all::Metrics;
use super::series::Series;
use crate::unwind::caught;

/// How many groups there may be, if nothing else is asked for, and at the most.
const DEFAULT_GROUPS: usize = 100;
pub(crate) const MOST_GROUPS: u32 = 10_000;

/// The group of the locks that have none.
const NONE: &str = "none";
/// That of all locks whose groups are too many.
const OTHER: &str = "other";
/// A label is no longer than this, in bytes.
const LABEL_BYTES: usize = 128;

/// Says which group a lock's metrics count for, by its name; see
/// [`Builder::metrics_group`](crate::Builder::metrics_group).
#[derive(Clone)]
pub struct GroupBy(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl GroupBy {
    /// By this function, which is given a lock's name without the client's key prefix; of a
    /// multi-lock, all names with `, ` between them.
    pub fn new(group: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(group))
    }
}

impl fmt::Debug for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupBy(..)")
    }
}

/// How locks are put into groups.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    /// By what stands before the first `:`, if there is no function.
    pub(crate) by: Option<GroupBy>,
    /// How many groups there may be, beside `none` and `other`.
    pub(crate) most: usize,
}

impl Grouping {
    /// The group of a lock, before it is known whether there are too many; empty for none.
    fn group<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match &self.by {
            None => beginning(name.split_once(':').map_or("", |(group, _)| group)).into(),
            // Its panic must not end the engine, which keeps the locks.
            Some(GroupBy(by)) => match caught(|| by(name)) {
                Some(group) => beginning(&shown(&group)).to_owned().into(),
                None => OTHER.into(),
            },
        }
    }

    /// The label that a lock of this name has for its group.
    pub(crate) fn label(&self, metrics: &Metrics, name: &str) -> Arc<str> {
        let counted = metrics.groups();
        let group = self.group(name);
        match &*group {
            "" => NONE.into(),
            group if counted.contains(group) => group.into(),
            group => {
                let ours = counted.iter().filter(|group| ![NONE, OTHER].contains(&&***group));
                if ours.count() < self.most { group } else { OTHER }.into()
            }
        }
    }
}

impl Default for Grouping {
    fn default() -> Self {
        Self {
            by: None,
            most: DEFAULT_GROUPS,
        }
    }
}

/// Finds the series of a lock. One engine's.
pub(crate) struct Groups {
    metrics: Arc<Metrics>,
    grouping: Grouping,
    /// The groups' places in `series`.
    places: HashMap<Box<str>, usize>,
    /// Of each group those of its kinds, which are few.
    series: Vec<Vec<(&'static str, Arc<Series>)>>,
}

impl Groups {
    pub(crate) fn new(metrics: Arc<Metrics>, grouping: Grouping) -> Self {
        Self {
            metrics,
            grouping,
            places: HashMap::from([(NONE.into(), 0), (OTHER.into(), 1)]),
            series: vec![Vec::new(), Vec::new()],
        }
    }

    /// The series of a lock of this kind and name.
    pub(crate) fn series(&mut self, kind: &'static str, name: &str) -> &Arc<Series> {
        match self.grouping.group(name) {
            Cow::Borrowed(group) => self.of_group(kind, group),
            Cow::Owned(group) => self.of_group(kind, &group),
        }
    }

    fn of_group(&mut self, kind: &'static str, group: &str) -> &Arc<Series> {
        // Never looked up when empty: a key that is empty lies nowhere, and to compare with it takes some processors
        // longer than all else here.
        let known = if group.is_empty() {
            Some(&0)
        } else {
            self.places.get(group)
        };
        let (place, label) = match known {
            Some(0) => (0, NONE),
            Some(place) => (*place, group),
            None if self.series.len() < self.grouping.most + 2 => {
                let place = self.series.len();
                self.places.insert(group.into(), place);
                self.series.push(Vec::new());
                (place, group)
            }
            None => (1, OTHER),
        };
        let kinds = &mut self.series[place];
        let known = kinds.iter().position(|(known, _)| *known == kind);
        let known = known.unwrap_or_else(|| {
            kinds.push((kind, self.metrics.add(kind, label.into())));
            kinds.len() - 1
        });
        &kinds[known].1
    }
}

/// As much of a label as is kept.
fn beginning(label: &str) -> &str {
    let whole = (0..=LABEL_BYTES.min(label.len())).rev();
    let end = whole.into_iter().find(|end| label.is_char_boundary(*end));
    &label[..end.unwrap_or(0)]
}
