use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use loom::thread::spawn;
use steadlock_protocol::{Error, ErrorKind, Instant, Kind, Operation};

use super::Pending;
use crate::host::Core;
use crate::host::{Acquire, LockRef, Op};
use crate::park::park_on;
use crate::port::{CheckedOp, Command, CommandReceiver, Completion, Lease, Sink, Slot};
use crate::process::Process;
use crate::schedules::in_every_schedule;
use crate::settings::{Options, Settings};
use crate::world::World;

/// Opens a client without an engine. Returns it with the receiver of its commands.
fn open() -> (Arc<Core>, CommandReceiver) {
    let url = Some("memory://".into());
    let options = Options {
        url,
        ..Options::default()
    };
    let core = Core::new(Arc::new(Settings::check(options).unwrap()), None);
    let commands = core.engine().start_without_engine().unwrap();
    (Arc::new(core), commands)
}

fn acquire(core: &Arc<Core>) -> Pending {
    let lock = LockRef::One(Kind::Lock, "a".into());
    let acquire = Acquire {
        lock,
        ..Acquire::default()
    };
    let (request, slot) = (core.next_request(), Arc::new(Slot::default()));
    core.run(request, Op::Acquire(acquire), Sink::Slot(Arc::clone(&slot)));
    Pending::new(Arc::clone(core), request, Operation::Acquire, slot)
}

/// Returns the next commands; sleeps until there are some.
fn next(commands: &CommandReceiver) -> Vec<Command> {
    let mut commands_sent = Vec::new();
    park_on(Duration::MAX, |waker| {
        commands.poll_many(&mut Context::from_waker(waker), &mut commands_sent, 16)
    });
    commands_sent
}

/// The result of a grant.
struct Granted {
    /// Whether the caller was still waiting.
    was_waiting: bool,
    later_commands: Vec<Command>,
}

/// Grants the first request.
fn grant(commands: &CommandReceiver) -> Granted {
    let mut later_commands = next(commands);
    let Command::Run {
        sink: Sink::Slot(slot), ..
    } = later_commands.remove(0)
    else {
        panic!("nothing was requested")
    };
    let (name, deadline) = ("a".into(), Instant::FAR_FUTURE);
    let lease = Lease::new(7, Process::current(), name, None, deadline, World::default());
    Granted {
        was_waiting: slot.complete(Ok(Completion::Granted(Arc::new(lease)))).is_ok(),
        later_commands,
    }
}

fn is_granted(result: Option<Result<Completion, Error>>) -> bool {
    matches!(result, Some(Ok(Completion::Granted(_))))
}

#[test]
fn a_waiting_thread_receives_its_result() {
    in_every_schedule(|| {
        let (core, commands) = open();
        let engine = spawn(move || grant(&commands));
        assert!(is_granted(acquire(&core).wait(Duration::MAX)));
        assert!(engine.join().unwrap().was_waiting);
    });
}

#[test]
fn a_waiting_task_receives_its_result() {
    in_every_schedule(|| {
        let (core, commands) = open();
        let engine = spawn(move || grant(&commands));
        let mut pending = acquire(&core);
        let result = park_on(Duration::MAX, |waker| {
            Pin::new(&mut pending).poll(&mut Context::from_waker(waker))
        });
        assert!(is_granted(result));
        assert!(engine.join().unwrap().was_waiting);
    });
}

#[test]
fn a_lock_that_is_granted_while_its_caller_gives_up_is_released_once() {
    in_every_schedule(|| {
        let (core, commands) = open();
        let engine = spawn(move || (grant(&commands), commands));
        let mut pending = acquire(&core);
        let was_received = is_granted(pending.wait(Duration::ZERO));
        drop(pending);
        let (granted, commands) = engine.join().unwrap();
        let (was_waiting, mut commands_sent) = (granted.was_waiting, granted.later_commands);
        let _ = commands.poll_many(&mut Context::from_waker(Waker::noop()), &mut commands_sent, 16);
        let releases = commands_sent.iter().filter(
            |command| matches!(command, Command::Run { op: CheckedOp::Release(lease, _), .. } if lease.get() == 7),
        );
        // The engine releases a grant that it gets back.
        let ends = usize::from(was_received) + releases.count() + usize::from(!was_waiting);
        assert_eq!(ends, 1, "{commands_sent:?}");
        let is_cancelled = commands_sent
            .iter()
            .any(|command| matches!(command, Command::Cancel { .. }));
        assert_eq!(is_cancelled, !was_waiting, "{commands_sent:?}");
    });
}

#[test]
fn after_the_engines_end_no_caller_waits_for_ever() {
    in_every_schedule(|| {
        let (core, commands) = open();
        let engine = Arc::clone(&core);
        let engine = spawn(move || {
            // In the order of `Engine::drop`, and with an error that nothing else returns.
            let failed = || Error::new(ErrorKind::Misconfigured, Operation::Acquire, "it failed");
            engine.engine().port().set_ended(failed(), None);
            commands.close();
            while let Some(command) = commands.take_remaining() {
                engine.engine().port().answer_ended(command, failed());
            }
        });
        let result = acquire(&core).wait(Duration::MAX);
        assert_eq!(result.and_then(Result::err).unwrap().kind(), ErrorKind::Misconfigured);
        engine.join().unwrap();
    });
}
