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

            /// The script's text: the parts that it uses, then its own file. Where a line is a comment it is empty:
            /// they are two thirds of what would be sent, and the lines keep their numbers.
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

            /// The same with its comments, as a reader of the files has it.
            #[cfg(test)]
            pub(crate) const fn source(self) -> &'static str {
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
                static OF_EACH: OnceLock<Vec<String>> = OnceLock::new();
                let of = |script: &Self| sha1_smol::Sha1::from(script.text()).digest().to_string();
                let of_each = OF_EACH.get_or_init(|| Self::ALL.iter().map(of).collect());
                // `ALL` has them in the order in which they are declared.
                of_each.get(self as usize).map_or("", String::as_str)
            }
        }
    };
}

scripts! {
    /// Says which program a client is.
    ClientIdentify => "client_identify";
    /// Says so to another one.
    ClientInspect => "client_inspect";
    /// Acquires the reentrant lock.
    LockAcquire => "lock_acquire" uses "lease", "token", "form";
    /// Renews it.
    LockRenew => "lock_renew" uses "lease", "keep", "form";
    /// Releases it.
    LockRelease => "lock_release" uses "publish", "form";
    /// Says who holds it.
    LockInspect => "lock_inspect" uses "form";
    /// Removes its record, no matter who holds it.
    LockForce => "lock_force" uses "publish", "form";
    /// Acquires the simple lock.
    MutexAcquire => "mutex_acquire" uses "lease", "keep", "token", "other_kind";
    /// Renews it.
    MutexRenew => "mutex_renew" uses "lease", "keep";
    /// Releases it.
    MutexRelease => "mutex_release" uses "publish";
    /// Says who holds it.
    MutexInspect => "mutex_inspect" uses "other_kind";
    /// Removes its record, no matter who holds it.
    MutexForce => "mutex_force" uses "publish", "other_kind";
    /// Acquires the fair lock, or a place in its queue.
    FairAcquire => "fair_acquire" uses "lease", "token", "publish", "form", "fair", "fair_wait";
    /// Says that its waiters live.
    FairPoll => "fair_poll" uses "token", "publish", "form", "fair", "fair_wait";
    /// Releases it, or gives up the place in its queue.
    FairRelease => "fair_release" uses "token", "publish", "form", "fair";
    /// Removes its record, no matter who holds it.
    FairForce => "fair_force" uses "token", "publish", "form", "fair";
    /// Says how many wait for it.
    FairLength => "fair_length";
    /// Acquires the read side of a read-write lock.
    ReadAcquire => "read_acquire" uses "lease", "time", "form", "read_write";
    /// Renews it.
    ReadRenew => "read_renew" uses "lease", "time", "form", "read_write";
    /// Releases it.
    ReadRelease => "read_release" uses "publish", "time", "form", "read_write";
    /// Acquires the write side.
    WriteAcquire => "write_acquire" uses "lease", "keep", "time", "token", "form", "read_write";
    /// Renews it.
    WriteRenew => "write_renew" uses "lease", "time", "form", "read_write";
    /// Releases it.
    WriteRelease => "write_release" uses "publish", "time", "form", "read_write";
    /// Says who holds one side.
    ReadWriteInspect => "read_write_inspect" uses "time", "form", "read_write";
    /// Removes the record of one side, no matter who holds it.
    ReadWriteForce => "read_write_force" uses "publish", "form", "read_write";
    /// Acquires permits of a semaphore.
    SemaphoreAcquire => "semaphore_acquire" uses "lease", "time", "form", "permits";
    /// Renews them.
    SemaphoreRenew => "semaphore_renew" uses "lease", "time", "form", "permits";
    /// Releases them.
    SemaphoreRelease => "semaphore_release" uses "publish", "time", "form", "permits";
    /// Says how many are held.
    SemaphoreInspect => "semaphore_inspect" uses "time", "form", "permits";
    /// Removes all of them, no matter who holds them.
    SemaphoreForce => "semaphore_force" uses "publish", "form", "permits";
    /// Changes the limit that they agreed on.
    SemaphoreLimit => "semaphore_limit" uses "publish", "time", "form", "permits";
}

/// How long the code of a source is.
const fn code_length(source: &str) -> usize {
    walk::<0>(source).1
}

/// The code of a source: its lines, those that are comments empty.
const fn code<const LENGTH: usize>(source: &str) -> [u8; LENGTH] {
    walk(source).0
}

/// As many bytes of the code as there is room for, and how many there are.
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "the compiler runs it, and would stop"
)]
const fn walk<const ROOM: usize>(source: &str) -> ([u8; ROOM], usize) {
    let source = source.as_bytes();
    let mut code = [0; ROOM];
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
        // With the end of the line, if it has one.
        while at <= end && at < source.len() {
            if length < ROOM {
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
