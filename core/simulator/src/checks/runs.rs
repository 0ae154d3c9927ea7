//! Checks I16 and I17: what keeps a request for a run of a job out, and what callers and the history say about runs.
//!
//! A run that ends keeps later requests out: until its start and `at_least` those for the job, and while it is kept
//! those for its key. Both times count by the server's clock. The check learns of them from the calls that end runs,
//! and forgets them where the server forgets them too: an operator frees a job by force, an external client deletes
//! keys, and a replica takes over with what it has received.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadlock_protocol::{Call, CallError, Ending, LastRun, Reply, RunEnd, RunOutcome, Skip, SkipReason};

use super::{Checked, broken};
use crate::kinds::{self, Role, Terms, is_yes, role};
use crate::records::{JobState, Record, Run, history, shown_fields};

/// The text of an owner id.
type Owner = Vec<u8>;
/// The fields of a history.
type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// The check of I16 and I17.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// By name: what the server knows.
    jobs: BTreeMap<usize, Job>,
    /// The writes that the replica has received.
    replica: BTreeMap<usize, Job>,
    /// The terms that the caller of each owner asked for.
    terms: BTreeMap<Owner, Terms>,
    /// The owners whose run was granted to its caller.
    granted: BTreeSet<Owner>,
    /// How the callers ended their runs.
    said: BTreeMap<Owner, Ending>,
    /// The starts of all runs that a server has granted, also of those that it has forgotten.
    begun: BTreeSet<(Owner, u64)>,
    /// The ends of all runs of each owner. A late call can begin a second run of one owner.
    ended: BTreeMap<Owner, Vec<End>>,
    /// By name and key on the server: the key of the caller.
    keys: BTreeMap<(usize, Vec<u8>), &'static str>,
}

/// All that a server knows of a job.
#[derive(Clone, Debug, Default)]
struct Job {
    /// Until when the job is done, in milliseconds of the server's clock.
    done: Option<u64>,
    /// By key on the server: until when it is done.
    keys: BTreeMap<Vec<u8>, u64>,
    history: Fields,
}

/// The end of a run. Times and lengths are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    at: u64,
    took: u64,
    outcome: String,
    /// Whether the job counted as done for a while.
    keeps_job: bool,
    /// The key that counted as done for a while.
    kept_key: Option<Vec<u8>>,
}

/// A call that a server ran, with the records before and after it.
pub(crate) struct Ran<'a> {
    pub(crate) name: usize,
    pub(crate) call: &'a Call,
    pub(crate) before: &'a JobState,
    pub(crate) after: &'a JobState,
    pub(crate) result: &'a Result<Reply, CallError>,
    /// The server's clock, in milliseconds.
    pub(crate) now: u64,
    /// Whether the server had no memory for some of its writes.
    pub(crate) is_full: bool,
}

impl Runs {
    // The calls that the sessions hand out.

    /// Notes what the caller of an attempt asked for. Different keys of a job must be different keys on the server.
    pub(crate) fn asks(&mut self, name: usize, call: &Call, terms: Terms) -> Checked {
        let Some(owner) = kinds::owner(call) else { return Ok(()) };
        self.terms.insert(owner.to_vec(), terms);
        let on_server = call.keys.get(3).map(|key| key.to_vec());
        let known = match (&on_server, terms.key) {
            (Some(on_server), Some(key)) => {
                let place = (name, on_server.clone());
                Some(*self.keys.entry(place).or_insert(key))
            }
            _ => None,
        };
        if on_server.is_some() == terms.key.is_some() && known == terms.key {
            return Ok(());
        }
        let shown = on_server.map(|key| text(&key));
        broken(
            "I16",
            format!("{terms:?} of name {name} have the server's key {shown:?}, which is that of {known:?}"),
        )
    }

    /// Notes that the run of an owner was granted to its caller.
    pub(crate) fn granted(&mut self, owner: &[u8]) {
        self.granted.insert(owner.to_vec());
    }

    /// Notes how a caller ended its run.
    pub(crate) fn says(&mut self, owner: &[u8], ending: Ending) {
        self.said.insert(owner.to_vec(), ending);
    }

