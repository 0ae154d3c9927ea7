//! The one error type of Steadlock, and its words: what went wrong, the cause, and what to do. Only this file joins the
//! words to one text.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client_info::ClientInfo;
use crate::ending::LostReason;
use crate::foreign::around;
use crate::shown::shown;
use crate::skip::{Skip, SkipReason};

/// The kinds of errors. Every language has one class for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is not valid, or the caller would wait for itself.
    InvalidArgument,
    /// The caller no longer waited when the answer came.
    Cancelled,
    /// The client was closed.
    Closed,
    /// The object was made before a `fork` and does not work in the child.
    Forked,
    /// The lease ended before its holder released it.
    LockLost,
    /// The wait timed out: another owner still holds the lock, or comes first.
    LockTimeout,
    /// The server's configuration, or a value that another program stored under a key of the lock, does not allow the
    /// lock to work.
    Misconfigured,
    /// The caller does not hold the lock that it wants to release or extend.
    NotOwner,
    /// A run of a job was skipped: another run goes on, the job is done, or the server is unavailable and the caller
    /// wanted to skip then.
    Skipped,
    /// The server did not answer in time, could not be reached, or cannot serve for now.
    Unavailable,
}

impl ErrorKind {
    /// All kinds, in alphabetical order of their names.
    pub const ALL: [Self; 10] = [
        Self::Cancelled,
        Self::Closed,
        Self::Forked,
        Self::InvalidArgument,
        Self::LockLost,
        Self::LockTimeout,
        Self::Misconfigured,
        Self::NotOwner,
        Self::Skipped,
        Self::Unavailable,
    ];

    /// Returns the name, from which every language builds its class name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "Cancelled",
            Self::Closed => "Closed",
            Self::Forked => "Forked",
            Self::InvalidArgument => "InvalidArgument",
            Self::LockLost => "LockLost",
            Self::LockTimeout => "LockTimeout",
            Self::Misconfigured => "Misconfigured",
            Self::NotOwner => "NotOwner",
            Self::Skipped => "Skipped",
            Self::Unavailable => "Unavailable",
        }
    }

    /// Whether the problem can pass by itself.
    const fn may_pass(self) -> bool {
        match self {
            Self::LockTimeout | Self::Skipped | Self::Unavailable => true,
            Self::Cancelled
            | Self::Closed
            | Self::Forked
            | Self::InvalidArgument
            | Self::LockLost
            | Self::Misconfigured
            | Self::NotOwner => false,
        }
    }
}

/// The operation during which the error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Connecting to the server.
    Connect,
    /// Acquiring a lock.
    Acquire,
    /// Releasing a lock.
    Release,
    /// Extending a lease.
    Extend,
    /// Holding a lock, while no operation is running.
    Hold,
    /// Asking for the holder of a lock.
    Inspect,
    /// Changing the limit of a semaphore.
    SetLimit,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Extend => "extend",
            Self::Hold => "hold",
            Self::Inspect => "inspect",
            Self::SetLimit => "set_limit",
        })
    }
}

/// The holder of a lock, and how long it holds the lock if nothing renews it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The holder's owner id, as the server has it. Another program may have written any text there, so the text is
    /// cut, and control characters are escaped.
    pub owner: String,
    /// The rest of the record's TTL; `None` if the record has no TTL. For a degraded lease, which has no record, the
    /// rest of the lease, or its length if it is auto-renewed.
    pub remaining: Option<Duration>,
    /// The program and the machine of the holder, if known. The holder's client says so itself, and nothing verifies
    /// it. Other libraries do not provide it.
    pub client: Option<Arc<ClientInfo>>,
}

/// An error: its kind, the lock, the operation, the problem, the cause, and advice.
///
/// The text of an error never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    kind: ErrorKind,
    operation: Operation,
    lock: Option<Box<str>>,
    words: Words,
    holder: Option<Holder>,
    reason: Option<LostReason>,
    node: Option<Box<str>>,
    /// Whether retries are useless, even if the kind suggests them.
    is_lasting: bool,
    /// Why the acquisition was skipped, if it was.
    skip: Option<Skip>,
}

