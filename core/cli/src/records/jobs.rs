//! Reads the last runs of jobs, by plain commands: a user with the rights for `list` needs no other rights, and the times
//! are those of the server's clock. `once_history.lua` has the same rules for clients.

use std::sync::Arc;
use std::time::Duration;

use steadlock::admin::{Deployment, LockKey, LockName, Servers};
use steadlock::{ClientInfo, EndedRun, Error, ErrorKind, LastRun, Operation, RunOutcome, RunState};

use super::answers::{Answer, command};
use super::inspect::ask_about;

/// All that the server has about a job.
#[derive(Debug)]
pub(crate) struct SeenJob {
    /// The name, as programs use it.
    pub(crate) name: String,
    /// The last runs; `None` if the server has no history of this job.
    pub(crate) last_run: Option<LastRun>,
    /// The server's clock when the job was read, in milliseconds since 1970.
    now: u64,
}

impl SeenJob {
    /// Returns the time since a moment of the server's clock, in milliseconds since 1970.
    pub(crate) fn time_since(&self, moment: u64) -> Duration {
        Duration::from_millis(self.now.saturating_sub(moment))
    }

    /// Returns whether no run has ended well for longer than this.
    pub(crate) fn is_stale(&self, longest: Duration) -> bool {
        let succeeded = self.last_run.as_ref().and_then(|last_run| last_run.succeeded);
        succeeded.is_none_or(|succeeded| self.time_since(succeeded) > longest)
    }
}

/// Reads the last runs of these jobs.
///
/// # Errors
/// Fails if the server does not answer or refuses a command, and for RedLock, which has no jobs.
pub(crate) async fn jobs(servers: &mut Servers, names: Vec<String>) -> Result<Vec<SeenJob>, Error> {
    if servers.has_several_primaries() {
        let message = "jobs need a single primary; give the URL of one";
        return Err(Error::new(ErrorKind::InvalidArgument, Operation::Inspect, message));
    }
    let mut jobs = Vec::with_capacity(names.len());
    for name in names {
        let full = servers.lock_name(&name)?;
        for deployment in servers.deployments_mut() {
            let (now, last_run) = last_run(deployment, &full).await?;
            let name = name.clone();
            jobs.push(SeenJob { name, last_run, now });
        }
    }
    Ok(jobs)
}

/// Reads the server's clock, in milliseconds, and the last runs of a job.
async fn last_run(deployment: &mut Deployment, name: &LockName) -> Result<(u64, Option<LastRun>), Error> {
    let run = command(&[b"HMGET", &LockKey::Run.of(name), b"owner", b"took"]);
    let history = command(&[
        b"HMGET",
        &LockKey::History.of(name),
        b"owner",
        b"started",
        b"client",
        b"ended_owner",
        b"ended",
        b"took",
        b"outcome",
        b"ended_client",
        b"succeeded",
    ]);
    // The run is read before and after the history: a run that begins or ends between the commands has not crashed.
    let commands = [run.clone(), history, run, command(&[b"TIME"])];
    let answers = ask_about(deployment, name, &commands).await?;
    let runs = [&answers[0], &answers[2]];
    Ok((answers[3].time() / 1_000, parse(&runs, &answers[1])))
}

/// Reads the history of a job; `None` if there is none.
fn parse(runs: &[&Answer], history: &Answer) -> Option<LastRun> {
    let [
        owner,
        started,
        client,
        ended_owner,
        ended,
        took,
        outcome,
        ended_client,
        succeeded,
    ] = <[Option<String>; 9]>::try_from(history.texts()).ok()?;
    if owner.is_none() && ended_owner.is_none() {
        return None;
    }
    // With `took` a run has ended, and its record only says that the job is done.
    let is_running = |run: &&Answer| matches!(run.texts().as_slice(), [runs, None] if *runs == owner);
    let state = match owner.is_none() || owner == ended_owner {
        true => RunState::Ended,
        false if runs.iter().any(is_running) => RunState::Running,
        false => RunState::Crashed,
    };
    let ended = || {
        Some(EndedRun {
            at: number(ended)?,
            took: Duration::from_millis(number(took)?),
            outcome: RunOutcome::ALL
                .into_iter()
                .find(|known| Some(known.as_str()) == outcome.as_deref())?,
            client: program(ended_client),
        })
    };
    Some(LastRun {
        state,
        started: number(started),
        client: program(client),
        ended: ended(),
        succeeded: number(succeeded),
    })
}

fn number(text: Option<String>) -> Option<u64> {
    text?.parse().ok()
}

fn program(text: Option<String>) -> Option<Arc<ClientInfo>> {
    ClientInfo::parse(text?.as_bytes()).map(Arc::new)
}
