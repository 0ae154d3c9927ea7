//! Blocking calls: without the GIL, and interruptible.

use std::time::Duration;

use pyo3::prelude::*;
use steadlock::host::{Completion, Host, Op};

use crate::convert;

/// How long Ctrl-C may go unnoticed.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Only the main thread runs signal handlers; no other needs to look up.
const UNINTERRUPTED: Duration = Duration::from_secs(60);

/// Waits for `op` and gives what it came to.
///
/// If a signal handler raises, the caller gets that exception and `op` is
/// cancelled; a lock that was granted meanwhile is released.
pub(crate) fn wait(py: Python<'_>, host: &Host, op: Op, interruptible: bool) -> PyResult<Completion> {
    let mut pending = host.start(op);
    if !interruptible {
        let result = py.detach(|| {
            loop {
                if let Some(result) = pending.wait(UNINTERRUPTED) {
                    return result;
                }
            }
        });
        return result.map_err(|error| convert::error(py, &error));
    }
    loop {
        let result = py.detach(|| pending.wait(SIGNAL_CHECK));
        let interrupted = py.check_signals();
        match (result, interrupted) {
            (None, Ok(())) => {}
            (None, Err(raised)) => return Err(raised),
            (Some(result), Ok(())) => return result.map_err(|error| convert::error(py, &error)),
            (Some(result), Err(raised)) => {
                if let Ok(Completion::Granted(lease)) = result {
                    // Dropping a release drops only its answer.
                    drop(host.start(Op::Release { lease: lease.id() }));
                }
                return Err(raised);
            }
        }
    }
}