    /// Checks the call that ends a run: it tells the server what the caller said. A run that its caller did not end has
    /// failed, and one that no caller was granted never began.
    pub(crate) fn releases(&self, call: &Call) -> Checked {
        let Some(owner) = kinds::owner(call) else { return Ok(()) };
        let Some(terms) = self.terms.get(owner) else {
            return Ok(());
        };
        let ending = match self.said.get(owner) {
            Some(ending) => ending.clone(),
            None if self.granted.contains(owner) => RunEnd::Failed.into(),
            None => RunEnd::Unused.into(),
        };
        let is_kept = match ending.end {
            RunEnd::Succeeded => true,
            RunEnd::Failed => terms.keeps_failures,
            RunEnd::Unused => false,
        };
        let at_least = ending.at_least.map_or(terms.at_least, millis);
        let (at_least, keep) = if is_kept { (at_least, terms.keep) } else { (0, 0) };
        let right = (word(ending.end), at_least, keep, terms.key.is_some());
        let args = |place: usize| call.args.get(place).map_or_else(String::new, |arg| text(arg));
        let sent = (args(1), number(call, 2), number(call, 3), call.keys.len() == 3);
        if (sent.0.as_str(), sent.1, sent.2, sent.3) == right {
            return Ok(());
        }
        let owner = text(owner);
        broken(
            "I16",
            format!("{owner} asked for {terms:?}, and its run ended as {right:?}; the call says {sent:?}"),
        )
    }

    // The events at the server.

    /// Forgets what is over by the server's clock. Called before and after each step of that clock too, because keys
    /// whose time has passed do not come back.
    pub(crate) fn passed(&mut self, now: u64) {
        for job in self.jobs.values_mut() {
            job.done = job.done.filter(|until| *until > now);
            job.keys.retain(|_, until| *until > now);
        }
    }

    /// An external client has emptied the server.
    pub(crate) fn flushed(&mut self) {
        self.jobs.clear();
    }

    /// An external client has deleted one key of a job: its run, its history, or a key that is done.
    pub(crate) fn removed(&mut self, name: usize, key: &[u8], text: &str) {
        let job = self.jobs.entry(name).or_default();
        if key == Record::Run.key(text).as_bytes() {
            job.done = None;
        } else if key == history(text).as_bytes() {
            job.history.clear();
        } else {
            job.keys.remove(key);
        }
    }

    /// The replica has received the state of its primary.
    pub(crate) fn replicated(&mut self) {
        self.replica = self.jobs.clone();
    }

    /// The replica has taken over.
    pub(crate) fn failed_over(&mut self) {
        self.jobs = self.replica.clone();
    }

    /// Checks a call that a server ran.
    pub(crate) fn ran(&mut self, ran: &Ran<'_>) -> Checked {
        self.passed(ran.now);
        let Ok(reply) = ran.result else {
            return ran.changes_nothing("failed");
        };
        match role(ran.call.script).0 {
            Role::Acquire if is_yes(reply) => self.grants(ran)?,
            Role::Acquire => self.skips(ran, reply)?,
            Role::Renew => ran.only_prolongs()?,
            Role::Release => self.ends(ran, is_yes(reply))?,
            Role::Force => self.forces(ran, is_yes(reply))?,
            Role::Inspect => {
                ran.changes_nothing("asked who runs the job")?;
                let named = RunNamed::of(reply);
                if named != ran.before.run.as_ref().map(|run| RunNamed::run(run, ran.now)) {
                    let what = format!("the server names {named:?}; it has {:?}", ran.before.run);
                    return broken("I17", what);
                }
            }
            Role::History => {
                ran.changes_nothing("asked for the last runs")?;
                ran.check_last_run(reply)?;
            }
            Role::Poll | Role::Limit => {}
        }
        let job = self.jobs.entry(ran.name).or_default();
        if job.history == ran.after.history {
            return Ok(());
        }
        let (right, has) = (shown_fields(&job.history), shown_fields(&ran.after.history));
        broken(
            "I17",
            format!(
                "the history of name {} is {has:?}, and its runs were {right:?}",
                ran.name
            ),
        )
    }

