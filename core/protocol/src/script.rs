//! The table of `lua/` files and their SHA-1.

use std::sync::OnceLock;

/// The argument that has a script publish to sharded channels.
pub const SHARDED: &[u8] = b"sharded";

macro_rules! scripts {
    ($($(#[$doc:meta])* $variant:ident => $file:literal $(uses $($part:literal),+)?;)*) => {
        /// A script of the `lua/` folder.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Script {
            $($(#[$doc])* $variant,)*
        }

        impl Script {
            /// Every script.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The script's text: the parts that it uses, then its own file.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!(
                        $($(include_str!(concat!("../lua/parts/", $part, ".lua")),)+)?
                        include_str!(concat!("../lua/", $file, ".lua"))
                    ),)*
                }
            }

            /// The name of its file.
            #[must_use]
            pub const fn file(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($file, ".lua"),)*
                }
            }

            /// The parts that stand before it.
            #[must_use]
            pub const fn parts(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => &[$($($part),+)?],)*
                }
            }

            /// Whether it tells others something. Called at a node of a cluster that has sharded channels, it is
            /// given [`SHARDED`] behind its arguments.
            #[must_use]
            pub fn publishes(self) -> bool {
                self.parts().contains(&"publish")
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
    /// Says which program a client is.
    ClientIdentify => "client_identify";
    /// Says so to another one.
    ClientInspect => "client_inspect";
    /// Takes the reentrant lock.
    LockAcquire => "lock_acquire" uses "lease", "token";
    /// Renews it.
    LockRenew => "lock_renew" uses "lease", "keep";
    /// Gives it back.
    LockRelease => "lock_release" uses "publish";
    /// Says who holds it.
    LockInspect => "lock_inspect";
    /// Takes it from whoever holds it.
    LockForce => "lock_force" uses "publish";
    /// Takes the simple lock.
    MutexAcquire => "mutex_acquire" uses "lease", "keep", "token";
    /// Renews it.
    MutexRenew => "mutex_renew" uses "lease", "keep";
    /// Gives it back.
    MutexRelease => "mutex_release" uses "publish";
    /// Says who holds it.
    MutexInspect => "mutex_inspect";
    /// Takes it from whoever holds it.
    MutexForce => "mutex_force" uses "publish";
    /// Takes the fair lock, or a place in its queue.
    FairAcquire => "fair_acquire" uses "lease", "keep", "token", "publish", "fair", "fair_wait";
    /// Says that its waiters live.
    FairPoll => "fair_poll" uses "token", "publish", "fair", "fair_wait";
    /// Gives it back, or the place.
    FairRelease => "fair_release" uses "token", "publish", "fair";
    /// Takes it from whoever holds it.
    FairForce => "fair_force" uses "token", "publish", "fair";
    /// Says how many wait for it.
    FairLength => "fair_length";
    /// Takes the read side of a read-write lock.
    ReadAcquire => "read_acquire" uses "lease", "time", "read_write";
    /// Renews it.
    ReadRenew => "read_renew" uses "lease", "time";
    /// Gives it back.
    ReadRelease => "read_release" uses "publish", "time";
    /// Takes the write side.
    WriteAcquire => "write_acquire" uses "lease", "keep", "time", "token", "read_write";
    /// Renews it.
    WriteRenew => "write_renew" uses "lease", "time", "read_write";
    /// Gives it back.
    WriteRelease => "write_release" uses "publish", "keep", "time", "read_write";
    /// Says who holds one side.
    ReadWriteInspect => "read_write_inspect" uses "time", "read_write";
    /// Takes one side from whoever holds it.
    ReadWriteForce => "read_write_force" uses "publish";
    /// Takes permits of a semaphore.
    SemaphoreAcquire => "semaphore_acquire" uses "lease", "time";
    /// Renews them.
    SemaphoreRenew => "semaphore_renew" uses "lease", "time";
    /// Gives them back.
    SemaphoreRelease => "semaphore_release" uses "publish", "time";
    /// Says how many are held.
    SemaphoreInspect => "semaphore_inspect" uses "time";
    /// Takes all of them from whoever holds them.
    SemaphoreForce => "semaphore_force" uses "publish";
    /// Changes the limit that they agreed on.
    SemaphoreLimit => "semaphore_limit" uses "publish", "time";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_says_which_parts_it_uses() {
        for script in Script::ALL {
            let own = script.text().rsplit("\n-- Uses ").next().unwrap();
            let said: Vec<&str> = match script.text().contains("\n-- Uses ") {
                true => own.lines().next().unwrap().split(", ").collect(),
                false => Vec::new(),
            };
            let used: Vec<String> = script.parts().iter().map(|part| format!("parts/{part}.lua")).collect();
            assert_eq!(said, used, "{}", script.file());
        }
    }
}
