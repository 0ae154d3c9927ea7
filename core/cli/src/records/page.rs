//! Finds the records of held locks among the keys of one page of SCAN.
//!
//! The form of a key shows which record it could be. Its type and a few bounded reads show whether it is that record.
//! No value that can be large is read whole. The commands of each step, for all keys, are sent together.
//!
//! ```text
//!   form ─► type ─► size ─► owner ─► token, time left, waiters
//! ```

use std::time::Duration;

use steadlock::Error;
use steadlock::admin::{LockKey, LockName, Server};

use super::answers::{Answer, Command, ask, ask_with_asking, command, held_for, refusal_error};
use super::locked::Locked;
use super::owner::{Library, Owner};

/// The result for the keys of a page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The locks, with their full names.
    pub(super) locked: Vec<(LockName, Locked)>,
    /// The keys that this node does not answer for, because their slots are moving or have moved to another node.
    pub(super) elsewhere: Vec<PossibleRecord>,
    /// The number of keys that were examined.
    pub(super) examined: usize,
    /// The number of examined keys that this user may not read.
    pub(super) forbidden: usize,
    /// The server's error for one of the forbidden keys.
    pub(super) refusal: Option<Error>,
}

/// A key that could be the key of a record.
#[derive(Clone, Debug)]
pub(super) struct PossibleRecord {
    key: LockKey,
    name: LockName,
    step: Step,
}

/// How much is known about a key.
#[derive(Clone, Debug)]
enum Step {
    /// Only its form.
    Form,
    Hash,
    Text,
    SortedSet,
    /// A hash with one field, or a short text.
    SingleValue {
        is_hash: bool,
    },
    /// A record with this number of holders.
    Holders {
        count: u64,
    },
    Held {
        owner: Owner,
        count: u64,
        left: Option<Duration>,
        limit: Option<u64>,
        is_text: bool,
    },
    /// No record, or the record of a free lock.
    Nothing,
}

/// The possible lengths of an owner id, in bytes.
const OWNER_ID_BYTES: std::ops::RangeInclusive<u64> = 38..=57;

impl PossibleRecord {
    /// Parses a key. `None` if its form is not that of a holder's record.
    pub(super) fn read(key: &[u8]) -> Option<Self> {
        let (of, name) = LockKey::read(key)?;
        Self::of(of, name)
    }

    pub(super) const fn name(&self) -> &LockName {
        &self.name
    }

    /// Forgets everything about the key but its form.
    fn reset(self) -> Self {
        Self {
            step: Step::Form,
            ..self
        }
    }

    fn of(of: LockKey, name: LockName) -> Option<Self> {
        let holds = match of {
            LockKey::Named
            | LockKey::ReadWrite
            | LockKey::Readers
            | LockKey::Permits
            | LockKey::Run
            | LockKey::Leader => true,
            LockKey::Queue
            | LockKey::Alive
            | LockKey::Candidates
            | LockKey::CandidatesAlive
            | LockKey::Term
            | LockKey::History
            | LockKey::Token => false,
        };
        holds.then_some(Self {
            key: of,
            name,
            step: Step::Form,
        })
    }

    fn key_bytes(&self) -> Vec<u8> {
        self.key.of(&self.name).to_vec()
    }

    /// Returns the next commands about the key.
    fn commands(&self, now: u64) -> Vec<Command> {
        let key = self.key_bytes();
        let about = |parts: &[&[u8]]| {
            let mut command = command(parts);
            command.insert(1, key.clone());
            command
        };
        let after = format!("({}", now / 1_000);
        match (&self.step, self.key) {
            (Step::Form, _) => vec![about(&[b"TYPE"])],
            (Step::Hash, LockKey::Run) => vec![about(&[b"HMGET", b"owner", b"took"])],
            (Step::Hash, LockKey::ReadWrite) => vec![about(&[b"HMGET", b"writer", b"writer_until"])],
            (Step::Hash, _) => vec![about(&[b"HLEN"])],
            (Step::Text, _) => vec![about(&[b"STRLEN"])],
            (Step::SortedSet, _) => vec![about(&[b"ZCOUNT", after.as_bytes(), b"+inf"])],
            (Step::SingleValue { is_hash: true }, _) => vec![about(&[b"HRANDFIELD"])],
            (Step::SingleValue { is_hash: false }, _) => vec![about(&[b"GET"])],
            (Step::Holders { .. }, LockKey::Permits) => vec![
                about(&[b"ZRANGE", b"-1", b"-1", b"WITHSCORES"]),
                about(&[b"ZSCORE", b"limit"]),
            ],
            (Step::Holders { .. }, _) => vec![about(&[b"ZRANGE", b"-1", b"-1", b"WITHSCORES"])],
            (Step::Held { .. }, of) => {
                let mut commands = vec![command(&[b"GET", &LockKey::Token.of(&self.name)])];
                if matches!(of, LockKey::Named | LockKey::Run | LockKey::Leader) {
                    commands.push(about(&[b"PTTL"]));
                }
                let queue = match of {
                    LockKey::Named => Some(LockKey::Queue),
                    LockKey::Leader => Some(LockKey::Candidates),
                    _ => None,
                };
                if let Some(queue) = queue {
                    let queue = queue.of(&self.name);
                    commands.push(command(&[b"ZCOUNT", &queue, b"-inf", b"+inf"]));
                }
                commands
            }
            (Step::Nothing, _) => Vec::new(),
        }
    }

