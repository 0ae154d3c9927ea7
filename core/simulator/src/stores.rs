//! Stores for simulated servers. Each history begins with empty stores. To create the script engine is the most
//! expensive part of creating a store, so the histories of one thread reuse the engines of earlier histories.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use steadlock_store::Store;

thread_local! {
    static USED: RefCell<Vec<Store>> = const { RefCell::new(Vec::new()) };
}

/// A store that is kept for reuse when its server is dropped.
pub(crate) struct PooledStore(Option<Store>);

impl PooledStore {
    /// Returns an empty store.
    pub(crate) fn new() -> Self {
        let used = USED.with_borrow_mut(Vec::pop);
        Self(Some(used.unwrap_or_default()))
    }
}

impl Drop for PooledStore {
    fn drop(&mut self) {
        if let Some(mut store) = self.0.take() {
            store.clear_for_reuse();
            // The thread may be ending.
            let _ = USED.try_with(|used| used.borrow_mut().push(store));
        }
    }
}

impl Deref for PooledStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.0
            .as_ref()
            .unwrap_or_else(|| unreachable!("the store stays until it is dropped"))
    }
}

impl DerefMut for PooledStore {
    fn deref_mut(&mut self) -> &mut Store {
        self.0
            .as_mut()
            .unwrap_or_else(|| unreachable!("the store stays until it is dropped"))
    }
}
