//! The table of `lua/` files and their SHA-1.

use once_cell::race::OnceBox;

/// The argument that makes a script publish to sharded channels.
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
            /// All scripts.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the text of the script: the parts that it uses, then its own file. Comment lines are emptied,
            /// because comments are half of the files. The empty lines stay, so that other lines keep their numbers.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => {
                        const FILES: &str = concat!(
                            $($(include_str!(concat!("../lua/parts/", $part, ".lua")),)+)?
                            include_str!(concat!("../lua/", $file, ".lua"))
                        );
                        const CODE: [u8; code_length(FILES)] = code(FILES);
                        const TEXT: &str = match std::str::from_utf8(&CODE) {
                            Ok(text) => text,
                            Err(_) => "",
                        };
                        TEXT
                    })*
                }
            }

            /// Returns the text with its comments, as in the files.
            #[cfg(test)]
            pub(crate) const fn source(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!(
                        $($(include_str!(concat!("../lua/parts/", $part, ".lua")),)+)?
                        include_str!(concat!("../lua/", $file, ".lua"))
                    ),)*
                }
            }

            /// Returns the name of the script's file.
            #[must_use]
            pub const fn file(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($file, ".lua"),)*
                }
            }

            /// Returns the parts that the script uses, in order.
            #[must_use]
            pub const fn parts(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => &[$($($part),+)?],)*
                }
            }

            /// Whether the script publishes messages. On a node of a cluster with sharded channels, such a script gets
            /// [`SHARDED`] after its arguments.
            #[must_use]
            pub fn publishes(self) -> bool {
                self.parts().contains(&"publish")
            }

            /// Returns the hex SHA-1 for EVALSHA.
            #[must_use]
            pub fn sha1(self) -> &'static str {
                // No `OnceLock`: if another thread is inside the initialization during a fork, each call of the child
                // would wait for that thread, which the child does not have.
                static HASHES: OnceBox<Vec<String>> = OnceBox::new();
                let hash = |script: &Self| sha1_smol::Sha1::from(script.text()).digest().to_string();
                let hashes = HASHES.get_or_init(|| Box::new(Self::ALL.iter().map(hash).collect()));
                // `ALL` has the scripts in the order of their declaration.
                hashes.get(self as usize).map_or("", String::as_str)
            }
        }
    };
}

scripts! {
    /// Stores which program a client is.
    ClientIdentify => "client_identify";
    /// Returns which program another client is.
    ClientInspect => "client_inspect";
    /// Acquires the reentrant lock.
    LockAcquire => "lock_acquire" uses "lease", "token", "form";
    /// Renews the reentrant lock.
    LockRenew => "lock_renew" uses "lease", "keep", "form";
    /// Releases the reentrant lock.
    LockRelease => "lock_release" uses "publish", "form";
    /// Returns the holder of the reentrant lock.
    LockInspect => "lock_inspect" uses "form";
    /// Removes the record of the reentrant lock, no matter who holds it.
    LockForce => "lock_force" uses "publish", "form";
    /// Acquires the simple lock.
    MutexAcquire => "mutex_acquire" uses "lease", "keep", "token", "other_kind";
    /// Renews the simple lock.
    MutexRenew => "mutex_renew" uses "lease", "keep";
    /// Releases the simple lock.
    MutexRelease => "mutex_release" uses "publish";
    /// Returns the holder of the simple lock.
    MutexInspect => "mutex_inspect" uses "other_kind";
    /// Removes the record of the simple lock, no matter who holds it.
    MutexForce => "mutex_force" uses "publish", "other_kind";
    /// Acquires the fair lock, or enters its queue.
    FairAcquire => "fair_acquire" uses "lease", "token", "publish", "form", "fair", "fair_wait";
    /// Keeps the waiters of the fair lock alive.
    FairPoll => "fair_poll" uses "token", "publish", "form", "fair", "fair_wait";
    /// Releases the fair lock, or leaves its queue.
    FairRelease => "fair_release" uses "token", "publish", "form", "fair";
    /// Removes the record of the fair lock, no matter who holds it.
    FairForce => "fair_force" uses "token", "publish", "form", "fair";
    /// Returns who leads.
    LeaderInspect => "leader_inspect" uses "form";
    /// Returns the number of waiters of the fair lock.
    FairLength => "fair_length";
    /// Acquires the read side of a read-write lock.
    ReadAcquire => "read_acquire" uses "lease", "time", "form", "read_write";
    /// Renews the read side of a read-write lock.
    ReadRenew => "read_renew" uses "lease", "time", "form", "read_write";
    /// Releases the read side of a read-write lock.
    ReadRelease => "read_release" uses "publish", "time", "form", "read_write";
    /// Acquires the write side of a read-write lock.
    WriteAcquire => "write_acquire" uses "lease", "keep", "time", "token", "form", "read_write";
    /// Renews the write side of a read-write lock.
    WriteRenew => "write_renew" uses "lease", "time", "form", "read_write";
    /// Releases the write side of a read-write lock.
    WriteRelease => "write_release" uses "publish", "time", "form", "read_write";
    /// Returns the holder of one side of a read-write lock.
    ReadWriteInspect => "read_write_inspect" uses "time", "form", "read_write";
    /// Removes the record of one side of a read-write lock, no matter who holds it.
    ReadWriteForce => "read_write_force" uses "publish", "form", "read_write";
    /// Acquires permits of a semaphore.
    SemaphoreAcquire => "semaphore_acquire" uses "lease", "time", "form", "permits";
    /// Renews permits of a semaphore.
    SemaphoreRenew => "semaphore_renew" uses "lease", "time", "form", "permits";
    /// Releases permits of a semaphore.
    SemaphoreRelease => "semaphore_release" uses "publish", "time", "form", "permits";
    /// Returns how many permits of a semaphore are held.
    SemaphoreInspect => "semaphore_inspect" uses "time", "form", "permits";
    /// Removes all permits of a semaphore that are held, no matter who holds them.
    SemaphoreForce => "semaphore_force" uses "publish", "form", "permits";
    /// Changes the limit of a semaphore whose permits are held.
    SemaphoreLimit => "semaphore_limit" uses "publish", "time", "form", "permits";
    /// Grants a run of a job, or returns which run keeps the caller out.
    OnceAcquire => "once_acquire" uses "lease", "time", "token", "form", "run";
    /// Renews a run of a job.
    OnceRenew => "once_renew" uses "lease", "keep", "form", "run";
    /// Ends a run of a job.
    OnceRelease => "once_release" uses "time", "form", "run";
    /// Returns which run keeps others out.
    OnceInspect => "once_inspect" uses "time", "form", "run";
    /// Removes the record of a run, no matter who runs the job.
    OnceForce => "once_force" uses "form", "run";
    /// Returns the last runs of a job.
    OnceHistory => "once_history" uses "form", "run";
}