    /// Updates what is known about the key by the answers to its commands.
    fn update(&mut self, answers: &[Answer], now: u64) {
        let first = &answers[0];
        self.step = match (&self.step, self.key) {
            (Step::Form, of) => match (of, first.text().as_deref()) {
                (LockKey::Named | LockKey::ReadWrite | LockKey::Run | LockKey::Leader, Some("hash")) => Step::Hash,
                (LockKey::Named, Some("string")) => Step::Text,
                (LockKey::Readers | LockKey::Permits, Some("zset")) => Step::SortedSet,
                _ => Step::Nothing,
            },
            (Step::Hash, LockKey::Run) => match first.texts().as_slice() {
                // With `took` the run has ended, and only says that the job is done.
                [Some(owner), None] => single_holder(owner.clone(), true),
                _ => Step::Nothing,
            },
            (Step::Hash, LockKey::ReadWrite) => {
                let mut texts = first.texts().into_iter();
                let (writer, until) = (texts.next().flatten(), texts.next().flatten());
                held_until(writer, until.and_then(|until| until.parse().ok()), 1, None, now)
            }
            (Step::Hash, _) if first.number() == Some(1) => Step::SingleValue { is_hash: true },
            (Step::Text, _) if first.number().is_some_and(|length| OWNER_ID_BYTES.contains(&length)) => {
                Step::SingleValue { is_hash: false }
            }
            (Step::SortedSet, _) => match first.number() {
                Some(count) if count > 0 => Step::Holders { count },
                _ => Step::Nothing,
            },
            (Step::SingleValue { is_hash }, _) => {
                first.text().map_or(Step::Nothing, |text| single_holder(text, *is_hash))
            }
            (Step::Holders { count }, of) => {
                let (owner, until) = first.scores().pop().unzip();
                let owner = owner.map(|owner| {
                    if of == LockKey::Permits {
                        owner_of_permit(&owner)
                    } else {
                        owner
                    }
                });
                let limit = answers.get(1).and_then(Answer::number);
                held_until(owner, until, *count, limit, now)
            }
            _ => Step::Nothing,
        };
    }
}

/// Returns the holder in a hash with one field, or in a short text, if the field or the text is an owner id.
fn single_holder(text: String, is_hash: bool) -> Step {
    let owner = Owner::new(text);
    match owner.library() {
        Library::Steadlock => {}
        Library::Redisson if is_hash => {}
        _ => return Step::Nothing,
    }
    Step::Held {
        owner,
        count: 1,
        left: None,
        limit: None,
        is_text: !is_hash,
    }
}

/// Returns the holder of a record of Steadlock, if the record's deadline has not passed. `until` is the deadline in ms,
/// and `now` the time in µs, both of the server's clock.
fn held_until(owner: Option<String>, until: Option<f64>, count: u64, limit: Option<u64>, now: u64) -> Step {
    let (Some(owner), Some(until)) = (owner, until) else {
        return Step::Nothing;
    };
    let owner = Owner::new(owner);
    let left = time_until(until, now);
    if left.is_zero() || owner.library() != Library::Steadlock {
        return Step::Nothing;
    }
    Step::Held {
        owner,
        count,
        left: Some(left),
        limit,
        is_text: false,
    }
}

/// Returns the time from `now`, in µs, to a deadline in ms.
pub(super) fn time_until(until: f64, now: u64) -> Duration {
    Duration::try_from_secs_f64(until / 1_000.0)
        .unwrap_or_default()
        .saturating_sub(Duration::from_micros(now))
}

/// Returns the owner of a permit. A permit is `owner/i`.
pub(super) fn owner_of_permit(permit: &str) -> String {
    permit.rsplit_once('/').map_or(permit, |(owner, _)| owner).to_owned()
}

