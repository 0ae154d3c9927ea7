//! Interrupts: exceptions that a signal handler or another thread raises during a step that must be completed.

use pyo3::prelude::*;

/// The last interrupt of such a step.
#[derive(Default)]
pub(crate) struct LastInterrupt(Option<PyErr>);

impl LastInterrupt {
    /// Repeats a step until it succeeds. Gives up after many attempts, because a step can also fail by itself.
    pub(crate) fn until_done<'py>(
        &mut self,
        step: impl Fn() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        const ATTEMPTS: u32 = 1000;
        for _ in 0..ATTEMPTS {
            match step() {
                Ok(done) => return Ok(done),
                // Python has set the context of the exception already. Only the last exception is kept. Chaining them
                // here could make a cycle, because a handler can raise the same object each time.
                Err(raised) => self.0 = Some(raised),
            }
        }
        step()
    }

    /// Stores the exception of a step that is not repeated.
    pub(crate) fn record(&mut self, raised: PyErr) {
        self.0 = Some(raised);
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Raises the stored exception, after everything is done.
    pub(crate) fn raise(self) -> PyResult<()> {
        self.0.map_or(Ok(()), Err)
    }
}
