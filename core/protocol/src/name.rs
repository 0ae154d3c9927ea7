//! Lock names, and the keys and channels that are derived from them.
//!
//! The keys and channels of a lock have the form `steadlock:{NAME}:WORD`, or `steadlock::NAME:WORD` if the name has
//! braces. Two have another form: the name itself, which some kinds of lock use as a key, and Redisson's channel.
//! The form has three properties:
//!
//! - A cluster keeps all keys of a lock in one slot.
//! - No two names share a key.
//! - All keys of this form whose names begin with PREFIX start with `steadlock:{PREFIX` or `steadlock::PREFIX`, and no
//!   other keys do. Two patterns of an access list are therefore enough for them.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Operation};
use crate::owner::ClientId;
use crate::shown::shown;

/// The length of the longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// The prefixes of keys that are derived from names.
const RESERVED_PREFIXES: [&str; 2] = ["steadlock:", "redisson_"];

/// A name whose derived keys are all in the hash slot of the name.
///
/// Two names are the same lock only if their bytes are equal; there is no Unicode normalisation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Checks a name.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is empty, is longer than 512 bytes, contains NUL, starts with `steadlock:` or
    /// `redisson_`, or has braces that would put its derived keys into another hash slot of a cluster.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let refuse = |why: String| {
            // The userinfo of a URL is hidden before the text is cut, because the cut could remove the `@` that marks
            // it.
            let short: String = shown(name).chars().take(80).collect();
            Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, why).with_lock(short))
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
        // A name without braces is itself the hash tag of its keys.
        if name.contains(['{', '}']) && hash_tag(name.as_bytes()) != hash_tag(&derived("p", name)) {
            return refuse(
                "its braces would put its keys into different slots of a cluster; \
                 use one non-empty {tag} or no braces"
                    .into(),
            );
        }
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key that is the name itself.
    pub(crate) fn key(&self) -> Arc<[u8]> {
        Arc::clone(&self.0).into()
    }

    /// Returns the channel on which Redisson publishes releases of this name. Redisson's rule for braces differs from
    /// Steadlock's: the names `a` and `{a}` share a channel.
    pub(crate) fn redisson_channel(&self) -> Arc<[u8]> {
        derived("redisson_lock__channel", &self.0).into()
    }

    /// Returns a key or a channel of Steadlock for this name.
    pub(crate) fn own(&self, word: Word) -> Arc<[u8]> {
        self.with_word(word.as_str())
    }

    /// Returns the channel on which the server publishes grants to the waiters of `client`; `grants` is the word of the
    /// lock's kind. The script `lua/parts/fair.lua` derives the channel from the key of the queue.
    pub(crate) fn grants(&self, grants: &str, client: ClientId) -> Arc<[u8]> {
        self.with_word(&format!("{grants}:{client}"))
    }

    /// Returns a key or a channel with a word of the caller's, which has no colon and no brace.
    pub(crate) fn with_word(&self, word: &str) -> Arc<[u8]> {
        let name = &*self.0;
        if name.contains('{') {
            ["steadlock::", name, ":", word].concat().into_bytes().into()
        } else {
            ["steadlock:{", name, "}:", word].concat().into_bytes().into()
        }
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*shown(&self.0), f)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// The last part of a Steadlock key or channel, which says what it is for. A word has letters and `-`, but no colon.
/// Each kind of lock defines its words in its file in `kinds/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word(&'static str);

impl Word {
    /// The last fencing token, which all kinds of one name share.
    pub(crate) const TOKEN: Self = Self("token");
    /// The key that shows which of a client's primaries a server is. No lock uses it.
    pub(crate) const PRIMARY: Self = Self("primary");
    /// The key that says which program a client is. No lock uses it.
    pub(crate) const CLIENT: Self = Self("client");
    /// A key for tests of access rights. No lock uses it.
    pub(crate) const SCRATCH: Self = Self("scratch");
    /// A channel for tests of access rights. No lock uses it.
    pub(crate) const SCRATCH_CHANNEL: Self = Self("scratch-channel");

    /// Makes a word. Each word must be used for one thing only.
    pub(crate) const fn new(word: &'static str) -> Self {
        Self(word)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        self.0
    }
}

/// The prefix that a client puts before each of its names.
///
/// Two clients are separate if neither's prefix is the start of the other's. End a prefix with a separator, as in
/// `acme:`, because `acme` is the start of `acme2`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyPrefix(Arc<str>);

impl fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*shown(&self.0), f)
    }
}