impl Error {
    /// Makes an error of `kind` in `operation`. `what` says what went wrong, and what to do if no cause is added to the
    /// error.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: Operation, what: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            operation,
            lock: None,
            words: Words::new(what),
            holder: None,
            reason: None,
            node: None,
            is_lasting: false,
            skip: None,
        }))
    }

    /// Makes an error that only has a cause.
    #[must_use]
    pub fn caused(kind: ErrorKind, operation: Operation, cause: impl Into<Cause>) -> Self {
        Self::new(kind, operation, "").with_cause(cause)
    }

    /// Makes the error for an operation of a closed client.
    #[must_use]
    pub fn closed(operation: Operation) -> Self {
        Self::new(ErrorKind::Closed, operation, "the client is closed; connect a new one")
    }

    /// Makes the error for an operation that needs an auto-renewed lease which was lost; `reason` is `None` if the
    /// reason is not known. A release that discovers the loss also gets this error, even for a fixed lease.
    #[must_use]
    pub fn lost(operation: Operation, reason: Option<LostReason>) -> Self {
        let cause = match (operation, reason) {
            // The server has no record: the deadline may have passed, or the record was removed before.
            (Operation::Release, Some(LostReason::Expired)) => {
                Some("its deadline passed, or its record was gone before that")
            }
            (_, reason) => reason.map(LostReason::cause),
        };
        let advice = match operation {
            Operation::Release => CHECK,
            _ => "release it and acquire the lock again",
        };
        Self::lost_by(operation, reason, cause).with_advice(advice)
    }

    /// Makes the error for a lost lease that need not be released: a fixed lease, or a lease of a closed client. If the
    /// reason is `Expired`, the lease was fixed, because a client does not forget an auto-renewed lease that expires.
    #[must_use]
    pub fn lost_and_forgotten(operation: Operation, reason: Option<LostReason>) -> Self {
        let has_expired = reason == Some(LostReason::Expired);
        let cause = match has_expired {
            true => Some("its fixed length passed before its release"),
            false => reason.map(LostReason::cause),
        };
        let advice = match (operation, has_expired) {
            (Operation::Release, _) => CHECK,
            (_, false) => "acquire the lock again",
            (_, true) => "acquire the lock again, with a longer lease or a renewed one",
        };
        Self::lost_by(operation, reason, cause).with_advice(advice)
    }

    fn lost_by(operation: Operation, reason: Option<LostReason>, cause: Option<&str>) -> Self {
        let error = Self::new(ErrorKind::LockLost, operation, "the lease was lost").with_reason(reason);
        match cause {
            Some(cause) => error.with_cause(cause),
            None => error,
        }
    }

    /// Adds the cause, with its advice.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Cause>) -> Self {
        self.0.words.set_cause(cause.into());
        self
    }

    /// Adds advice, or what still works.
    #[must_use]
    pub fn with_advice(mut self, advice: impl AsRef<str>) -> Self {
        self.0.words.add_advice(advice.as_ref());
        self
    }

    /// Replaces the operation.
    #[must_use]
    pub const fn with_operation(mut self, operation: Operation) -> Self {
        self.0.operation = operation;
        self
    }

    /// Adds the name of the lock, as messages show it.
    #[must_use]
    pub fn with_lock(mut self, lock: impl AsRef<str>) -> Self {
        self.0.lock = Some(shown(lock.as_ref()).into());
        self
    }

    /// Adds the name of the lock, if the name is known here.
    #[must_use]
    pub fn with_lock_if_known(self, lock: Option<&str>) -> Self {
        match lock {
            Some(lock) => self.with_lock(lock),
            None => self,
        }
    }

    /// Adds the holder of the lock.
    #[must_use]
    pub fn with_holder(mut self, holder: Option<Holder>) -> Self {
        self.0.holder = holder;
        self
    }

    /// Adds the holder's program, which replaces the owner id in the cause.
    #[must_use]
    pub(crate) fn with_holders_client(mut self, client: Arc<ClientInfo>) -> Self {
        if let Some(holder) = &mut self.0.holder {
            self.0.words.name_in_cause(&holder.owner, &client);
            holder.client = Some(client);
        }
        self
    }

    /// Adds the reason why the lease was lost.
    #[must_use]
    pub fn with_reason(mut self, reason: Option<LostReason>) -> Self {
        self.0.reason = reason;
        self
    }

    /// Adds the server, as messages show it.
    #[must_use]
    pub fn with_node(mut self, node: impl Into<String>) -> Self {
        self.0.node = Some(node.into().into());
        self
    }

    /// Marks the error as one that no retry can help, because the part of the client that failed does not come back.
    #[must_use]
    pub const fn with_lasting_cause(mut self) -> Self {
        self.0.is_lasting = true;
        self
    }

    /// Marks the error as that of an acquisition that is skipped.
    #[must_use]
    pub(crate) const fn with_skip(mut self, skip: Skip) -> Self {
        self.0.skip = Some(skip);
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the operation that failed.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Returns the name of the lock, if one was involved. If the name is a URL, its userinfo is hidden, as in messages.
    #[must_use]
    pub fn lock_name(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// Returns the last known holder of the lock, if there is one.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder> {
        self.0.holder.as_ref()
    }

    /// Returns why the lease was lost; `None` if no lease was lost, or if the reason is not known.
    #[must_use]
    pub const fn reason(&self) -> Option<LostReason> {
        self.0.reason
    }

    /// Returns the server that did not answer, or whose configuration does not allow locks to work: its address without
    /// user and password. For a RedLock, all its primaries are listed. `None` if no server is involved.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }

    /// Whether the same call can succeed later without any change: another owner holds the lock, or the server is
    /// unavailable for now.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.0.kind.may_pass() && !self.0.is_lasting
    }

    /// Whether the lock was skipped: its server is unavailable, and the caller did not want to run the guarded code
    /// without the lock ([`OnUnavailable::Skip`](crate::OnUnavailable::Skip)).
    #[must_use]
    pub const fn is_skipped(&self) -> bool {
        matches!(
            self.0.skip,
            Some(Skip {
                reason: SkipReason::Unavailable,
                ..
            })
        )
    }

    /// Returns why a run of a job was skipped; `None` if it was not. A lock of another kind is skipped only while its
    /// server is unavailable.
    #[must_use]
    pub const fn skip(&self) -> Option<Skip> {
        self.0.skip
    }

    /// Returns the cause without advice: the text of the server or the network, why no answer came, who holds the lock,
    /// or how the lease was lost. `None` if there is no such cause, as with a bad argument.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.0.words.cause()
    }

    /// Returns the problem, the cause and the advice, without lock, operation and server.
    #[must_use]
    pub fn message(&self) -> String {
        self.0.words.to_string()
    }
}