    fn grants(&mut self, ran: &Ran<'_>) -> Checked {
        let owner = ran.owner();
        let job = self.jobs.entry(ran.name).or_default();
        let client = ran.call.args.get(3).map(|client| client.to_vec()).unwrap_or_default();
        let is_again = ran.before.run.as_ref().is_some_and(|run| run.is_of(&owner));
        let since = match &ran.before.run {
            Some(run) if is_again => run.since,
            _ => ran.now,
        };
        let is_recorded = |run: &Run| run.is_of(&owner) && run.since == since && (is_again || run.client == client);
        if !ran.after.run.as_ref().is_some_and(is_recorded) || ran.after.done != ran.before.done {
            return ran.wrong("I16", "granted a run");
        }
        if is_again {
            return Ok(());
        }
        if ran.before.run.is_some() {
            return ran.wrong("I16", "granted a run beside another");
        }
        if let Some(until) = job.done {
            return ran.wrong("I16", &format!("granted a run of a job that is done until {until}"));
        }
        if let Some(until) = ran.key(3).and_then(|key| job.keys.get(key)) {
            return ran.wrong("I16", &format!("granted a run of a key that is done until {until}"));
        }
        self.begun.insert((owner.clone(), since));
        put(
            &mut job.history,
            [("owner", owner), ("started", decimal(since)), ("client", client)],
        );
        Ok(())
    }

    /// Checks I17 for a request that is skipped: the run that the server names keeps the request out.
    fn skips(&self, ran: &Ran<'_>, reply: &Reply) -> Checked {
        ran.changes_nothing("skipped a request")?;
        let (by_run, by_key) = (ran.before.run.as_ref(), ran.before.done.as_ref());
        let named = RunNamed::of(reply);
        let Some(run) = by_run
            .or(by_key)
            .filter(|run| named == Some(RunNamed::run(run, ran.now)))
        else {
            return ran.wrong("I17", &format!("skipped a request because of {named:?}"));
        };
        let key = ran.key(3).filter(|_| by_run.is_none());
        let keeps_out = |end: &End| match key {
            Some(key) => Some(end.took) == run.took && end.kept_key.as_deref() == Some(key),
            None => Some(end.took) == run.took && end.keeps_job,
        };
        let mut ends = self.ended.get(&run.owner).into_iter().flatten();
        let is_true = self.begun.contains(&(run.owner.clone(), run.since))
            && match run.took {
                Some(_) => ends.any(keeps_out),
                None => true,
            };
        if !is_true {
            return ran.wrong(
                "I17",
                &format!("skipped a request because of {named:?}, which was no such run"),
            );
        }
        let keys = (self.terms.get(&ran.owner()), self.terms.get(&run.owner));
        match keys {
            (Some(own), Some(other)) if key.is_some() && own.key != other.key => {
                ran.wrong("I16", &format!("skipped {own:?} because of {other:?}"))
            }
            _ => Ok(()),
        }
    }

    fn ends(&mut self, ran: &Ran<'_>, is_yes: bool) -> Checked {
        let owner = ran.owner();
        let outcome = ran.call.args.get(1).map_or_else(String::new, |outcome| text(outcome));
        let is_used = outcome != word(RunEnd::Unused);
        let job = self.jobs.entry(ran.name).or_default();
        let Some(run) = ran.before.run.as_ref().filter(|run| run.is_of(&owner)) else {
            if is_yes && !self.ended.contains_key(&owner) {
                return ran.wrong("I17", "answered that a run ended, which no call has ended");
            }
            let of = |field: &str| ran.before.of_history(field);
            let is_lost = of("owner") == owner && of("ended_owner") != owner && is_used && !is_yes;
            // A full server may not note it.
            let is_noted = !ran.is_full || ran.after.of_history("ended_owner") == owner;
            if is_lost && is_noted {
                let started = ran.before.time_in_history("started").unwrap_or(ran.now);
                let took = ran.now.saturating_sub(started);
                let client = of("client").to_vec();
                put(&mut job.history, ended(&owner, ran.now, took, "lost", client));
            }
            return match (&ran.before.run, &ran.before.done) == (&ran.after.run, &ran.after.done) {
                true => Ok(()),
                false => ran.wrong("I16", "ended a run that does not go on"),
            };
        };
        let (at_least, keep) = (number(ran.call, 2), number(ran.call, 3));
        let took = ran.now.saturating_sub(run.since);
        // The clock may have been set back during the run.
        let until = (run.since + at_least).min(ran.now + at_least);
        let keeps_job = until > ran.now;
        let kept_key = ran.key(2).filter(|_| is_used && keep > 0);
        let kept = |until: u64| Run {
            took: Some(took),
            left: until.cast_signed() - ran.now.cast_signed(),
            ..run.clone()
        };
        let right = JobState {
            run: keeps_job.then(|| kept(until)),
            done: match kept_key {
                Some(_) => Some(kept(ran.now + keep)),
                None => ran.before.done.clone(),
            },
            history: ran.after.history.clone(),
        };
        if !is_yes || right != *ran.after {
            return ran.wrong("I16", &format!("ended a run, and should have {right:?}"));
        }
        job.done = keeps_job.then_some(until);
        if let Some(key) = kept_key {
            job.keys.insert(key.to_vec(), ran.now + keep);
        }
        if is_used {
            let client = run.client.clone();
            put(&mut job.history, ended(&owner, ran.now, took, &outcome, client));
            if outcome == word(RunEnd::Succeeded) {
                put(&mut job.history, [("succeeded", decimal(ran.now))]);
            }
        } else if ran.before.of_history("owner") == owner {
            for field in ["owner", "started", "client"] {
                job.history.remove(field.as_bytes());
            }
        }
        self.ended.entry(owner).or_default().push(End {
            at: ran.now,
            took,
            outcome,
            keeps_job,
            kept_key: kept_key.map(<[u8]>::to_vec),
        });
        Ok(())
    }

