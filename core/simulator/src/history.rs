//! One history from its seed to its end. Callers work, first while faults strike, then without faults. At the end all
//! leases are released, all clients are closed, and all records expire.

use crate::calls::Fingerprint;
use crate::checks::{
    Broken, Checked, check_nothing_remains, check_only_crashed_remain, check_session_is_empty, check_ttl,
};
use crate::defect::Defect;
use crate::fault::FaultCounts;
use crate::kinds::{Family, LONGEST_KEEP};
use crate::operation::OperationCounts;
use crate::records::history;
use crate::time::{MS, Micros, SECOND};
use crate::trace::Line;
use crate::world::World;

/// The result of a history.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The family of the locks.
    pub family: Family,
    /// The promise that was broken, if any.
    pub violation: Option<Violation>,
    /// The hash of everything that happened; the same in every run of the seed.
    pub trace_hash: u64,
    /// The fingerprint of the calls that sessions handed out.
    pub calls: Fingerprint,
    /// The number of steps: events that happened, and timers of sessions that fired.
    pub steps: u64,
    /// The virtual time that passed, in microseconds.
    pub virtual_micros: u64,
    /// How often each kind of fault has struck.
    pub faults: FaultCounts,
    /// How often each operation was done.
    pub operations: OperationCounts,
    /// The number of granted leases.
    pub grants: u64,
    /// The number of scripts that the servers ran.
    pub script_runs: u64,
}

/// A promise that was broken in a history.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The promise, and how it was broken.
    pub broken: Broken,
    /// The step at which it was broken.
    pub step: u64,
    /// The tier of the history, and the family of its locks.
    pub tier: String,
    /// The family to which the history was restricted, if it was.
    pub only: Option<Family>,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}

/// Runs the history of a seed.
#[must_use]
pub fn run(seed: u64, defect: Option<Defect>, print: bool) -> Report {
    report(World::new(seed, defect, print), seed, None, print)
}

/// Runs the history of a seed, and prints each call that a session hands out.
#[must_use]
pub fn run_printing_calls(seed: u64) -> Report {
    let mut world = World::new(seed, None, false);
    world.calls.print = true;
    report(world, seed, None, false)
}

/// Runs the history of a seed for locks of one family.
#[must_use]
pub fn run_of(seed: u64, family: Family, print: bool) -> Report {
    let only = Some(family);
    report(World::of(seed, only, None, print), seed, only, print)
}

fn report(mut world: World, seed: u64, only: Option<Family>, print: bool) -> Report {
    if print {
        println!("{:#?}", world.plan);
    }
    let violation = play(&mut world).err().map(|broken| Violation {
        broken,
        step: world.steps,
        tier: format!("{:?}, {}", world.plan.tier, world.plan.family.title()),
        only,
        trace: world.trace.last(),
    });
    Report {
        seed,
        family: world.plan.family,
        violation,
        trace_hash: world.trace.hash(),
        calls: world.calls.fingerprint(),
        steps: world.steps,
        virtual_micros: world.now,
        faults: world.faults,
        operations: world.operations,
        grants: world.grants,
        script_runs: world.script_runs,
    }
}

/// The longest time for which a record can stay after its client is gone: the longest lease that a caller requests,
/// plus the difference of clocks.
const LONGEST_LEASE: Micros = 32 * SECOND;
/// The time for which a token is kept after its grant (60 s), and some slack.
const TOKEN_KEPT: Micros = 61 * SECOND;

/// The longest time for which a key of a job is done, and the difference of clocks.
const LONGEST_DONE: Micros = LONGEST_KEEP * MS + LONGEST_KEEP * MS / 50;
/// The time for which the history of a job is kept after its last run (30 days), and the difference of clocks.
const HISTORY_KEPT: Micros = 31 * 24 * 3_600 * SECOND;

