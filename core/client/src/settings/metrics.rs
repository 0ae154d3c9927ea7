//! Checks the options of the metrics.

use std::sync::Arc;

use steadlock_protocol::{Error, KeyPrefix, LockName, Operation, shown};

use super::number::Number;
use super::whole;
use crate::errors::invalid;
use crate::observe::GroupBy;
use crate::observe::metrics::{Grouping, MOST_GROUPS, MOST_QUEUES};

/// Returns how locks are grouped in the metrics; `None` if metrics are off.
pub(super) fn grouping(is_on: bool, most: Option<f64>, by: Option<GroupBy>) -> Result<Option<Grouping>, Error> {
    if !is_on {
        return match (most, by) {
            (None, None) => Ok(None),
            _ => Err(invalid(
                "groups of metrics are given but metrics are off; turn them on too",
            )),
        };
    }
    let most = match most {
        None => Grouping::default().most,
        Some(number) => whole(number, MOST_GROUPS).map(|most| most as usize).ok_or_else(|| {
            invalid(format!(
                "the number of metrics' groups is {}; give a whole number from 1 to {MOST_GROUPS}",
                Number(number)
            ))
        })?,
    };
    Ok(Some(Grouping { by, most }))
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
    if names.len() > MOST_QUEUES {
        return Err(invalid(format!(
            "metrics_queues has {} names; each is asked for all the time, so give no more than {MOST_QUEUES}",
            names.len()
        )));
    }
    let queue = |name: String| match prefix.name(&name) {
        Ok(full) => Ok((Arc::from(&*shown(&name)), full)),
        Err(error) => Err(error.with_operation(Operation::Connect)),
    };
    names.into_iter().map(queue).collect()
}
