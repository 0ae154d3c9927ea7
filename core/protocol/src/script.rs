//! The table of `lua/` files and their SHA-1.

use std::sync::OnceLock;

macro_rules! scripts {
    ($($(#[$doc:meta])* $variant:ident => $file:literal,)*) => {
        /// A script of the `lua/` folder.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Script {
            $($(#[$doc])* $variant,)*
        }

        impl Script {
            /// Every script.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The script's text.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../lua/", $file)),)*
                }
            }

            /// The name of its file.
            #[must_use]
            pub const fn file(self) -> &'static str {
                match self {
                    $(Self::$variant => $file,)*
                }
            }

            /// The hex SHA-1 that EVALSHA takes.
            #[must_use]
            pub fn sha1(self) -> &'static str {
                match self {
                    $(Self::$variant => {
                        static SHA1: OnceLock<String> = OnceLock::new();
                        SHA1.get_or_init(|| sha1_smol::Sha1::from(self.text()).digest().to_string())
                    })*
                }
            }
        }
    };
}

scripts! {
    /// Takes the reentrant lock.
    LockAcquire => "lock_acquire.lua",
    /// Renews it.
    LockRenew => "lock_renew.lua",
    /// Gives it back.
    LockRelease => "lock_release.lua",
    /// Says who holds it.
    LockInspect => "lock_inspect.lua",
}
