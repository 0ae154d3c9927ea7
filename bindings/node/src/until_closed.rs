//! Values that are dropped when a client closes, although parts of the client live on.

use std::sync::{Arc, PoisonError, RwLock};

/// A shared value. `drop_value` drops it for all clones at once.
pub(crate) struct UntilClosed<T>(Arc<RwLock<Option<Arc<T>>>>);

impl<T> UntilClosed<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Some(Arc::new(value)))))
    }

    /// Returns the value, unless it was dropped. Does not keep the `RwLock` locked while the caller uses the value.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T> Clone for UntilClosed<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// An [`UntilClosed`] of any type.
pub(crate) trait DropValue {
    fn drop_value(&self);
}

impl<T> DropValue for UntilClosed<T> {
    fn drop_value(&self) {
        let value = self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        // The lock must be free here, because dropping the value can call back.
        drop(value);
    }
}
