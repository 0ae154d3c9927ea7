//! Reads everything about one name, for every kind of lock.

use std::time::Duration;

use steadlock::admin::{Deployment, LockKey, LockName};
use steadlock::{Error, ErrorKind, Operation};

use super::answers::{Answer, Command, ask, ask_with_asking, command, held_for, refusal_error};
use super::owner::{Library, Owner};
use super::page::{owner_of_permit, time_until};

/// The limit on the holders or waiters of one kind that are listed one by one.
pub(crate) const MAX_SHOWN: usize = 100;

/// Everything that one server has about a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inspected {
    pub(crate) server: String,
    /// The hold of a `lock`, `fair_lock` or `mutex`.
    pub(crate) lock: Option<Hold>,
    /// Whether the key of this name holds something other than a lock.
    pub(crate) is_other: bool,
    pub(crate) queue: Queue,
    pub(crate) readers: Vec<Hold>,
    pub(crate) reader_count: u64,
    pub(crate) writer: Option<Hold>,
    /// The run of a job that goes on.
    pub(crate) run: Option<Hold>,
    pub(crate) leader: Option<Hold>,
    /// A waiting writer whose mark has not expired. The mark holds back new readers.
    pub(crate) waiting_writer: Option<Owner>,
    pub(crate) permits: Permits,
    /// The last token that was granted.
    pub(crate) token: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) kind: &'static str,
    pub(crate) owner: Owner,
    /// The time that is left; `None` if the record has no TTL.
    pub(crate) left: Option<Duration>,
    /// The approximate time for which the lock has been held; `None` if that is not known.
    pub(crate) held: Option<Duration>,
    /// The number of permits of a semaphore; 1 for other kinds.
    pub(crate) permits: u64,
}

/// The wait queue of a fair lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) length: u64,
    /// The first waiters.
    pub(crate) first: Vec<QueuedWaiter>,
}

#[derive(Clone, Debug)]
pub(crate) struct QueuedWaiter {
    pub(crate) owner: Owner,
    pub(crate) waited: Duration,
    /// The time since the server last received a poll of the client; `None` if it is not known. A waiter that has been
    /// silent for 3 s is skipped when the lock is granted.
    pub(crate) silent: Option<Duration>,
}

/// The permits of a semaphore.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits {
    pub(crate) held: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) holders: Vec<Hold>,
}

impl Inspected {
    /// Returns all holds, of every kind.
    pub(crate) fn holds(&self) -> impl Iterator<Item = &Hold> {
        let one = self
            .lock
            .iter()
            .chain(&self.writer)
            .chain(&self.run)
            .chain(&self.leader);
        one.chain(&self.readers).chain(&self.permits.holders)
    }

    /// Returns whether the lock is held as one of these kinds, or as any kind if none is given. `lock` and `fair_lock`
    /// have the same record, and count as one kind.
    pub(crate) fn is_held(&self, kinds: &[&str]) -> bool {
        let record = |kind: &str| if kind == "fair_lock" { "lock" } else { kind }.to_owned();
        let wanted: Vec<String> = kinds.iter().map(|kind| record(kind)).collect();
        self.holds()
            .any(|hold| wanted.is_empty() || wanted.contains(&record(hold.kind)))
    }
}

/// Reads everything about a name.
pub(crate) async fn inspect(deployment: &mut Deployment, name: &LockName) -> Result<Inspected, Error> {
    let first = first_commands(name);
    let answers = ask_about(deployment, name, &first).await?;
    let now = answers[0].time();
    let token = answers[4].number();
    let state = answers[7].texts();
    let queue = answers[6].scores();
    let more = second_commands(name, now, &answers, &queue);
    let rest = ask_about(deployment, name, &more).await?;

    let mut inspected = Inspected {
        server: deployment.primary_of(LockKey::Named.of(name))?.address().to_owned(),
        is_other: is_other(&answers, &rest[0]),
        token,
        reader_count: rest[1].number().unwrap_or(0),
        readers: holds_of("read_lock", &rest[2], now),
        ..Inspected::default()
    };
    inspected.queue = wait_queue(answers[5].number().unwrap_or(0), &queue, &rest[6..], now);
    inspected.lock = hold_of_name(&answers, &rest[0], inspected.queue.length > 0, now);
    // The time that is left of the writer's hold, or of the mark of a waiting writer; `None` if it is over.
    let until = |place: usize| {
        let text = state.get(place)?.as_ref()?;
        let left = time_until(text.parse().ok()?, now);
        (!left.is_zero()).then_some(left)
    };
    let owner = |place: usize| Some(Owner::new(state.get(place)?.clone()?));
    inspected.writer = owner(0).zip(until(1)).map(|(owner, left)| Hold {
        kind: "write_lock",
        owner,
        left: Some(left),
        held: held_for(token, now),
        permits: 1,
    });
    let held = held_for(token, now);
    inspected.run = match answers[8].texts().as_slice() {
        // With `took` the run has ended, and only says that the job is done.
        [Some(owner), None] => Some(hold_with_ttl("once", owner, &answers[9], held)),
        _ => None,
    };
    let leader = answers[10].text();
    inspected.leader = leader.map(|owner| hold_with_ttl("leader", &owner, &answers[11], held));
    inspected.waiting_writer = owner(2).zip(until(3)).map(|(owner, _)| owner);
    inspected.permits = Permits {
        held: rest[3].number().unwrap_or(0),
        limit: rest[5].number(),
        holders: merged_by_owner(holds_of("semaphore", &rest[4], now)),
    };
    super::clients::add_client_names(deployment, owners(&mut inspected).map(|owner| (name, owner))).await?;
    Ok(inspected)
}

