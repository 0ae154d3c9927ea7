//! Checks the options of the metrics.

use std::sync::Arc;

use steadlock_protocol::{Error, KeyPrefix, LockName, Operation, shown};

use super::number::Number;
use super::whole_number;
use crate::errors::invalid;
use crate::observe::GroupBy;
use crate::observe::metrics::{Grouping, MAX_GROUPS, MAX_QUEUES};

/// A fair lock whose queue is counted.
#[derive(Clone)]
pub(crate) struct CountedQueue {
    /// The name that the host gave, as errors and logs show it.
    pub(crate) name: Arc<str>,
    pub(crate) full_name: LockName,
}

/// Returns how locks are grouped in the metrics; `None` if metrics are off.
pub(super) fn grouping(
    counts_metrics: bool,
    max_groups: Option<f64>,
    function: Option<GroupBy>,
) -> Result<Option<Grouping>, Error> {
    if !counts_metrics {
        return match (max_groups, function) {
            (None, None) => Ok(None),
            _ => Err(invalid(
                "groups of metrics are given but metrics are off; turn them on too",
            )),
        };
    }
    let max_groups = match max_groups {
        None => Grouping::default().max_groups,
        Some(number) => whole_number(number, MAX_GROUPS)
            .map(|max_groups| max_groups as usize)
            .ok_or_else(|| {
                invalid(format!(
                    "the number of metrics' groups is {}; give a whole number from 1 to {MAX_GROUPS}",
                    Number(number)
                ))
            })?,
    };
    Ok(Some(Grouping { function, max_groups }))
}

/// Returns the fair locks whose queues are counted. `can_count` means that metrics are on and there is one primary.
pub(super) fn queues(
    prefix: &KeyPrefix,
    can_count: bool,
    names: Option<Vec<String>>,
) -> Result<Vec<CountedQueue>, Error> {
    let names = names.unwrap_or_default();
    if !(can_count || names.is_empty()) {
        return Err(invalid(
            "metrics_queues is given, and metrics are off or there are several primaries, which have no queues; leave it out",
        ));
    }
    if names.len() > MAX_QUEUES {
        return Err(invalid(format!(
            "metrics_queues has {} names; each is asked for all the time, so give no more than {MAX_QUEUES}",
            names.len()
        )));
    }
    let queue = |name: String| match prefix.name(&name) {
        Ok(full_name) => Ok(CountedQueue {
            name: Arc::from(&*shown(&name)),
            full_name,
        }),
        Err(error) => Err(error.with_operation(Operation::Connect)),
    };
    names.into_iter().map(queue).collect()
}
