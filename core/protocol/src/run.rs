//! Runs of jobs: what a caller asks for, how a run ends, and what a skipped caller learns.
//!
//! A *job* is what a team wants done once in a fleet, such as a nightly report. A *run* is one execution of the job: a
//! lease of the kind `once`. A request that is not granted a run is *skipped*; it never waits.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::client_info::ClientInfo;
use crate::error::{Error, ErrorKind, Operation};
use crate::name::{LockName, MAX_NAME_BYTES};

/// The terms of a run: all that a caller asks for beside its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTerms {
    at_least: Duration,
    key: Option<RunKey>,
    keep: Duration,
    on_failure: OnFailure,
}

impl Default for RunTerms {
    fn default() -> Self {
        Self {
            at_least: Duration::ZERO,
            key: None,
            keep: Self::KEEP,
            on_failure: OnFailure::Retry,
        }
    }
}

impl RunTerms {
    /// The longest time for which a job counts as done after the start of its last run.
    pub const MAX_AT_LEAST: Duration = Duration::from_secs(24 * 60 * 60);
    /// How long the server remembers by default that a key is done.
    pub const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
    /// The shortest time for which the server remembers that a key is done.
    pub const MIN_KEEP: Duration = Duration::from_millis(1);
    /// The longest time for which the server remembers that a key is done.
    pub const MAX_KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// Makes terms of `at_least`, in whole milliseconds.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 24 h.
    pub fn at_least(mut self, at_least: Duration) -> Result<Self, Error> {
        self.at_least = Self::check_at_least(at_least)?;
        Ok(self)
    }

    /// Checks a value for `at_least`.
    ///
    /// # Errors
    /// `InvalidArgument` for more than 24 h.
    pub fn check_at_least(at_least: Duration) -> Result<Duration, Error> {
        match at_least > Self::MAX_AT_LEAST {
            true => Err(refused("`at_least` is above 24 h; give less")),
            false => Ok(at_least),
        }
    }

    /// Makes terms of a key: a run of this key that ended well is not repeated while the server remembers it.
    #[must_use]
    pub fn key(mut self, key: RunKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Makes terms of `keep`, how long the server remembers that the key is done, in whole milliseconds.
    ///
    /// # Errors
    /// `InvalidArgument` unless 1 ms ≤ keep ≤ 30 days.
    pub fn keep(mut self, keep: Duration) -> Result<Self, Error> {
        if keep < Self::MIN_KEEP || keep > Self::MAX_KEEP {
            return Err(refused("`keep` is out of its range; give 1 ms to 30 days"));
        }
        self.keep = keep;
        Ok(self)
    }

    /// Makes terms of what a failure means for later requests.
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Returns the key, if there is one.
    pub(crate) const fn run_key(&self) -> Option<&RunKey> {
        self.key.as_ref()
    }

    /// Returns for how long after its start, and for how long after its end for its key, a run that ends like this
    /// keeps later requests out; `None` if it keeps none out.
    pub(crate) fn kept(&self, ending: &Ending) -> Option<(Duration, Duration)> {
        let is_kept = match ending.end {
            RunEnd::Succeeded => true,
            RunEnd::Failed => self.on_failure == OnFailure::Keep,
            RunEnd::Unused => false,
        };
        is_kept.then_some((ending.at_least.unwrap_or(self.at_least), self.keep))
    }
}

/// The effect of a failed run on later requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The next request may run the job again at once, and its key too.
    #[default]
    Retry,
    /// The run counts as done, like one that succeeded.
    Keep,
}

impl OnFailure {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Retry, Self::Keep];

    /// Returns the text that all languages use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Keep => "keep",
        }
    }

    /// Parses the text that all languages use.
    ///
    /// # Errors
    /// `InvalidArgument` for any other text.
    pub fn parse(word: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == word);
        found.ok_or_else(|| refused("`on_failure` is not known; give \"retry\" or \"keep\""))
    }
}

/// The key of a run, such as the planned time or the number of an order.
#[derive(Clone, PartialEq, Eq)]
pub struct RunKey(Box<str>);

impl std::fmt::Debug for RunKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&*crate::shown::shown(&self.0), f)
    }
}

impl RunKey {
    /// Checks a key.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is empty, is longer than 512 bytes, or contains NUL.
    pub fn parse(key: &str) -> Result<Self, Error> {
        if key.is_empty() {
            return Err(refused("the key of the run is empty; give 1 to 512 bytes"));
        }
        if key.len() > MAX_NAME_BYTES {
            let message = format!("the key of the run has {} bytes; give 1 to 512", key.len());
            return Err(refused(message));
        }
        if key.contains('\0') {
            return Err(refused("the key of the run holds a NUL byte; leave it out"));
        }
        Ok(Self(key.into()))
    }

    /// Returns the server's key that says that this key of a job is done. Its word begins like no other word.
    pub(crate) fn done(&self, job: &LockName) -> Arc<[u8]> {
        job.with_word(&format!("done-{}", self.escaped()))
    }