/// Returns the owners of all holds and all waiters.
fn owners(of: &mut Inspected) -> impl Iterator<Item = &mut Owner> {
    let one = of
        .lock
        .iter_mut()
        .chain(&mut of.writer)
        .chain(&mut of.run)
        .chain(&mut of.leader);
    let holds = one.chain(&mut of.readers).chain(&mut of.permits.holders);
    let holders = holds.map(|hold| &mut hold.owner);
    let waiters = of.queue.first.iter_mut().map(|waiter| &mut waiter.owner);
    holders.chain(waiters).chain(&mut of.waiting_writer)
}

/// Returns the commands that depend on the name alone.
fn first_commands(name: &LockName) -> Vec<Command> {
    let key = |of: LockKey| of.of(name);
    let last = (MAX_SHOWN - 1).to_string();
    vec![
        command(&[b"TIME"]),
        command(&[b"HLEN", &key(LockKey::Named)]),
        command(&[b"STRLEN", &key(LockKey::Named)]),
        command(&[b"PTTL", &key(LockKey::Named)]),
        command(&[b"GET", &key(LockKey::Token)]),
        command(&[b"ZCOUNT", &key(LockKey::Queue), b"-inf", b"+inf"]),
        command(&[b"ZRANGE", &key(LockKey::Queue), b"0", last.as_bytes(), b"WITHSCORES"]),
        command(&[
            b"HMGET",
            &key(LockKey::ReadWrite),
            b"writer",
            b"writer_until",
            b"mark",
            b"mark_until",
        ]),
        command(&[b"HMGET", &key(LockKey::Run), b"owner", b"took"]),
        command(&[b"PTTL", &key(LockKey::Run)]),
        command(&[b"HRANDFIELD", &key(LockKey::Leader)]),
        command(&[b"PTTL", &key(LockKey::Leader)]),
    ]
}

/// Returns the commands that depend on the server's time and on the answers to the first commands.
fn second_commands(name: &LockName, now: u64, answers: &[Answer], queue: &[(String, f64)]) -> Vec<Command> {
    let key = |of: LockKey| of.of(name);
    let after = format!("({}", now / 1_000);
    let last = MAX_SHOWN.to_string();
    let by_deadline = |of: LockKey| {
        command(&[
            b"ZRANGE",
            &key(of),
            after.as_bytes(),
            b"+inf",
            b"BYSCORE",
            b"LIMIT",
            b"0",
            last.as_bytes(),
            b"WITHSCORES",
        ])
    };
    let named = match (answers[1].number(), answers[2].number()) {
        (Some(1), _) => command(&[b"HRANDFIELD", &key(LockKey::Named)]),
        (_, Some(length)) if (1..=MAX_HOLDER_BYTES).contains(&length) => command(&[b"GET", &key(LockKey::Named)]),
        _ => command(&[b"TIME"]),
    };
    let mut more = vec![
        named,
        command(&[b"ZCOUNT", &key(LockKey::Readers), after.as_bytes(), b"+inf"]),
        by_deadline(LockKey::Readers),
        command(&[b"ZCOUNT", &key(LockKey::Permits), after.as_bytes(), b"+inf"]),
        by_deadline(LockKey::Permits),
        command(&[b"ZSCORE", &key(LockKey::Permits), b"limit"]),
    ];
    if !queue.is_empty() {
        let alive = key(LockKey::Alive);
        let mut parts: Vec<&[u8]> = vec![b"HMGET", &alive];
        parts.extend(queue.iter().map(|(owner, _)| owner.as_bytes()));
        more.push(command(&parts));
    }
    more
}

/// Returns the hold in a record whose TTL is the lease.
fn hold_with_ttl(kind: &'static str, owner: &str, ttl: &Answer, held: Option<Duration>) -> Hold {
    Hold {
        kind,
        owner: Owner::new(owner),
        left: ttl.ttl().flatten(),
        held,
        permits: 1,
    }
}

/// The limit on the length of a text that is shown as a holder. A longer text is shown as `(a long text)`.
const MAX_HOLDER_BYTES: u64 = 128;