/// The advice for a release that finds the lease lost.
const CHECK: &str = "check what was done meanwhile, or let the resource refuse old tokens";

/// Makes the cause of an error that follows from this one.
impl From<&Error> for Cause {
    fn from(error: &Error) -> Self {
        error.0.words.as_cause()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.lock {
            Some(lock) => write!(f, "{} of lock {lock:?}: {}", self.0.operation, self.0.words),
            None => write!(f, "{}: {}", self.0.operation, self.0.words),
        }?;
        match &self.0.node {
            Some(node) => write!(f, " (server {node})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The cause of an error, with advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    text: Box<str>,
    advice: Option<Box<str>>,
}

impl Cause {
    /// Makes a cause without advice; [`Error::cause`] lists what its text can be.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into().into(),
            advice: None,
        }
    }

    /// Joins several causes: the texts of the first `shown` causes, and the first advice.
    #[must_use]
    pub fn joined<'a>(mut causes: impl Iterator<Item = &'a Self> + Clone, shown: usize) -> Self {
        let texts: Vec<&str> = causes.clone().take(shown).map(Self::text).collect();
        let advice = causes.find_map(|cause| cause.advice.clone());
        Self {
            text: texts.join("; ").into(),
            advice,
        }
    }

    /// Adds advice.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into().into());
        self
    }

    /// Replaces the text with the result of `change`.
    #[must_use]
    pub fn reworded(self, change: impl FnOnce(&str) -> String) -> Self {
        Self {
            text: change(&self.text).into(),
            ..self
        }
    }

    /// Returns the text, without the advice.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the advice.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put_together(f, "", Some(&self.text), self.advice())
    }
}

/// The text of an error, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// The problem; empty if the error only has a cause.
    what: Box<str>,
    cause: Option<Box<str>>,
    advice: Option<Box<str>>,
}

