//! Which defect a thread has switched on.

use std::cell::Cell;

/// Makes the list of defects.
macro_rules! defects {
    ($($(#[doc = $what:literal])* $name:ident,)*) => {
        /// A known defect: a file in `core/simulator/defects/patches`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Defect {
            $($(#[doc = $what])* $name,)*
        }

        impl Defect {
            /// All known defects.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/list.rs"));

thread_local! {
    static ON: Cell<Option<Defect>> = const { Cell::new(None) };
}

impl Defect {
    /// Whether this thread has switched the defect on. The text `DEFECT` of a patch stands for a call of this function.
    pub fn is_on(self) -> bool {
        ON.get() == Some(self)
    }
}

/// Does `work` with this defect switched on. A history runs on one thread, so no other history has the defect.
pub fn with<T>(defect: Option<Defect>, work: impl FnOnce() -> T) -> T {
    /// Switches the defect off, even if the work panics.
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            ON.set(None);
        }
    }
    let _off = Off;
    ON.set(defect);
    work()
}