/// Returns the length of the code of a source.
const fn code_length(source: &str) -> usize {
    without_comments::<0>(source).1
}

/// Returns the code of a source: its lines, with comment lines empty.
const fn code<const LENGTH: usize>(source: &str) -> [u8; LENGTH] {
    without_comments(source).0
}

/// Returns the first `CAPACITY` bytes of the code of a source, and the length of the whole code.
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "it runs in the compiler, where a panic only stops the build"
)]
const fn without_comments<const CAPACITY: usize>(source: &str) -> ([u8; CAPACITY], usize) {
    let source = source.as_bytes();
    let mut code = [0; CAPACITY];
    let (mut from, mut length) = (0, 0);
    while from < source.len() {
        let mut end = from;
        while end < source.len() && source[end] != b'\n' {
            end += 1;
        }
        let mut text = from;
        while text < end && source[text] == b' ' {
            text += 1;
        }
        let is_comment = text + 1 < end && source[text] == b'-' && source[text + 1] == b'-';
        let mut at = if is_comment { end } else { from };
        // The loop also copies the newline, if there is one.
        while at <= end && at < source.len() {
            if length < CAPACITY {
                code[length] = source[at];
            }
            (at, length) = (at + 1, length + 1);
        }
        from = end + 1;
    }
    (code, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_code_of_its_files_on_the_same_lines() {
        for script in Script::ALL {
            let is_comment = |line: &&str| line.trim_start().starts_with("--");
            let lines = script.source().lines();
            let code: Vec<&str> = lines.map(|line| if is_comment(&line) { "" } else { line }).collect();
            assert_eq!(script.text().lines().collect::<Vec<_>>(), code, "{}", script.file());
            assert!(script.text().ends_with('\n') && !script.text().contains("\n--"));
        }
    }

    #[test]
    fn a_script_says_which_parts_it_uses() {
        for script in Script::ALL {
            let own = script.source().rsplit("\n-- Uses ").next().unwrap();
            let said: Vec<&str> = match script.source().contains("\n-- Uses ") {
                true => own.lines().next().unwrap().split(", ").collect(),
                false => Vec::new(),
            };
            let used: Vec<String> = script.parts().iter().map(|part| format!("parts/{part}.lua")).collect();
            assert_eq!(said, used, "{}", script.file());
        }
    }
}