/// Finds the records of held locks among these keys. If `may_be_importing`, the node may be importing their slots.
pub(super) async fn read(
    server: &mut Server,
    mut records: Vec<PossibleRecord>,
    may_be_importing: bool,
) -> Result<Page, Error> {
    let mut page = Page {
        examined: records.len(),
        ..Page::default()
    };
    let mut now = 0;
    // The steps ask for type, size and owner. After these steps, only records of locks that are held are left.
    for step in 0..4 {
        let mut commands = vec![command(&[b"TIME"])];
        let mut ranges = Vec::with_capacity(records.len());
        for record in &records {
            let is_open = !matches!(record.step, Step::Held { .. });
            let next = if is_open { record.commands(now) } else { Vec::new() };
            ranges.push(commands.len()..commands.len() + next.len());
            commands.extend(next);
        }
        if commands.len() == 1 {
            break;
        }
        let answers = ask_node(server, &commands, may_be_importing).await?;
        now = answers[0].time();
        let mut left = Vec::with_capacity(records.len());
        for (mut record, range) in records.into_iter().zip(ranges) {
            match &answers[range.clone()] {
                [] => left.push(record),
                some if some.contains(&Answer::Elsewhere) => page.elsewhere.push(record.reset()),
                [Answer::Forbidden(error), ..] if step == 0 => {
                    page.forbidden += 1;
                    page.refusal = page.refusal.or_else(|| Some(refusal_error(error, server)));
                }
                // TYPE was allowed for this key, so the user lacks the right to this command.
                [Answer::Forbidden(error), ..] => return Err(refusal_error(error, server)),
                some => {
                    record.update(some, now);
                    left.push(record);
                }
            }
        }
        left.retain(|record| !matches!(record.step, Step::Nothing));
        records = left;
    }
    read_details(server, records, may_be_importing, &mut page).await?;
    Ok(page)
}

async fn ask_node(server: &mut Server, commands: &[Command], may_be_importing: bool) -> Result<Vec<Answer>, Error> {
    if may_be_importing {
        ask_with_asking(server, commands).await
    } else {
        ask(server, commands).await
    }
}

/// Reads the token, the remaining time and the number of waiters of each lock.
async fn read_details(
    server: &mut Server,
    records: Vec<PossibleRecord>,
    may_be_importing: bool,
    page: &mut Page,
) -> Result<(), Error> {
    if records.is_empty() {
        return Ok(());
    }
    let mut commands = vec![command(&[b"TIME"])];
    let mut ranges = Vec::new();
    for record in &records {
        let next = record.commands(0);
        ranges.push(commands.len()..commands.len() + next.len());
        commands.extend(next);
    }
    let answers = ask_node(server, &commands, may_be_importing).await?;
    let now = answers[0].time();
    for (record, range) in records.into_iter().zip(ranges) {
        let answers = &answers[range];
        if answers.get(1) == Some(&Answer::Elsewhere) {
            // The key has moved to another node since its holder was read.
            page.elsewhere.push(record.reset());
        } else if let Some(locked) = locked(&record, answers, now, server.address()) {
            page.locked.push((record.name, locked));
        }
    }
    Ok(())
}

fn locked(record: &PossibleRecord, answers: &[Answer], now: u64, server: &str) -> Option<Locked> {
    let Step::Held {
        owner,
        count,
        left,
        limit,
        is_text,
    } = &record.step
    else {
        return None;
    };
    let mut left = *left;
    let mut waiters = None;
    if matches!(record.key, LockKey::Named | LockKey::Run | LockKey::Leader) {
        // The record may have ended meanwhile.
        left = answers.get(1)?.ttl()?;
        waiters = answers.get(2).and_then(Answer::number);
    }
    let has_queue = waiters.is_some_and(|waiters| waiters > 0);
    let kind = match record.key {
        LockKey::Named if *is_text => "mutex",
        LockKey::Named if has_queue => "fair_lock",
        LockKey::Named => "lock",
        LockKey::ReadWrite => "write_lock",
        LockKey::Readers => "read_lock",
        LockKey::Permits => "semaphore",
        LockKey::Run => "once",
        LockKey::Leader => "leader",
        LockKey::Queue
        | LockKey::Alive
        | LockKey::Candidates
        | LockKey::CandidatesAlive
        | LockKey::Term
        | LockKey::History
        | LockKey::Token => return None,
    };
    let has_token = matches!(kind, "lock" | "mutex" | "fair_lock" | "write_lock" | "once" | "leader")
        && owner.library() == Library::Steadlock;
    let token = answers.first().and_then(Answer::number).filter(|_| has_token);
    Some(Locked {
        name: String::new(),
        kind,
        owner: owner.clone(),
        holders: *count,
        limit: *limit,
        left,
        held: held_for(token, now),
        token,
        waiters: waiters.filter(|_| has_queue),
        server: server.to_owned(),
        primaries: None,
    })
}
