//! `steadlock release --force`: removes a lock from its holder.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum as _;
use serde_json::json;
use steadlock::admin::readable;
use steadlock::host::shown;
use steadlock::{Client, Lock};
use tokio::time::timeout;

use super::Kind;
use super::format::{NOT_HELD, owner_as_json};
use super::inspect::{inspect_all, refuse_other_data};
use crate::exit::Exit;
use crate::output::{print, print_json};
use crate::records::Owner;
use crate::server::ServerOptions;

/// Release a lock by force. For operators.
///
/// The holder continues until its next renewal finds the loss, at most a third of its lease plus 0.5 s
/// later; with a fixed lease, until its deadline. Another owner may hold the lock meanwhile. All
/// holders of a read lock or a semaphore lose it.
///
/// With --kind once, a job that counts as done may run again too. A key that is done stays done.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Release {
    /// The lock's name.
    name: String,
    /// Confirm the release. Without this option nothing is done.
    #[arg(long)]
    force: bool,
    /// The kind of the lock [default: the kind that is held]. Needed if locks of several kinds with this name are held.
    #[arg(long)]
    kind: Option<Kind>,
    /// Print one JSON object: name, kind, released, holder.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  it was taken from its holder
    1  nobody held it
    2  wrong usage, or --force is missing
   69  the server could not be reached, or stopped answering
   78  the URL or the name is not acceptable, the key of this name holds something that is no lock,
       several kinds of lock of this name are held, or the server refused: SECURITY.md has the rights";

impl Release {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        if !self.force {
            return Err(Exit::new(
                Exit::USAGE,
                "its holder would continue without the lock; if that is what you want, give --force. A program releases \
                 its own locks itself",
            ));
        }
        let (kind, holder) = match self.kind {
            Some(kind) => (Some(kind), None),
            None => self.find().await?,
        };
        let Some(kind) = kind else {
            self.print_result(None, None, false)?;
            return Ok(ExitCode::from(NOT_HELD));
        };
        let client = self.server.builder()?.connect().await?;
        let lock = lock_of_kind(&client, kind, &self.name);
        // The holder is read as late as possible, because it may have changed since the search.
        let current = match lock.holder().await {
            Ok(current) => current.map(Owner::from),
            // The holder could not be read, for example because the server did not answer. The holder that the search
            // found is shown instead.
            Err(_) if holder.is_some() => None,
            Err(error) => return Err(error.into()),
        };
        let released = client.force_release(&lock).await;
        let _ = timeout(CLOSE_TIMEOUT, client.close()).await;
        let released = released?;
        self.print_result(Some(kind), current.or(holder), released)?;
        Ok(ExitCode::from(if released { 0 } else { NOT_HELD }))
    }

    /// Returns the one kind of lock of this name that is held, and its holder; `(None, None)` if nobody holds one.
    async fn find(&self) -> Result<(Option<Kind>, Option<Owner>), Exit> {
        let mut servers = self.server.open().await?;
        let name = servers.lock_name(&self.name)?;
        let all = inspect_all(&mut servers, &name).await?;
        refuse_other_data(&shown(&self.name), &all, &[])?;
        let kinds: BTreeSet<&str> = all.iter().flat_map(|one| one.holds()).map(|hold| hold.kind).collect();
        if kinds.len() > 1 {
            let kinds: Vec<&str> = kinds.into_iter().collect();
            return Err(Exit::new(
                Exit::CONFIG,
                format!(
                    "several kinds of lock of this name are held; give one of them by --kind: {}",
                    kinds.join(", ")
                ),
            ));
        }
        let hold = all.iter().flat_map(|one| one.holds()).next();
        let Some(hold) = hold else { return Ok((None, None)) };
        // With RedLock the record on each primary is that of a mutex, so a RedLock is released as a mutex.
        let known = Kind::value_variants().iter().find(|kind| kind.name() == hold.kind);
        Ok((known.copied(), Some(hold.owner.clone())))
    }

    fn print_result(&self, kind: Option<Kind>, holder: Option<Owner>, released: bool) -> Result<(), Exit> {
        let name = shown(&self.name);
        if self.json {
            return print_json(&json!({
                "name": name,
                "kind": kind.map(Kind::name),
                "released": released,
                "holder": holder.filter(|_| released).as_ref().map(owner_as_json),
            }));
        }
        let name = readable(&name);
        let kind = kind.map_or("lock", Kind::noun);
        match (released, holder) {
            (false, _) => print(&format!("{name}: nobody held it\n")),
            (true, Some(holder)) => print(&format!("{name}: the {kind} was taken from {}\n", holder.describe())),
            (true, None) => print(&format!("{name}: the {kind} was taken from its holder\n")),
        }
    }
}

fn lock_of_kind(client: &Client, kind: Kind, name: &str) -> Lock {
    match kind {
        Kind::Lock => client.lock(name),
        Kind::Mutex => client.mutex(name),
        Kind::Fair => client.fair_lock(name),
        Kind::Read => client.read_write_lock(name).read,
        Kind::Write => client.read_write_lock(name).write,
        // The limit of 1 has no effect: a forced release works with any limit.
        Kind::Semaphore => client.semaphore(name, 1).permits(1),
        Kind::Once => client.once(name).as_lock(),
        Kind::Leader => client.leader(name).as_lock(),
    }
}

/// The limit on the time for closing the client.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_millis(420);