fn play(world: &mut World) -> Checked {
    world.run_until(world.plan.faults_until, |_| false)?;
    world.end_faults()?;
    world.run_until(world.plan.work_until, |_| false)?;

    world.note(Line::TasksEnd);
    world.is_ending = true;
    // Waiters may have to wait until the records of crashed clients expire, one after another.
    let latest = world.now + 2 * LONGEST_LEASE + 10 * SECOND;
    world.run_until(latest, |world| {
        let alive = world.clients.iter().filter(|client| client.session.is_some());
        alive.flat_map(|client| &client.tasks).all(crate::task::Task::is_idle)
    })?;
    world.signals.all_completed()?;

    // Owed releases are sent again after a timeout, perhaps twice.
    let settled = world.now + 4 * world.plan.timeout() + SECOND;
    world.run_until(settled, |_| false)?;
    if !world.plan.tier.keeps_records() {
        only_crashed_remain(world)?;
    }

    for client in 0..world.clients.len() {
        world.close(client)?;
    }
    world.note(Line::AllClosed);
    let drained = world.now + 4 * world.plan.timeout() + 3 * SECOND;
    world.run_until(drained, |_| false)?;
    for (number, client) in world.clients.iter().enumerate() {
        if let Some(session) = &client.session {
            check_session_is_empty(number, session)?;
        }
    }

    let has_jobs = world.plan.family == Family::Once;
    world.now += LONGEST_LEASE + TOKEN_KEPT;
    if has_jobs {
        world.now += LONGEST_DONE;
    }
    let now = world.now;
    world.note(Line::AllExpired);
    let histories: Vec<Vec<u8>> = world.names.iter().map(|name| history(name.as_str()).into()).collect();
    for node in &mut world.nodes {
        let keys = node.keys(now);
        check_ttl(node, &keys, now)?;
        // On a clock that was set back, keys last longer by the same amount.
        node.clock_offset += node.set_back;
        check_nothing_remains(node, &histories, now)?;
        if has_jobs {
            check_nothing_remains(node, &[], now + HISTORY_KEPT)?;
        }
    }
    Ok(())
}

fn only_crashed_remain(world: &mut World) -> Checked {
    let crashed = world.clients.iter().filter(|client| client.session.is_none());
    let crashed: Vec<String> = crashed.map(|client| client.id.clone()).collect();
    for node in 0..world.nodes.len() {
        for name in 0..world.names.len() {
            let mut owners: Vec<Vec<u8>> = world.holders(node, name).into_iter().map(|(owner, _)| owner).collect();
            owners.append(&mut world.waiters(node, name));
            check_only_crashed_remain(name, &owners, &crashed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::Chooser;
    use crate::client::Client;
    use crate::fault::Fault;

    /// Faults that strike independently of what sessions do.
    const OF_THE_WORLD: &[Fault] = &[
        Fault::NodeStop,
        Fault::Demotion,
        Fault::TemporaryError,
        Fault::ClientPause,
        Fault::ClientCrash,
        Fault::ClientClose,
        Fault::Invention,
        Fault::RecordRemoved,
        Fault::Flush,
        Fault::ClockForward,
        Fault::ClockBack,
        Fault::Failover,
    ];

    #[test]
    fn a_session_that_behaves_differently_moves_no_fault_of_the_world() {
        let mut changed = 0;
        for seed in 0..50 {
            let mut world = World::new(seed, None, false);
            let entropy = Chooser::Session { client: 99 }.generator(seed);
            world.clients[0] = Client::new(&world.plan, &world.plan.clients[0], entropy);
            let (one, other) = (run(seed, None, false), report(world, seed, None, false));
            changed += u64::from(one.trace_hash != other.trace_hash);
            for fault in OF_THE_WORLD {
                let counts = (one.faults.of(*fault), other.faults.of(*fault));
                assert_eq!(counts.0, counts.1, "seed {seed}, {fault:?}");
            }
        }
        assert!(changed > 25, "{changed}");
    }
}
