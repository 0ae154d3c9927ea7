//! Lock names, and the keys derived from them.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Operation};

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// Prefixes that belong to keys derived from names.
const RESERVED_PREFIXES: [&str; 2] = ["leasehold:", "redisson_"];

/// A name whose derived keys all share its hash slot.
///
/// Two names are the same lock only if their bytes are equal; there is no
/// Unicode normalisation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Checks a name.
    ///
    /// # Errors
    /// `InvalidArgument` if it is empty, longer than 512 bytes, holds NUL,
    /// starts with `leasehold:` or `redisson_`, or has braces such that its
    /// derived keys would live in another hash slot of a cluster.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let refuse = |why: String| {
            let shown: String = name.chars().take(80).collect();
            Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, why).with_lock(shown))
        };
        if name.is_empty() {
            return refuse("the name is empty; give 1 to 512 bytes".into());
        }
        if name.len() > MAX_NAME_BYTES {
            return refuse(format!("the name has {} bytes; give 1 to 512", name.len()));
        }
        if name.contains('\0') {
            return refuse("the name holds a NUL byte; leave it out".into());
        }
        if let Some(prefix) = RESERVED_PREFIXES.iter().find(|prefix| name.starts_with(**prefix)) {
            return refuse(format!("names that start with {prefix:?} are reserved; choose another"));
        }
        if hash_tag(name.as_bytes()) != hash_tag(&derived("p", name)) {
            return refuse(
                "its braces would put its keys into different slots of a cluster; \
                 use one non-empty {tag} or no braces"
                    .into(),
            );
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that carries the name itself.
    pub(crate) fn key(&self) -> Arc<[u8]> {
        self.0.as_bytes().into()
    }

    /// `prefix:name` if the name has a `{`, else `prefix:{name}`: Redisson's rule,
    /// by which the names `a` and `{a}` share a key.
    pub(crate) fn derived(&self, prefix: &str) -> Arc<[u8]> {
        derived(prefix, &self.0).into()
    }

    /// `prefix::name` if the name has a `{`, else `prefix:{name}`: no two names
    /// share a key.
    pub(crate) fn own(&self, prefix: &str) -> Arc<[u8]> {
        if self.0.contains('{') {
            format!("{prefix}::{}", self.0).into_bytes().into()
        } else {
            derived(prefix, &self.0).into()
        }
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn derived(prefix: &str, name: &str) -> Vec<u8> {
    if name.contains('{') {
        format!("{prefix}:{name}").into_bytes()
    } else {
        format!("{prefix}:{{{name}}}").into_bytes()
    }
}

/// The part of a key that a cluster hashes: what stands between the first `{`
/// and the next `}`, if that is not empty; else the whole key.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let inside = key.get(open.saturating_add(1)..).unwrap_or_default();
    match inside.iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => inside.get(..length).unwrap_or(key),
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_put_in_braces() {
        let name = LockName::parse("user:42").unwrap();
        assert_eq!(&*name.derived("leasehold:token"), b"leasehold:token:{user:42}");
    }

    #[test]
    fn a_name_with_a_tag_keeps_it() {
        let name = LockName::parse("x:{tag}:y").unwrap();
        assert_eq!(&*name.derived("p"), b"p:x:{tag}:y");
    }

    #[test]
    fn no_two_names_share_a_key_of_ours() {
        let keys = ["a", "{a}", ":{a}"].map(|name| LockName::parse(name).unwrap().own("p"));
        assert_eq!(
            [&*keys[0], &*keys[1], &*keys[2]],
            [&b"p:{a}"[..], b"p::{a}", b"p:::{a}"]
        );
        assert!(keys.iter().all(|key| hash_tag(key) == b"a"));
    }

    #[test]
    fn names_that_would_split_over_slots_are_refused() {
        for name in ["a{b", "{}z", "a}b", "x{}{y}", "}"] {
            let error = LockName::parse(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
        }
    }

    #[test]
    fn empty_long_reserved_and_nul_names_are_refused() {
        let long = "n".repeat(513);
        for name in ["", &long, "a\0b", "leasehold:x", "redisson_lock__channel:x"] {
            assert!(LockName::parse(name).is_err(), "{name:?}");
        }
        assert!(LockName::parse(&"n".repeat(512)).is_ok());
    }
}
