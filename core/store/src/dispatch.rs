//! Runs a command of the table on the data, for a client or for a script.

use crate::commands::{self, Command, Effect, Run, RunData};
use crate::data::Data;
use crate::reply::{Reply, StoreError};

/// Runs a command of a client.
pub(crate) fn run(data: &mut Data, command: &'static Command, run: RunData, args: &[&[u8]]) -> Reply {
    run_checked(data, command, run, args, false)
}

/// Runs a command of a script.
pub(crate) fn run_in_script(data: &mut Data, args: &[&[u8]]) -> Reply {
    let Some(command) = args.first().and_then(|name| commands::find(name)) else {
        return Reply::Error(StoreError::err("Unknown Redis command called from script"));
    };
    if !command.accepts(args.len()) {
        data.counts_mut().record_rejection(command.index());
        return Reply::Error(StoreError::err(
            "Wrong number of args calling Redis command from script",
        ));
    }
    match command.run {
        Run::Data(_) if !data.can_access(command.keys(args)) => {
            data.counts_mut().record_rejection(command.index());
            Reply::Error(StoreError::err(
                "Script attempted to access a non local key in a cluster node",
            ))
        }
        Run::Data(run) => {
            let script_has_written = data.script_has_written();
            let reply = run_checked(data, command, run, args, script_has_written);
            if command.effect != Effect::None && !matches!(reply, Reply::Error(_)) {
                data.mark_written();
            }
            reply
        }
        Run::Script(_) | Run::Connection => {
            data.counts_mut().record_rejection(command.index());
            Reply::Error(StoreError::err("This Redis command is not allowed from script"))
        }
    }
}

/// Counts a command that was executed.
pub(crate) fn count(data: &mut Data, command: &'static Command, reply: &Reply) {
    data.counts_mut()
        .record_call(command.index(), matches!(reply, Reply::Error(_)));
}

fn run_checked(
    data: &mut Data,
    command: &'static Command,
    run: RunData,
    args: &[&[u8]],
    script_has_written: bool,
) -> Reply {
    let checked = match command.effect {
        Effect::Adds => data.check_memory(args, script_has_written),
        Effect::None | Effect::Writes => Ok(()),
    };
    let reply = checked.and_then(|()| run(data, args)).unwrap_or_else(Reply::Error);
    count(data, command, &reply);
    reply
}
