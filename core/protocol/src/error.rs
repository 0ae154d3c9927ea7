//! The one error type of Steadlock, and its words: what went wrong, the cause, and what to do. Only this file joins them
//! to one text.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client_info::ClientInfo;
use crate::ending::LostReason;
use crate::foreign::around;
use crate::shown::shown;

/// What went wrong, kind by kind. Every language has one class for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is out of its range. Nothing was sent.
    InvalidArgument,
    /// The caller went away before the answer came.
    Cancelled,
    /// The client was closed.
    Closed,
    /// The object was made before a `fork` and does not work in the child.
    Forked,
    /// The lease ended before its holder was done with it.
    LockLost,
    /// The wait timed out: another owner still holds the lock.
    LockTimeout,
    /// The server is set up in a way the lock cannot work with.
    Misconfigured,
    /// The caller does not hold the lock it wants to release or extend.
    NotOwner,
    /// The server did not answer in time, could not be reached, or cannot serve for now.
    Unavailable,
}

impl ErrorKind {
    /// All kinds, in alphabetical order of their names.
    pub const ALL: [Self; 9] = [
        Self::Cancelled,
        Self::Closed,
        Self::Forked,
        Self::InvalidArgument,
        Self::LockLost,
        Self::LockTimeout,
        Self::Misconfigured,
        Self::NotOwner,
        Self::Unavailable,
    ];

    /// The name that every language builds its class name from.
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
            Self::Unavailable => "Unavailable",
        }
    }

    /// Whether what went wrong may pass by itself.
    const fn may_pass(self) -> bool {
        match self {
            Self::LockTimeout | Self::Unavailable => true,
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

/// What was being done when the error came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Connecting to the server.
    Connect,
    /// Taking a lock.
    Acquire,
    /// Giving a lock back.
    Release,
    /// Making a lease last longer.
    Extend,
    /// Holding a lock, while nothing is asked for it.
    Hold,
    /// Asking who holds a lock.
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

/// Who holds a lock, and for how long if nothing renews it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The holder's owner id as the server has it. Another program may have written anything there: it is cut, and
    /// its control characters are escapes.
    pub owner: String,
    /// What was left of the record's TTL; `None` if it has no TTL.
    pub remaining: Option<Duration>,
    /// Which program on which machine it is, if that is known: as the holder's client says, which nothing vouches
    /// for. Other libraries do not say it.
    pub client: Option<Arc<ClientInfo>>,
}

/// An error: its kind, the lock, the operation, what went wrong, the cause, and what to do.
///
/// Its text never contains a password.
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
    /// No retry helps, whatever the kind says.
    is_lasting: bool,
    /// The caller wanted to go on without the lock.
    is_skipped: bool,
}

