//! The class `Lease`.

use std::sync::Arc;

use pyo3::prelude::*;
use steadlock::host;

/// One grant or re-entry. Every method is fast and makes no server call.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct Lease(pub(crate) Arc<host::Lease>);

#[pymethods]
impl Lease {
    #[getter]
    fn id(&self) -> u64 {
        self.0.id()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn token(&self) -> Option<u64> {
        self.0.token()
    }

    #[getter]
    fn degraded(&self) -> bool {
        self.0.is_degraded()
    }

    #[getter]
    fn lost_reason(&self) -> Option<&'static str> {
        self.0.lost_reason().map(|reason| reason.as_str())
    }

    #[getter]
    fn is_released(&self) -> bool {
        self.0.is_released()
    }

    /// Whether the lease was lost and needs no release.
    #[getter]
    fn is_forgotten(&self) -> bool {
        self.0.is_forgotten()
    }

    fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// Returns the time in seconds for which the holder can rely on the lease if nothing renews it.
    fn remaining(&self) -> f64 {
        self.0.remaining().as_secs_f64()
    }
}
