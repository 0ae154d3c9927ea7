//! What signal handlers raise in the midst of something that has to be done.

use pyo3::prelude::*;

/// What was raised meanwhile by foreign code, the latest.
#[derive(Default)]
pub(crate) struct Struck(Option<PyErr>);

impl Struck {
    /// Does a step again as often as it is struck; one that fails by itself is given up in the end.
    pub(crate) fn until_done<'py>(
        &mut self,
        step: impl Fn() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        const TRIES: u32 = 1000;
        for _ in 0..TRIES {
            match step() {
                Ok(done) => return Ok(done),
                // Python has told it what it was raised beside. Of several the last counts: to chain them here could
                // make a circle, as a handler may raise one object each time.
                Err(raised) => self.0 = Some(raised),
            }
        }
        step()
    }

    /// A step that is not done again was struck.
    pub(crate) fn note(&mut self, raised: PyErr) {
        self.0 = Some(raised);
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Raises it, when all is done.
    pub(crate) fn raised(self) -> PyResult<()> {
        self.0.map_or(Ok(()), Err)
    }
}