impl KeyPrefix {
    /// Checks a prefix; an empty one adds nothing to names.
    ///
    /// # Errors
    /// `InvalidArgument` if the prefix could not be a name itself (see [`LockName::parse`]), is the start of a reserved
    /// prefix, or contains one of `*?[]\`, which an access list would interpret as a pattern.
    pub fn parse(prefix: &str) -> Result<Self, Error> {
        let refuse = |why: &str| {
            let message = format!("the key prefix {:?} cannot be used: {why}", shown(prefix));
            Err(Error::new(ErrorKind::InvalidArgument, Operation::Connect, message))
        };
        if prefix.is_empty() {
            return Ok(Self::default());
        }
        if let Err(error) = LockName::parse(prefix) {
            return refuse(&error.message());
        }
        if RESERVED_PREFIXES.iter().any(|reserved| reserved.starts_with(prefix)) {
            return refuse("reserved keys start with it; end it in a separator, as in \"app:\"");
        }
        if prefix.contains(['*', '?', '[', ']', '\\']) {
            return refuse("an access list takes one of its characters for a pattern; leave out *?[]\\");
        }
        Ok(Self(prefix.into()))
    }

    /// Returns the full name: the prefix, then the name.
    ///
    /// # Errors
    /// The errors of [`LockName::parse`] for the full name; also if `name` is empty, because a prefix alone is not a
    /// name.
    pub fn name(&self, name: &str) -> Result<LockName, Error> {
        if self.0.is_empty() || name.is_empty() {
            return LockName::parse(name);
        }
        LockName::parse(&format!("{}{name}", self.0))
    }

    /// Returns the key that shows whether two of a client's primaries are one server. No lock uses the key: in place of
    /// a lock's name it has `id`, which belongs to this client alone.
    #[must_use]
    pub fn nonce_key(&self, id: ClientId) -> Arc<[u8]> {
        // The name is not checked: a prefix can be too long for an id, but short enough for short names.
        LockName(format!("{}{id}", self.0).into()).own(Word::PRIMARY)
    }

    /// Returns the key that says which program a client is. No lock uses the key, as with [`KeyPrefix::nonce_key`].
    #[must_use]
    pub fn client_key(&self, id: ClientId) -> Arc<[u8]> {
        self.key_of_client(&id.to_string())
    }

    /// Returns the key that says which program another client is; `id` is the client's id, as a record has it.
    #[must_use]
    pub fn key_of_client(&self, id: &str) -> Arc<[u8]> {
        LockName(format!("{}{id}", self.0).into()).own(Word::CLIENT)
    }

    /// Returns keys and channels for a test of the user's rights on the keys of this prefix. No lock uses them: in
    /// place of a lock's name they have `id`, which belongs to this client alone.
    #[must_use]
    pub fn scratch(&self, id: ClientId) -> Scratch {
        Scratch::of(&LockName(format!("{}{id}", self.0).into()))
    }

    /// Returns such keys and channels for a name with a brace; `None` if the prefix has a brace, because the names of
    /// `scratch` then have one as well.
    #[must_use]
    pub fn scratch_with_brace(&self, id: ClientId) -> Option<Scratch> {
        let name = || LockName(format!("{}{{{id}}}", self.0).into());
        (!self.0.contains('{')).then(|| Scratch::of(&name()))
    }

    /// Returns a full name without the prefix, as the caller gave it. Copies nothing if the prefix is empty.
    #[must_use]
    pub fn given(&self, name: &LockName) -> Arc<str> {
        if self.0.is_empty() {
            Arc::clone(&name.0)
        } else {
            self.strip(&name.0).into()
        }
    }

    /// Removes the prefix from a full name.
    #[must_use]
    pub fn strip<'a>(&self, name: &'a str) -> &'a str {
        name.strip_prefix(&*self.0).unwrap_or(name)
    }
}

/// Keys and channels for tests of access rights, one of each form that locks use. All are in one slot of a cluster. A
/// program that writes a key must give it a TTL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// A key in the form of a lock's record: the name itself.
    pub name: Arc<[u8]>,
    /// A key in the form of all other keys of a lock.
    pub key: Arc<[u8]>,
    /// A channel in the form of the one that is shared with Redisson.
    pub redisson_channel: Arc<[u8]>,
    /// A channel in the form of all other channels.
    pub channel: Arc<[u8]>,
}

impl Scratch {
    fn of(name: &LockName) -> Self {
        Self {
            name: name.key(),
            key: name.own(Word::SCRATCH),
            redisson_channel: name.redisson_channel(),
            channel: name.own(Word::SCRATCH_CHANNEL),
        }
    }
}

/// Returns `prefix:name` if the name has a `{`, otherwise `prefix:{name}`. This is Redisson's rule.
fn derived(prefix: &str, name: &str) -> Vec<u8> {
    if name.contains('{') {
        format!("{prefix}:{name}").into_bytes()
    } else {
        format!("{prefix}:{{{name}}}").into_bytes()
    }
}