impl Words {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into().into(),
            cause: None,
            advice: None,
        }
    }

    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.cause = Some(cause.text);
        if let Some(advice) = cause.advice {
            self.add_advice(&advice);
        }
    }

    pub(crate) fn add_advice(&mut self, advice: &str) {
        self.advice = Some(match &self.advice {
            Some(before) => format!("{before}; {advice}").into(),
            None => advice.into(),
        });
    }

    /// Replaces a holder's owner id in the cause with a name.
    pub(crate) fn name_in_cause(&mut self, owner: &str, name: &dyn fmt::Display) {
        if let Some((before, after)) = self.cause.as_deref().and_then(|cause| around(cause, owner)) {
            self.cause = Some(format!("{before}{name}{after}").into());
        }
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Returns the cause and the advice. If there is no cause, the problem is the cause.
    pub(crate) fn as_cause(&self) -> Cause {
        Cause {
            text: self.cause.as_ref().unwrap_or(&self.what).clone(),
            advice: self.advice.clone(),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put_together(f, &self.what, self.cause(), self.advice.as_deref())
    }
}

/// Writes the parts as one text for people.
fn put_together(f: &mut fmt::Formatter<'_>, what: &str, cause: Option<&str>, advice: Option<&str>) -> fmt::Result {
    f.write_str(what)?;
    if let Some(cause) = cause {
        let colon = if what.is_empty() { "" } else { ": " };
        write!(f, "{colon}{cause}")?;
    }
    advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_lock_and_the_server_once_each() {
        let error = Error::new(ErrorKind::Unavailable, Operation::Acquire, "no answer");
        assert_eq!(error.to_string(), "acquire: no answer");
        let error = error.with_lock("a").with_node("redis://host:1/0");
        assert_eq!(
            error.to_string(),
            "acquire of lock \"a\": no answer (server redis://host:1/0)"
        );
        let error = error.with_operation(Operation::Extend).with_node("redis://other:1/0");
        assert_eq!(
            error.to_string(),
            "extend of lock \"a\": no answer (server redis://other:1/0)"
        );
    }

    #[test]
    fn a_cause_is_data_and_part_of_the_message() {
        let of = |what: &str| Error::new(ErrorKind::Unavailable, Operation::Extend, what);
        assert_eq!(of("no room; make some").cause(), None);
        let refused = Cause::new("the server refused: OOM").with_advice("make room on it");
        let error = of("not extended").with_cause(refused.clone());
        assert_eq!(
            error.message(),
            "not extended: the server refused: OOM; make room on it"
        );
        assert_eq!(error.cause(), Some("the server refused: OOM"));
        let error = error.with_advice("the lease goes on as it was");
        assert_eq!(
            error.message(),
            "not extended: the server refused: OOM; make room on it; the lease goes on as it was"
        );
        let bare = Error::caused(ErrorKind::Unavailable, Operation::Connect, refused);
        assert_eq!(bare.to_string(), "connect: the server refused: OOM; make room on it");
        assert_eq!(bare.cause(), Some("the server refused: OOM"));
    }

    #[test]
    fn the_error_of_an_expired_fixed_lease_does_not_mention_renewals() {
        for operation in [
            Operation::Acquire,
            Operation::Extend,
            Operation::Hold,
            Operation::Release,
        ] {
            let error = Error::lost_and_forgotten(operation, Some(LostReason::Expired));
            let cause = error.cause().unwrap();
            assert!(
                cause.starts_with("its fixed length passed before its release"),
                "{cause}"
            );
            let message = error.message();
            assert!(!message.contains("confirmed renewal"), "{message}");
            let advice = match operation {
                Operation::Release => CHECK,
                _ => "with a longer lease or a renewed one",
            };
            assert!(message.ends_with(advice), "{message}");
            let renewed = Error::lost(operation, Some(LostReason::Expired));
            assert!(renewed.cause().unwrap().contains("its deadline passed"), "{renewed}");
            for reason in [
                LostReason::Removed,
                LostReason::Stolen,
                LostReason::MaxHold,
                LostReason::Closed,
            ] {
                let message = Error::lost_and_forgotten(operation, Some(reason)).message();
                assert!(message.contains(reason.cause()), "{message}");
                assert!(!message.contains("longer"), "{message}");
            }
        }
    }

    #[test]
    fn a_retry_may_help_where_nothing_has_to_be_changed() {
        let retryable = |kind| Error::new(kind, Operation::Acquire, "").is_retryable();
        let temporary = ErrorKind::ALL.into_iter().filter(|kind| retryable(*kind));
        assert!(temporary.eq([ErrorKind::LockTimeout, ErrorKind::Skipped, ErrorKind::Unavailable]));
        let lasting = Error::new(ErrorKind::Unavailable, Operation::Acquire, "").with_lasting_cause();
        assert!(!lasting.is_retryable());
    }
}
