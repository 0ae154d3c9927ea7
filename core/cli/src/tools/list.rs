//! `steadlock list`: lists all locks that are held.

use std::process::ExitCode;

use serde_json::{Value, json};
use steadlock::admin::readable;

use super::format::{describe_holder, number_or_dash, owner_as_json};
use crate::exit::Exit;
use crate::output::{duration_or, millis, print, print_json, table};
use crate::records::{Filter, Listing, Locked, list};
use crate::server::ServerOptions;

/// List the locks that are held.
///
/// Walks the keys of every server by SCAN, 500 at a time, and tells locks from other keys by their
/// form, type and holder. No call keeps the server busy for long, but all calls together look at each
/// key once. A lock that is acquired or released meanwhile may or may not be listed.
///
/// A `lock` and a `fair_lock` have the same record. The lock is shown as fair_lock while its queue has
/// waiters, and only then is the number of waiters known. A mutex of another library cannot be told
/// from other texts; `steadlock inspect` shows it.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct List {
    /// List only locks whose names start with this prefix.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Print one JSON object: locks with name, kind, holder, holders, limit, left_ms, held_ms, token, waiters, server
    /// and primaries.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  done
    2  wrong usage
   69  the server could not be reached, or stopped answering
   78  the URL or the name is not acceptable, or the server refused: SECURITY.md has the rights";

impl List {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut servers = self.server.open().await?;
        let filter = Filter::new(self.server.key_prefix(), &self.prefix);
        let listing = list(&mut servers, &filter).await?;
        print_notes(&listing);
        if self.json {
            print_json(&as_json(&listing))?;
        } else {
            print(&as_text(&listing))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints what is missing from a listing.
pub(super) fn print_notes(listing: &Listing) {
    for note in notes(listing) {
        eprintln!("steadlock: {note}");
    }
}

/// Returns notes about what is missing from a listing.
pub(super) fn notes(listing: &Listing) -> Vec<String> {
    let failed = listing.failed.iter().map(ToString::to_string);
    let forbidden = (listing.forbidden > 0).then(|| {
        format!(
            "{} keys may be locks, and this user may not read them",
            listing.forbidden
        )
    });
    let moving = (listing.moving > 0).then(|| {
        format!(
            "{} keys may be locks, and are moving from one node to another; list again",
            listing.moving
        )
    });
    failed.chain(forbidden).chain(moving).collect()
}

pub(super) fn as_json(listing: &Listing) -> Value {
    let trip = |(server, trip): &(String, std::time::Duration)| json!({ "server": server, "round_trip_us": u64::try_from(trip.as_micros()).unwrap_or(u64::MAX) });
    json!({
        "locks": listing.locks.iter().map(lock_as_json).collect::<Vec<_>>(),
        "servers": listing.round_trips.iter().map(trip).collect::<Vec<_>>(),
        "notes": notes(listing),
    })
}

fn lock_as_json(lock: &Locked) -> Value {
    json!({
        "name": lock.name,
        "kind": lock.kind,
        "holder": owner_as_json(&lock.owner),
        "holders": lock.holders,
        "limit": lock.limit,
        "left_ms": millis(lock.left),
        "held_ms": millis(lock.held),
        "token": lock.token,
        "waiters": lock.waiters,
        "server": lock.server,
        "primaries": lock.primaries.map(|(granted, of)| json!({ "granted": granted, "of": of })),
    })
}

fn as_text(listing: &Listing) -> String {
    if listing.locks.is_empty() {
        return "no lock is held\n".into();
    }
    let head = ["NAME", "KIND", "LEFT", "HELD", "WAITERS", "TOKEN", "HOLDER"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(listing.locks.iter().map(|lock| {
        vec![
            readable(&lock.name),
            lock.kind.into(),
            duration_or(lock.left, "no TTL"),
            duration_or(lock.held, "-"),
            number_or_dash(lock.waiters),
            number_or_dash(lock.token),
            describe_holder(lock, lock.owner.describe()),
        ]
    }));
    let mut lines = table(&rows, &[false, false, true, true, true, true, false]).join("\n");
    lines.push('\n');
    lines
}