impl Error {
    /// An error of `kind` in `operation`; `what` says what went wrong, and what to do if nobody else
    /// caused it.
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
            is_skipped: false,
        }))
    }

    /// An error of which there is nothing to say but its cause.
    #[must_use]
    pub fn caused(kind: ErrorKind, operation: Operation, cause: impl Into<Cause>) -> Self {
        Self::new(kind, operation, "").with_cause(cause)
    }

    /// What an operation of a closed client gets.
    #[must_use]
    pub fn closed(operation: Operation) -> Self {
        Self::new(ErrorKind::Closed, operation, "the client is closed; connect a new one")
    }

    /// What `operation` gets that relied on an auto-renewed lease which was lost, for this reason if it is known. So does
    /// a release that finds the loss out itself, also of a fixed lease.
    #[must_use]
    pub fn lost(operation: Operation, reason: Option<LostReason>) -> Self {
        let cause = match (operation, reason) {
            // A release that finds no record is told the same reason as one that comes after the deadline.
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

    /// The same of a lease that was fixed, or whose client was closed: nobody need release it. Only a fixed one is
    /// forgotten as it expires.
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

    /// The same error, saying what caused it, and what to do about that.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Cause>) -> Self {
        self.0.words.set_cause(cause.into());
        self
    }

    /// The same error, saying also what to do, or what goes on all the same.
    #[must_use]
    pub fn with_advice(mut self, advice: impl AsRef<str>) -> Self {
        self.0.words.add_advice(advice.as_ref());
        self
    }

    /// The same error, of another operation.
    #[must_use]
    pub const fn with_operation(mut self, operation: Operation) -> Self {
        self.0.operation = operation;
        self
    }

    /// The same error, naming the lock as messages show it.
    #[must_use]
    pub fn with_lock(mut self, lock: impl AsRef<str>) -> Self {
        self.0.lock = Some(shown(lock.as_ref()).into());
        self
    }

    /// The same error, naming the lock if its name is known here.
    #[must_use]
    pub fn with_lock_if_known(self, lock: Option<&str>) -> Self {
        match lock {
            Some(lock) => self.with_lock(lock),
            None => self,
        }
    }

    /// The same error, naming who holds the lock.
    #[must_use]
    pub fn with_holder(mut self, holder: Option<Holder>) -> Self {
        self.0.holder = holder;
        self
    }

    /// The same error, naming the holder's program where the cause has its owner id.
    #[must_use]
    pub(crate) fn with_holders_client(mut self, client: Arc<ClientInfo>) -> Self {
        if let Some(holder) = &mut self.0.holder {
            self.0.words.name_in_cause(&holder.owner, &client);
            holder.client = Some(client);
        }
        self
    }

    /// The same error, saying why the lease was lost.
    #[must_use]
    pub fn with_reason(mut self, reason: Option<LostReason>) -> Self {
        self.0.reason = reason;
        self
    }

    /// The same error, naming the server that it is about as messages show it.
    #[must_use]
    pub fn with_node(mut self, node: impl Into<String>) -> Self {
        self.0.node = Some(node.into().into());
        self
    }

    /// The same error, which no retry helps: what failed does not come back.
    #[must_use]
    pub const fn with_lasting_cause(mut self) -> Self {
        self.0.is_lasting = true;
        self
    }

    /// The same error, of a lock that is skipped while its server is unavailable.
    #[must_use]
    pub const fn with_skip(mut self) -> Self {
        self.0.is_skipped = true;
        self
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was being done.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The lock's name, if one was involved, as messages show it: without the
    /// userinfo of a URL.
    #[must_use]
    pub fn lock_name(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// Who held the lock at the server's last answer, if that is known.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder> {
        self.0.holder.as_ref()
    }

    /// Why the lease was lost; `None` if none was, or if that is not known.
    #[must_use]
    pub const fn reason(&self) -> Option<LostReason> {
        self.0.reason
    }

    /// The server that did not answer, or that is set up so that locks cannot work: its address
    /// without user and password, of several primaries all; `None` if no server has to do with it.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }

    /// Whether the same call may go well later though nobody changes anything: another holder
    /// keeps the lock, or the server is away for now.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.0.kind.may_pass() && !self.0.is_lasting
    }

    /// Whether the lock was skipped: its server is unavailable, and what the lock guards was not to
    /// be run then ([`OnUnavailable::Skip`](crate::OnUnavailable::Skip)).
    #[must_use]
    pub const fn is_skipped(&self) -> bool {
        self.0.is_skipped
    }

    /// What the server or the network said, or why nothing came, without advice; of `LockLost`, how
    /// the lease was lost. `None` if nothing of that kind is behind it, as with a bad argument.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        self.0.words.cause()
    }

    /// What went wrong, the cause and what to do, without lock, operation and server.
    #[must_use]
    pub fn message(&self) -> String {
        self.0.words.to_string()
    }
}

/// The advice at a release that finds the lease lost.
const CHECK: &str = "check what was done meanwhile, or let the resource refuse old tokens";

/// What another error is to have as its cause that comes of this one.
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

/// What caused an error, and what to do about that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    text: Box<str>,
    advice: Option<Box<str>>,
}

impl Cause {
    /// What the server or the network said, or why nothing came.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into().into(),
            advice: None,
        }
    }

    /// Several at once: the texts of so many of them, and the first advice.
    #[must_use]
    pub fn joined<'a>(mut causes: impl Iterator<Item = &'a Self> + Clone, shown: usize) -> Self {
        let texts: Vec<&str> = causes.clone().take(shown).map(Self::text).collect();
        let advice = causes.find_map(|cause| cause.advice.clone());
        Self {
            text: texts.join("; ").into(),
            advice,
        }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into().into());
        self
    }

    /// The same with another text, which `change` makes of this one's.
    #[must_use]
    pub fn reworded(self, change: impl FnOnce(&str) -> String) -> Self {
        Self {
            text: change(&self.text).into(),
            ..self
        }
    }

    /// What the server or the network said, or why nothing came.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What to do about it.
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

/// What an error says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Empty if there is nothing to say but the cause.
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

    /// Puts a holder's name in the place of its owner id.
    pub(crate) fn name_in_cause(&mut self, owner: &str, name: &dyn fmt::Display) {
        if let Some((before, after)) = self.cause.as_deref().and_then(|cause| around(cause, owner)) {
            self.cause = Some(format!("{before}{name}{after}").into());
        }
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The cause and the advice; what went wrong, if nothing else caused it.
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

/// The one text that people read.
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
    fn a_fixed_lease_that_expired_is_told_nothing_of_renewals_that_it_never_had() {
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
        assert!(temporary.eq([ErrorKind::LockTimeout, ErrorKind::Unavailable]));
        let lasting = Error::new(ErrorKind::Unavailable, Operation::Acquire, "").with_lasting_cause();
        assert!(!lasting.is_retryable());
    }
}