/// Returns the part of a key that a cluster hashes: the text between the first `{` and the next `}` if it is not empty,
/// otherwise the whole key.
#[must_use]
pub fn hash_tag(key: &[u8]) -> &[u8] {
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
    fn the_userinfo_of_a_url_in_a_names_place_is_never_shown() {
        for (name, wanted) in [
            ("stock:42", "stock:42"),
            ("user@example", "user@example"),
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://:sesame@host:6379", "redis://…@host:6379"),
            ("redis:/:sesame@host:6379", "redis:/…@host:6379"),
            ("redis://user:se/same@ses@ame@host", "redis://…@host"),
            ("a, redis://:sesame@h, redis://:sesame@i", "a, redis://…@i"),
        ] {
            assert_eq!(shown(name), wanted);
            assert_eq!(shown(wanted), wanted, "a shown name stays as it is");
            let name = LockName::parse(name).unwrap();
            assert_eq!(format!("{name}"), wanted);
            assert_eq!(format!("{name:?}"), format!("{wanted:?}"));
        }
        let long = format!("redis://:{}@host", "sesame".repeat(100));
        let error = LockName::parse(&long).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    }

    fn name(name: &str) -> LockName {
        LockName::parse(name).unwrap()
    }

    #[test]
    fn a_plain_name_is_put_in_braces() {
        assert_eq!(&*name("user:42").own(Word::TOKEN), b"steadlock:{user:42}:token");
        assert_eq!(
            &*name("user:42").redisson_channel(),
            b"redisson_lock__channel:{user:42}"
        );
    }

    #[test]
    fn a_name_with_a_tag_keeps_it() {
        assert_eq!(&*name("x:{tag}:y").own(Word::TOKEN), b"steadlock::x:{tag}:y:token");
        assert_eq!(
            &*name("x:{tag}:y").redisson_channel(),
            b"redisson_lock__channel:x:{tag}:y"
        );
    }

    #[test]
    fn grant_messages_use_a_channel_of_the_lock_and_the_client() {
        let client = ClientId::random(&mut || 7);
        let channel = String::from_utf8(name("desk").grants("grants", client).to_vec()).unwrap();
        assert_eq!(channel, format!("steadlock:{{desk}}:grants:{client}"));
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
        for name in ["", &long, "a\0b", "steadlock:x", "redisson_lock__channel:x"] {
            assert!(LockName::parse(name).is_err(), "{name:?}");
        }
        assert!(LockName::parse(&"n".repeat(512)).is_ok());
    }

    #[test]
    fn a_prefix_comes_before_the_name_and_is_checked_with_it() {
        let prefix = KeyPrefix::parse("shop:").unwrap();
        assert_eq!(prefix.name("stock").unwrap().as_str(), "shop:stock");
        assert_eq!(prefix.name("{a}").unwrap().as_str(), "shop:{a}");
        assert_eq!(prefix.strip("shop:stock"), "stock");
        assert_eq!(prefix.strip("stock"), "stock");
        for name in ["", "a{", &"n".repeat(508)] {
            assert!(prefix.name(name).is_err(), "{name:?}");
        }
        assert_eq!(KeyPrefix::parse("").unwrap().name("stock").unwrap().as_str(), "stock");
    }

    #[test]
    fn a_key_of_no_lock_has_the_prefix_and_an_id_in_a_names_place() {
        let id = ClientId::random(&mut || 7);
        let key = |prefix: &str| {
            let key = KeyPrefix::parse(prefix).unwrap().nonce_key(id);
            String::from_utf8(key.to_vec()).unwrap()
        };
        let scratch = KeyPrefix::parse("shop:").unwrap().scratch_with_brace(id).unwrap();
        assert_eq!(&*scratch.key, format!("steadlock::shop:{{{id}}}:scratch").as_bytes());
        assert_eq!(hash_tag(&scratch.key), hash_tag(&scratch.channel));
        assert_eq!(KeyPrefix::parse("{shop}:").unwrap().scratch_with_brace(id), None);
        assert_eq!(key(""), format!("steadlock:{{{id}}}:primary"));
        assert_eq!(key("shop:"), format!("steadlock:{{shop:{id}}}:primary"));
        assert_eq!(key("{shop}:"), format!("steadlock::{{shop}}:{id}:primary"));
        assert!(key(&"n".repeat(511)).ends_with(":primary"), "a name can have one byte");
    }

    #[test]
    fn a_prefix_is_valid_only_if_it_could_be_a_name() {
        for prefix in ["{app}:", "app:{x}", "app", "app.", "ä-"] {
            assert!(KeyPrefix::parse(prefix).is_ok(), "{prefix:?}");
        }
        for prefix in ["{", "app{", "{}", "app}", "a\0", &"n".repeat(513)] {
            let error = KeyPrefix::parse(prefix).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{prefix:?}");
            assert_eq!(error.operation(), Operation::Connect, "{prefix:?}");
        }
    }

    #[test]
    fn a_prefix_that_is_a_pattern_or_the_start_of_reserved_keys_is_refused() {
        for prefix in ["a*:", "a?", "[ab]:", "a]", "a\\:"] {
            assert!(KeyPrefix::parse(prefix).is_err(), "{prefix:?}");
        }
        for prefix in [
            "s",
            "steadlock",
            "steadlock:",
            "steadlock:{a",
            "r",
            "redisson",
            "redisson_x:",
        ] {
            assert!(KeyPrefix::parse(prefix).is_err(), "{prefix:?}");
        }
        assert!(KeyPrefix::parse("steady-").is_ok());
    }
}