    /// Returns the key without a colon or a brace, so that no two keys of a lock are equal, and all have the hash slot
    /// of the lock's name.
    fn escaped(&self) -> String {
        let mut text = String::with_capacity(self.0.len());
        for letter in self.0.chars() {
            match letter {
                ':' | '{' | '}' | '%' => {
                    let _ = write!(text, "%{:02X}", u32::from(letter));
                }
                _ => text.push(letter),
            }
        }
        text
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message)
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The job did its work.
    Succeeded,
    /// The job failed, or its caller stopped it.
    Failed,
    /// The job never began, because no caller took the grant.
    Unused,
}

impl RunEnd {
    /// Returns the word that the server stores.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unused => "unused",
        }
    }
}

/// The last runs of a job, as the server's history has them. Times are in milliseconds since 1970 by the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// The state of the run that began last.
    pub state: RunState,
    /// When the run that began last began; `None` if the history does not say so any more.
    pub started: Option<u64>,
    /// The program of the run that began last, if it says so.
    pub client: Option<Arc<ClientInfo>>,
    /// The run that ended last; `None` if none has ended.
    pub ended: Option<EndedRun>,
    /// When a run last ended well; `None` if none has.
    pub succeeded: Option<u64>,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// When the run ended.
    pub at: u64,
    /// How long the run took.
    pub took: Duration,
    /// How the run ended.
    pub outcome: RunOutcome,
    /// The program of the run, if it says so.
    pub client: Option<Arc<ClientInfo>>,
}

/// The state of the run that began last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run goes on.
    Running,
    /// The run has ended.
    Ended,
    /// The lease of the run is over, and nobody has reported its end: its process crashed or was cut off.
    Crashed,
}

impl RunState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Running, Self::Ended, Self::Crashed];

    /// Returns the text that all languages show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Crashed => "crashed",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// How a run ended, as the history has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The job did its work.
    Succeeded,
    /// The job failed, or its caller stopped it.
    Failed,
    /// The lease ended before the run did.
    Lost,
}

impl RunOutcome {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Lost];

    /// Returns the text that all languages show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// All that a release says beside the hold that it ends. It means nothing for other kinds than those that the fields name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How a run ends.
    pub end: RunEnd,
    /// For how long after its start a run keeps others out; `None` for the time of its terms.
    pub at_least: Option<Duration>,
    /// The owner id of the candidate that leads after a leader; `None` for the first one. If that candidate does not
    /// wait any more, the first one leads.
    pub successor: Option<Box<str>>,
}

impl From<RunEnd> for Ending {
    fn from(end: RunEnd) -> Self {
        Self {
            end,
            at_least: None,
            successor: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_out_of_their_range_are_refused() {
        let terms = RunTerms::default;
        let day = Duration::from_secs(86_400);
        assert!(terms().at_least(day).is_ok() && terms().keep(30 * day).is_ok());
        for error in [
            terms().at_least(day + Duration::from_millis(1)).unwrap_err(),
            terms().keep(30 * day + Duration::from_millis(1)).unwrap_err(),
            terms().keep(Duration::ZERO).unwrap_err(),
            RunKey::parse("").unwrap_err(),
            RunKey::parse(&"x".repeat(513)).unwrap_err(),
            RunKey::parse("a\0b").unwrap_err(),
            OnFailure::parse("ignore").unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        for one in OnFailure::ALL {
            assert_eq!(OnFailure::parse(one.as_str()).unwrap(), one);
        }
    }

    #[test]
    fn keys_differ_on_the_server_and_have_no_colon_or_brace() {
        let texts = ["a:b", "a%3Ab", "a{b", "a}b", "ä b", "a%b", "ab"];
        let escaped: Vec<String> = texts.iter().map(|key| RunKey::parse(key).unwrap().escaped()).collect();
        assert_eq!(escaped, ["a%3Ab", "a%253Ab", "a%7Bb", "a%7Db", "ä b", "a%25b", "ab"]);
    }

    #[test]
    fn a_failure_is_kept_only_if_the_caller_wants_it() {
        let terms = RunTerms::default().at_least(Duration::from_secs(5)).unwrap();
        let kept = Some((Duration::from_secs(5), RunTerms::KEEP));
        assert_eq!(terms.kept(&RunEnd::Succeeded.into()), kept);
        assert_eq!(terms.kept(&RunEnd::Failed.into()), None);
        let ending = Ending {
            end: RunEnd::Succeeded,
            at_least: Some(Duration::from_secs(9)),
            successor: None,
        };
        assert_eq!(terms.kept(&ending), Some((Duration::from_secs(9), RunTerms::KEEP)));
        let terms = terms.on_failure(OnFailure::Keep);
        assert_eq!(terms.kept(&RunEnd::Failed.into()), kept);
        assert_eq!(terms.kept(&RunEnd::Unused.into()), None);
    }
}
