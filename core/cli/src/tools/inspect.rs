//! `steadlock inspect`: shows everything about one lock.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};
use steadlock::admin::{LockKey, LockName, Servers, readable};
use steadlock::host::shown;

use super::format::{NOT_HELD, number_or_dash, owner_as_json};
use crate::exit::Exit;
use crate::output::{duration, duration_or, millis, print, print_json};
use crate::records::{Hold, Inspected, inspect};
use crate::server::ServerOptions;

/// Show the holders and the waiters of a lock of any kind.
///
/// Shows the holders with the time that is left of their leases, the last fencing token, the queue of
/// a fair lock, the readers and the writer, and a semaphore's permits; at most 100 of each.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Inspect {
    /// The lock's name.
    name: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  somebody holds it
    1  nobody does
    2  wrong usage
   69  the server could not be reached, or stopped answering
   78  the URL or the name is not acceptable, the key of this name holds something that is no lock, or
       the server refused: SECURITY.md has the rights";

impl Inspect {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut servers = self.server.open().await?;
        let name = servers.lock_name(&self.name)?;
        let all = inspect_all(&mut servers, &name).await?;
        let is_held = is_held(&all, &[]);
        let given = shown(&self.name);
        if self.json {
            print_json(&as_json(&given, is_held, &all))?;
        } else {
            print(&as_text(&given, is_held, &all))?;
        }
        refuse_other_data(&given, &all, &[])?;
        Ok(ExitCode::from(if is_held { 0 } else { NOT_HELD }))
    }
}

/// Returns what each primary has about a name. A single server or a cluster has one primary for the name. With RedLock
/// there are several primaries, and a majority must answer.
pub(super) async fn inspect_all(servers: &mut Servers, name: &LockName) -> Result<Vec<Inspected>, steadlock::Error> {
    let all = servers.deployments().len();
    let mut found = Vec::new();
    let mut failure = None;
    for deployment in servers.deployments_mut() {
        match inspect(deployment, name).await {
            Ok(inspected) => found.push(inspected),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if found.len() <= all / 2 => Err(error),
        _ => Ok(found),
    }
}

/// Returns whether the lock is held as one of these kinds, or as any kind if none is given. With RedLock, a record on
/// one primary is enough: its client may be about to get a majority.
pub(super) fn is_held(all: &[Inspected], kinds: &[&str]) -> bool {
    all.iter().any(|one| one.is_held(kinds))
}

/// Refuses a name whose key holds something other than a lock, as programs do with `Misconfigured`. Accepts the name if
/// a lock of one of `kinds` is held, or if none of `kinds` uses that key. Empty `kinds` stand for all kinds.
pub(super) fn refuse_other_data(name: &str, all: &[Inspected], kinds: &[&str]) -> Result<(), Exit> {
    // Only locks of some kinds have their record at this key. Locks of the other kinds work although the key holds
    // other data.
    let uses_key = |kind: &&str| LockKey::of_record(kind) == Some(LockKey::Named);
    let is_concerned = kinds.is_empty() || kinds.iter().any(uses_key);
    if is_concerned && !is_held(all, kinds) && all.iter().any(|one| one.is_other) {
        let message = format!("the key of {} holds something that is no lock", readable(name));
        return Err(Exit::new(Exit::CONFIG, message));
    }
    Ok(())
}

fn hold_as_json(hold: &Hold) -> Value {
    json!({
        "kind": hold.kind,
        "holder": owner_as_json(&hold.owner),
        "left_ms": millis(hold.left),
        "held_ms": millis(hold.held),
        "permits": (hold.kind == "semaphore").then_some(hold.permits),
    })
}

fn as_json(name: &str, is_held: bool, all: &[Inspected]) -> Value {
    let one = |one: &Inspected| {
        let queue = one.queue.first.iter().map(|waiter| {
            json!({
                "owner": owner_as_json(&waiter.owner),
                "waited_ms": millis(Some(waiter.waited)),
                "silent_ms": millis(waiter.silent),
            })
        });
        json!({
            "server": one.server,
            "holds": one.holds().map(hold_as_json).collect::<Vec<_>>(),
            "token": one.token,
            "is_other": one.is_other,
            "fair_queue": { "length": one.queue.length, "first": queue.collect::<Vec<_>>() },
            "readers": one.reader_count,
            "waiting_writer": one.waiting_writer.as_ref().map(owner_as_json),
            "permits": { "held": one.permits.held, "limit": one.permits.limit },
        })
    };
    json!({ "name": name, "held": is_held, "servers": all.iter().map(one).collect::<Vec<_>>() })
}

fn as_text(name: &str, is_held: bool, all: &[Inspected]) -> String {
    let mut text = format!("{}: {}\n", readable(name), if is_held { "held" } else { "free" });
    for one in all {
        if all.len() > 1 {
            let _ = writeln!(text, "  on {}", one.server);
        }
        for hold in one.holds() {
            write_hold(&mut text, hold);
        }
        if one.is_other {
            text.push_str("  the key of this name holds something that is no lock\n");
        }
        if one.permits.held > 0 {
            let limit = number_or_dash(one.permits.limit);
            let _ = writeln!(text, "  permits     {} of {limit} are held", one.permits.held);
        }
        let more = one.reader_count.saturating_sub(one.readers.len() as u64);
        if more > 0 {
            let _ = writeln!(text, "  readers     {more} more");
        }
        if let Some(writer) = &one.waiting_writer {
            let _ = writeln!(text, "  a writer waits: {}", writer.describe());
        }
        write_queue(&mut text, one);
        if let Some(token) = one.token {
            let _ = writeln!(text, "  last token  {token}");
        }
    }
    text
}

fn write_hold(text: &mut String, hold: &Hold) {
    let permits = match (hold.kind, hold.permits) {
        ("semaphore", 1) => ", 1 permit".into(),
        ("semaphore", permits) => format!(", {permits} permits"),
        _ => String::new(),
    };
    let held = hold
        .held
        .map_or_else(String::new, |held| format!(", held for about {}", duration(held)));
    let _ = writeln!(
        text,
        "  {:<10}  {}{permits}, left {}{held}",
        hold.kind,
        hold.owner.describe(),
        duration_or(hold.left, "for ever: it has no TTL"),
    );
}

/// Adds the wait queue of a fair lock, in order.
fn write_queue(text: &mut String, one: &Inspected) {
    if one.queue.length > 0 {
        let _ = writeln!(text, "  fair queue  {} waiting", one.queue.length);
    }
    for (place, waiter) in one.queue.first.iter().enumerate() {
        let silent = duration_or(waiter.silent, "an unknown time");
        let _ = writeln!(
            text,
            "    {:>3}  {}, waits for {}, last heard from {silent} ago",
            place + 1,
            waiter.owner.describe(),
            duration(waiter.waited),
        );
    }
}
