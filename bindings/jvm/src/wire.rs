//! The encoding of events as bytes, which `Events.kt` reads, and of locks, which `LockRef.kt` writes.
//!
//! Numbers are little-endian. A text is its length in bytes as `u32`, then UTF-8. Each event begins
//! with a byte, its kind, and a `u64`, the tag of its request (for `LOST`: the number of the
//! lease):
//!
//! | kind | event | then |
//! |---|---|---|
//! | 1 | connected | |
//! | 2 | granted | lease `u64`, token `i64` (−1: none), `u8`: 1 if the lease is degraded |
//! | 3 | not granted | error |
//! | 4 | failed | error |
//! | 5 | released (tag 2^64 − 1: the outcome of a release that the close made) | lease `u64`, outcome text, reason for the loss as text if the lease was expired or stolen (else empty) |
//! | 6 | extended | |
//! | 7 | state | holder, permits held and limit `i64` each (−1: no semaphore, or no permit is held), the last runs of a job, who leads |
//! | 8 | held | levels `u32`, innermost lease `i64` (−1: none) |
//! | 9 | closed | |
//! | 10 | lost | reason text, `u8`: 1 if the lease needs no release |
//! | 11 | forced release or change of a limit | `u8`: 1 if the lock or a permit was held |
//! | 12 | a line for the log (tag 0) | level and sentence as texts, then the named fields: their number as `u32`, and for each field its name as text, then `u8` 0 and a text, or `u8` 1 and an `i64` |
//!
//! An error is its kind, operation, message and cause (empty: none) as texts, the lock (`u8` 1 and
//! a text, or `u8` 0), a holder, the reason for the loss as text (empty: not lost), the server as
//! text (empty: none), `u8` 1 if a retry may help, `u8` 1 if the lock was skipped, and why a job was
//! skipped as text (empty: it was not), when the other run began in milliseconds since 1970, and how
//! many milliseconds it took, as `i64` (−1: not known, or it goes on).
//!
//! The last runs of a job are `u8` 0 for none. Otherwise `u8` 1, the state of the run that began last
//! as text, when it began as `i64`, its client, when a run last succeeded as `i64`, and then `u8` 0,
//! or `u8` 1 and the run that ended last: when, and how long it took in milliseconds, as `i64`, the
//! outcome as text, and its client. The leader is `u8` 0 if it was not asked for. Otherwise `u8` 1, the
//! number of the term as `i64` (−1: nobody leads), when it began as `i64`, the leader as a holder, and
//! the candidates: their number as `u32`, and for each its owner id as text and its client.
//!
//! A holder is `u8` 0 for none. Otherwise `u8` 1, its owner id as text, the remaining time of its
//! record in milliseconds as `i64` (−1: no TTL), and its client: `u8` 0, or `u8` 1 and the
//! description that the client published: host, program, language, version and label as texts, process id and
//! start time as `i64`.
//!
//! A lock is a `u8`, the index of its kind in [`Kind::NAMES`], then the wanted permits and the limit
//! of a semaphore as `i32` (0 for other kinds), then its name as text. A composite lock is `u8` 255,
//! the number of its members as `u32`, and its members.

use std::time::Duration;

use steadlock::host::{
    ClientInfo, Completion, Error, Field, Holder, Kind, LastRun, Leadership, Line, LockRef, LostReason,
};

const CONNECTED: u8 = 1;
const GRANTED: u8 = 2;
const NOT_GRANTED: u8 = 3;
const FAILED: u8 = 4;
const RELEASED: u8 = 5;
const EXTENDED: u8 = 6;
const STATE: u8 = 7;
const HELD: u8 = 8;
const CLOSED: u8 = 9;
const LOST: u8 = 10;
const FORCED: u8 = 11;
const OBSERVED: u8 = 12;

/// The first byte of a composite lock.
const COMPOSITE: u8 = 255;

/// Decodes a lock; `None` for bytes that are no lock.
pub(crate) fn lock(mut bytes: &[u8]) -> Option<LockRef> {
    let lock = next_lock(&mut bytes)?;
    bytes.is_empty().then_some(lock)
}

fn next_lock(rest: &mut &[u8]) -> Option<LockRef> {
    let [kind] = next(rest)?;
    if kind == COMPOSITE {
        let members = u32::from_le_bytes(next(rest)?);
        let members = (0..members).map(|_| next_lock(rest));
        return members.collect::<Option<_>>().map(LockRef::All);
    }
    let kind = Kind::NAMES.get(usize::from(kind))?;
    let wanted = i32::from_le_bytes(next(rest)?);
    let limit = i32::from_le_bytes(next(rest)?);
    let length = u32::from_le_bytes(next(rest)?);
    let (name, left) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = left;
    let name = std::str::from_utf8(name).ok()?;
    LockRef::of(kind, name.into(), || (wanted.into(), limit.into())).ok()
}

fn next<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (next, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*next)
}

/// Encodes the loss of a lease. `is_forgotten` means that the lease needs no release, as a fixed
/// lease after its loss.
pub(crate) fn lost(lease: u64, reason: LostReason, is_forgotten: bool) -> Vec<u8> {
    let mut out = Event::new(LOST, lease);
    out.text(reason.as_str());
    out.0.push(u8::from(is_forgotten));
    out.0
}

/// Encodes a line for the log.
pub(crate) fn observed(line: &Line) -> Vec<u8> {
    let mut out = Event::new(OBSERVED, 0);
    out.text(line.level().as_str());
    out.text(&line.to_string());
    let fields = line.fields();
    out.u32(u32::try_from(fields.len()).unwrap_or_default());
    for (name, field) in fields {
        out.text(name);
        match field {
            Field::Text(text) => {
                out.0.push(0);
                out.text(&text);
            }
            Field::Number(number) => {
                out.0.push(1);
                out.optional(Some(number));
            }
        }
    }
    out.0
}