/// Returns the hold in the record whose key is the name itself.
fn hold_of_name(answers: &[Answer], owner: &Answer, has_queue: bool, now: u64) -> Option<Hold> {
    let left = answers[3].ttl()?;
    let fields = answers[1].number().filter(|fields| *fields == 1);
    let is_text = answers[2].number().is_some_and(|length| length > 0);
    let holder = match (fields, is_text) {
        (Some(_), _) => Owner::new(owner.text()?).if_lock_field()?,
        (None, true) => Owner::new(owner.text().unwrap_or_else(|| "(a long text)".into())),
        (None, false) => return None,
    };
    let kind = match (is_text, has_queue) {
        (true, _) => "mutex",
        (false, true) => "fair_lock",
        (false, false) => "lock",
    };
    let token = answers[4].number().filter(|_| holder.library() == Library::Steadlock);
    Some(Hold {
        kind,
        owner: holder,
        left,
        held: held_for(token, now),
        permits: 1,
    })
}

/// Returns whether the key of the name holds something other than a lock: another type, or a hash without exactly one
/// owner id.
fn is_other(answers: &[Answer], owner: &Answer) -> bool {
    let is_owner = || {
        owner
            .text()
            .is_none_or(|owner| Owner::new(owner).if_lock_field().is_some())
    };
    match answers[1].number() {
        Some(0) => false,
        Some(1) => !is_owner(),
        Some(_) => true,
        None => answers[1] == Answer::OtherType && answers[2] == Answer::OtherType,
    }
}

fn holds_of(kind: &'static str, members: &Answer, now: u64) -> Vec<Hold> {
    let hold = |(member, until): (String, f64)| Hold {
        kind,
        owner: Owner::new(if kind == "semaphore" {
            owner_of_permit(&member)
        } else {
            member
        }),
        left: Some(time_until(until, now)),
        held: None,
        permits: 1,
    };
    members.scores().into_iter().map(hold).collect()
}

/// Merges the permits of each owner into one hold.
fn merged_by_owner(permits: Vec<Hold>) -> Vec<Hold> {
    let mut holders: Vec<Hold> = Vec::new();
    for permit in permits {
        match holders.iter_mut().find(|known| known.owner == permit.owner) {
            Some(known) => known.permits += 1,
            None => holders.push(permit),
        }
    }
    holders
}

fn wait_queue(length: u64, queue: &[(String, f64)], alive: &[Answer], now: u64) -> Queue {
    let seen = alive.first().map(Answer::texts).unwrap_or_default();
    let ago = |micros: u64| Duration::from_micros(now.saturating_sub(micros));
    let first = queue.iter().enumerate().map(|(place, (owner, arrived))| QueuedWaiter {
        owner: Owner::new(owner),
        waited: time_since(now, *arrived),
        silent: seen
            .get(place)
            .and_then(Option::as_ref)
            .and_then(|seen| seen.split(' ').next()?.parse().ok())
            .map(ago),
    });
    Queue {
        length,
        first: first.collect(),
    }
}

/// Returns the time from `arrived` to `now`, both in µs.
fn time_since(now: u64, arrived: f64) -> Duration {
    let arrived = Duration::try_from_secs_f64(arrived / 1_000_000.0).unwrap_or_default();
    Duration::from_micros(now).saturating_sub(arrived)
}

/// Sends commands about a name. A forbidden command is an error. While the slot moves, one node has some of the keys
/// and another node the rest, so commands without an answer are sent to one node after another.
pub(super) async fn ask_about(
    deployment: &mut Deployment,
    name: &LockName,
    commands: &[Command],
) -> Result<Vec<Answer>, Error> {
    let server = deployment.primary_of(LockKey::Named.of(name))?;
    let mut answers = ask(server, commands).await?;
    for server in deployment.primaries_mut() {
        let is_missing = |answer: &Answer| *answer == Answer::Elsewhere;
        let missing: Vec<usize> = (0..answers.len())
            .filter(|place| is_missing(&answers[*place]))
            .collect();
        if missing.is_empty() {
            break;
        }
        let again: Vec<Command> = missing.iter().map(|place| commands[*place].clone()).collect();
        for (place, answer) in missing.into_iter().zip(ask_with_asking(server, &again).await?) {
            answers[place] = answer;
        }
    }
    for answer in &answers {
        match answer {
            Answer::Forbidden(error) => {
                return Err(refusal_error(error, deployment.primary_of(LockKey::Named.of(name))?));
            }
            Answer::Elsewhere => return Err(slot_is_moving(deployment.name())),
            Answer::Reply(_) | Answer::OtherType => {}
        }
    }
    Ok(answers)
}

/// Returns the error for a slot whose keys no node answers for at the moment.
fn slot_is_moving(cluster: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        Operation::Inspect,
        "the name's slot is moving from one node to another; try again",
    )
    .with_node(cluster)
}
