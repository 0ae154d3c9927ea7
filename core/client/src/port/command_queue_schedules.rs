use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use loom::thread::spawn;

use crate::park::park_on;
use crate::port::{Command, CommandReceiver, CommandSender, command_queue};
use crate::schedules::in_every_schedule;

/// Takes the queued commands into `commands_taken`; sleeps until there are some.
fn take(commands: &CommandReceiver, commands_taken: &mut Vec<Command>) {
    park_on(Duration::MAX, |waker| {
        commands.poll_many(&mut Context::from_waker(waker), commands_taken, 16)
    });
}

/// Sends a command. Returns whether the queue accepted it.
fn send(sender: &CommandSender, request: u64) -> bool {
    sender.send(Command::Cancel { request }).is_none()
}

#[test]
fn a_command_sent_while_the_engine_goes_to_sleep_is_received() {
    in_every_schedule(|| {
        let (sender, commands) = command_queue();
        let sender = Arc::new(sender);
        let callers = [1, 2].map(|request| {
            let sender = Arc::clone(&sender);
            spawn(move || send(&sender, request))
        });
        let mut commands_taken = Vec::new();
        while commands_taken.len() < 2 {
            take(&commands, &mut commands_taken);
        }
        for caller in callers {
            assert!(caller.join().unwrap());
        }
        let mut left = Vec::new();
        let polled = commands.poll_many(&mut Context::from_waker(Waker::noop()), &mut left, 16);
        assert!(polled.is_pending() && left.is_empty(), "each arrives once");
    });
}

#[test]
fn at_the_engines_end_a_command_is_received_or_left_or_returned_once() {
    in_every_schedule(|| {
        let (sender, commands) = command_queue();
        let caller = spawn(move || !send(&sender, 1));
        let mut commands_taken = Vec::new();
        let polled = commands.poll_many(&mut Context::from_waker(Waker::noop()), &mut commands_taken, 16);
        commands.close();
        let was_left = commands.take_remaining().is_some();
        let ends = [polled.is_ready(), was_left, caller.join().unwrap()];
        assert_eq!(ends.into_iter().filter(|is_end| *is_end).count(), 1, "{ends:?}");
        assert!(commands.take_remaining().is_none(), "nothing arrives after the end");
    });
}