    fn forces(&mut self, ran: &Ran<'_>, is_yes: bool) -> Checked {
        self.jobs.entry(ran.name).or_default().done = None;
        let is_rest_same = (&ran.before.done, &ran.before.history) == (&ran.after.done, &ran.after.history);
        match ran.after.run.is_none() && is_yes == ran.before.run.is_some() && is_rest_same {
            true => Ok(()),
            false => ran.wrong("I16", "freed a job by force"),
        }
    }

    // The answers to callers.

    /// Checks I17 for a caller that was skipped because of the run of `by`.
    pub(crate) fn check_skip(&self, skip: Skip, by: Option<&str>) -> Checked {
        let is_true = match (skip.reason, by, skip.since) {
            (SkipReason::Unavailable, None, None) => skip.took.is_none(),
            (SkipReason::Running | SkipReason::Done, Some(by), Some(since)) => {
                let took = skip.took.map(millis);
                let mut ends = self.ended.get(by.as_bytes()).into_iter().flatten();
                let has_ended = ends.any(|end| Some(end.took) == took);
                let is_ended = skip.reason == SkipReason::Done;
                self.begun.contains(&(by.as_bytes().to_vec(), since))
                    && is_ended == took.is_some()
                    && is_ended == has_ended
            }
            _ => false,
        };
        match is_true {
            true => Ok(()),
            false => broken(
                "I17",
                format!("a caller was told {skip:?} of {by:?}, which was no such run"),
            ),
        }
    }

    /// Checks I17 for a caller that was told that its run ended as it said.
    pub(crate) fn check_ended(&self, owner: &[u8]) -> Checked {
        let Some(said) = self.said.get(owner) else {
            return Ok(());
        };
        let mut ends = self.ended.get(owner).into_iter().flatten();
        match ends.any(|end| end.outcome == word(said.end)) {
            true => Ok(()),
            false => broken(
                "I17",
                format!(
                    "{} was told that its run ended as {said:?}, and no server knows that",
                    text(owner)
                ),
            ),
        }
    }

    /// Checks I17 for a caller that was told of the last runs of a job.
    pub(crate) fn check_last_run(&self, answer: &LastRun) -> Checked {
        let is_begun = |started| self.begun.iter().any(|(_, since)| *since == started);
        let mut ends = self.ended.values().flatten();
        let is_ended = answer.ended.as_ref().is_none_or(|run| {
            let is_it = |end: &End| {
                (end.at, end.took, end.outcome.as_str()) == (run.at, millis(run.took), run.outcome.as_str())
            };
            run.outcome == RunOutcome::Lost || ends.any(is_it)
        });
        match answer.started.is_none_or(is_begun) && is_ended {
            true => Ok(()),
            false => broken("I17", format!("a caller was answer {answer:?}, which no run was")),
        }
    }
}