/// Encodes the result of a request.
pub(crate) fn completed(tag: u64, result: &Result<Completion, Error>) -> Vec<u8> {
    let event = |kind| Event::new(kind, tag);
    let out = match result {
        Ok(Completion::Connected) => event(CONNECTED),
        Ok(Completion::Granted(lease)) => {
            let mut out = event(GRANTED);
            out.u64(lease.id());
            out.optional(lease.token());
            out.0.push(u8::from(lease.is_degraded()));
            out
        }
        Ok(Completion::NotGranted(error)) => {
            let mut out = event(NOT_GRANTED);
            out.error(error);
            out
        }
        Ok(Completion::Released(released)) => {
            let mut out = event(RELEASED);
            out.u64(released.lease);
            out.text(released.outcome.as_str());
            out.text(released.lost.map_or("", LostReason::as_str));
            out
        }
        Ok(Completion::Extended) => event(EXTENDED),
        Ok(Completion::State(state)) => {
            let mut out = event(STATE);
            out.holder(state.holder.as_ref());
            let (held, limit) = state.permits.unzip();
            out.optional(held.map(u64::from));
            out.optional(limit.map(u64::from));
            out.last_run(state.last_run.as_deref());
            out.leadership(state.leadership.as_deref());
            out
        }
        Ok(Completion::Held { levels, lease }) => {
            let mut out = event(HELD);
            out.u32(*levels);
            out.optional(lease.as_ref().map(|lease| lease.id()));
            out
        }
        Ok(Completion::Forced(was_held)) => {
            let mut out = event(FORCED);
            out.0.push(u8::from(*was_held));
            out
        }
        Ok(Completion::Closed) => event(CLOSED),
        Err(error) => {
            let mut out = event(FAILED);
            out.error(error);
            out
        }
    };
    out.0
}

/// Converts to whole milliseconds, from which Kotlin makes a Java `Duration`.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

struct Event(Vec<u8>);

impl Event {
    fn new(kind: u8, number: u64) -> Self {
        let mut out = Self(Vec::with_capacity(32));
        out.0.push(kind);
        out.u64(number);
        out
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes −1 for none. Ids and tokens are below 2⁵³, so they fit into an `i64`.
    fn optional(&mut self, value: Option<u64>) {
        self.i64(value.and_then(|value| i64::try_from(value).ok()).unwrap_or(-1));
    }

    /// Cuts the text at [`MAX_TEXT`] bytes, so that one event always fits into the reader's buffer.
    /// Texts are rarely that long.
    fn text(&mut self, text: &str) {
        let end = (0..=MAX_TEXT.min(text.len()))
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or_default();
        let bytes = text.get(..end).unwrap_or_default().as_bytes();
        self.u32(u32::try_from(bytes.len()).unwrap_or_default());
        self.0.extend_from_slice(bytes);
    }

    fn holder(&mut self, holder: Option<&Holder>) {
        let Some(holder) = holder else {
            self.0.push(0);
            return;
        };
        self.0.push(1);
        self.text(&holder.owner);
        self.i64(holder.remaining.map_or(-1, millis));
        self.client(holder.client.as_deref());
    }

    fn client(&mut self, client: Option<&ClientInfo>) {
        let Some(info) = client else {
            return self.0.push(0);
        };
        self.0.push(1);
        for text in [&info.host, &info.program, &info.language, &info.version, &info.label] {
            self.text(text);
        }
        self.i64(info.pid.into());
        self.i64(i64::try_from(info.since).unwrap_or(i64::MAX));
    }

    fn error(&mut self, error: &Error) {
        self.text(error.kind().name());
        self.text(&error.operation().to_string());
        self.text(&error.to_string());
        self.text(error.cause().unwrap_or_default());
        match error.lock_name() {
            Some(lock) => {
                self.0.push(1);
                self.text(lock);
            }
            None => self.0.push(0),
        }
        self.holder(error.holder());
        self.text(error.reason().map_or("", LostReason::as_str));
        self.text(error.node().unwrap_or_default());
        self.0.push(u8::from(error.is_retryable()));
        self.0.push(u8::from(error.is_skipped()));
        let skip = error.skip();
        self.text(skip.map_or("", |skip| skip.reason.as_str()));
        self.optional(skip.and_then(|skip| skip.since));
        self.i64(skip.and_then(|skip| skip.took).map_or(-1, millis));
    }

    fn last_run(&mut self, last_run: Option<&LastRun>) {
        let Some(last_run) = last_run else {
            return self.0.push(0);
        };
        self.0.push(1);
        self.text(last_run.state.as_str());
        self.optional(last_run.started);
        self.client(last_run.client.as_deref());
        self.optional(last_run.succeeded);
        let Some(ended) = &last_run.ended else {
            return self.0.push(0);
        };
        self.0.push(1);
        self.optional(Some(ended.at));
        self.i64(millis(ended.took));
        self.text(ended.outcome.as_str());
        self.client(ended.client.as_deref());
    }

    fn leadership(&mut self, leadership: Option<&Leadership>) {
        let Some(leadership) = leadership else {
            return self.0.push(0);
        };
        self.0.push(1);
        let term = leadership.term.as_ref();
        self.optional(term.map(|term| term.number));
        self.optional(term.map(|term| term.since));
        self.holder(term.map(|term| &term.holder));
        self.u32(u32::try_from(leadership.candidates.len()).unwrap_or_default());
        for candidate in &leadership.candidates {
            self.text(&candidate.owner);
            self.client(candidate.client.as_deref());
        }
    }
}

const MAX_TEXT: usize = 4096;
