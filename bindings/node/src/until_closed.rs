//! Things that a client has until it is closed, though parts of it live on.

use std::sync::{Arc, PoisonError, RwLock};

/// Something that several share until it is dropped for all of them.
pub(crate) struct UntilClosed<T>(Arc<RwLock<Option<Arc<T>>>>);

impl<T> UntilClosed<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Some(Arc::new(value)))))
    }

    /// It, unless it was dropped. No lock is held while it is used.
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
pub(crate) trait Drops {
    fn drop_it(&self);
}

impl<T> Drops for UntilClosed<T> {
    fn drop_it(&self) {
        let value = self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        // Without the lock: what is dropped may call back.
        drop(value);
    }
}