impl Ran<'_> {
    fn owner(&self) -> Owner {
        kinds::owner(self.call).map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// Returns a key of the call.
    fn key(&self, place: usize) -> Option<&[u8]> {
        self.call.keys.get(place).map(|key| &**key)
    }

    fn wrong(&self, promise: &'static str, what: &str) -> Checked {
        let Self {
            name,
            call,
            before,
            after,
            now,
            ..
        } = self;
        let (call, owner) = (call.script.file(), text(&self.owner()));
        broken(
            promise,
            format!("{call} of {owner}, name {name}, at {now} {what}; before {before:?}, after {after:?}"),
        )
    }

    fn changes_nothing(&self, what: &str) -> Checked {
        match self.before == self.after {
            true => Ok(()),
            false => self.wrong("I16", &format!("{what}, and changed a record")),
        }
    }

    /// Checks a renewal: nothing changes but the time that is left of the owner's run.
    fn only_prolongs(&self) -> Checked {
        let owner = self.owner();
        let mut right = self.before.clone();
        if let (Some(right), Some(after)) = (&mut right.run, &self.after.run)
            && right.is_of(&owner)
        {
            right.left = right.left.max(after.left);
        }
        match right == *self.after {
            true => Ok(()),
            false => self.wrong("I16", "renewed a run, and changed more than its lease"),
        }
    }

    /// Checks I17 for the question for the last runs of a job.
    fn check_last_run(&self, reply: &Reply) -> Checked {
        let of = |field: &str| self.before.of_history(field);
        let (owner, ended_owner) = (of("owner"), of("ended_owner"));
        let is_under_way = self.before.run.as_ref().is_some_and(|run| run.is_of(owner));
        let state: &[u8] = match owner {
            _ if is_under_way => b"running",
            [] => b"ended",
            owner if owner == ended_owner => b"ended",
            _ => b"crashed",
        };
        let mut right = vec![Reply::Int(1), Reply::Bytes(state.to_vec())];
        for field in [
            "started",
            "client",
            "ended",
            "took",
            "outcome",
            "ended_client",
            "succeeded",
        ] {
            right.push(Reply::Bytes(of(field).to_vec()));
        }
        if owner.is_empty() && ended_owner.is_empty() {
            right = vec![Reply::Int(0)];
        }
        match *reply == Reply::Array(right.clone()) {
            true => Ok(()),
            false => self.wrong("I17", &format!("names {reply:?} as the last runs, and not {right:?}")),
        }
    }
}

/// A run that a server names in a reply.
#[derive(Debug, PartialEq, Eq)]
struct RunNamed {
    left: i64,
    owner: Owner,
    since: Vec<u8>,
    took: Vec<u8>,
    now: Vec<u8>,
    client: Vec<u8>,
}

impl RunNamed {
    fn of(reply: &Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else { return None };
        let [
            Reply::Int(0),
            Reply::Int(left),
            Reply::Bytes(owner),
            Reply::Bytes(since),
            Reply::Bytes(took),
            Reply::Bytes(now),
            Reply::Bytes(client),
        ] = parts.as_slice()
        else {
            return None;
        };
        Some(Self {
            left: *left,
            owner: owner.clone(),
            since: since.clone(),
            took: took.clone(),
            now: now.clone(),
            client: client.clone(),
        })
    }

    /// Returns how a server must name this run.
    fn run(run: &Run, now: u64) -> Self {
        Self {
            left: run.left,
            owner: run.owner.clone(),
            since: decimal(run.since),
            took: run.took.map(decimal).unwrap_or_default(),
            now: decimal(now),
            client: run.client.clone(),
        }
    }
}

/// Returns the fields of a history about a run that ended.
fn ended(owner: &[u8], at: u64, took: u64, outcome: &str, client: Vec<u8>) -> [(&'static str, Vec<u8>); 5] {
    [
        ("ended_owner", owner.to_vec()),
        ("ended", decimal(at)),
        ("took", decimal(took)),
        ("outcome", outcome.into()),
        ("ended_client", client),
    ]
}

fn put<const N: usize>(history: &mut Fields, fields: [(&'static str, Vec<u8>); N]) {
    history.extend(fields.map(|(field, value)| (field.into(), value)));
}

/// Returns the word of an end on the server.
const fn word(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Succeeded => "succeeded",
        RunEnd::Failed => "failed",
        RunEnd::Unused => "unused",
    }
}

/// Returns a number among the arguments of a call.
fn number(call: &Call, place: usize) -> u64 {
    let arg = call.args.get(place).and_then(|arg| std::str::from_utf8(arg).ok());
    arg.and_then(|arg| arg.parse().ok()).unwrap_or(0)
}

fn decimal(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn text(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
