//! Checks the options of the metrics.

use std::sync::Arc;

use steadlock_protocol::{Error, KeyPrefix, LockName, Operation, shown};

use super::number::Number;
use super::whole_number;
use crate::errors::invalid;
use crate::observe::GroupBy;
use crate::observe::metrics::{Grouping, MAX_GROUPS, MAX_QUEUES};

/// Returns how locks are grouped in the metrics; `None` if metrics are off.
pub(super) fn grouping(is_on: bool, max_groups: Option<f64>, by: Option<GroupBy>) -> Result<Option<Grouping>, Error> {
    if !is_on {
        return match (max_groups, by) {
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
    Ok(Some(Grouping { by, max_groups }))
}

/// Returns the fair locks whose queues are counted. `may_be`: metrics are on, and there is one primary.
pub(super) fn queues(
    prefix: &KeyPrefix,
    may_be: bool,
    names: Option<Vec<String>>,
) -> Result<Vec<(Arc<str>, LockName)>, Error> {
    let names = names.unwrap_or_default();
    if !(may_be || names.is_empty()) {
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
        Ok(full) => Ok((Arc::from(&*shown(&name)), full)),
        Err(error) => Err(error.with_operation(Operation::Connect)),
    };
    names.into_iter().map(queue).collect()
}
