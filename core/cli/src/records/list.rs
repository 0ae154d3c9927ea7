//! Finds all locks that are held: walks the keys of every server by SCAN, one page at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadlock::admin::{CallError, Deployment, LockKey, LockName, Reply, Server, Servers};
use steadlock::host::shown;
use steadlock::{Error, ErrorKind, Operation};
use tokio::time::Instant;

use super::answers::text;
use super::clients;
use super::locked::Locked;
use super::page::{self, Page, PossibleRecord};

/// The result of the search.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The locks, sorted by name.
    pub(crate) locks: Vec<Locked>,
    /// The number of keys that could be locks and that this user may not read.
    pub(crate) forbidden: usize,
    /// The number of keys that could be locks and that no node answered for, because their slots are moving.
    pub(crate) moving: usize,
    /// RedLock: the errors of the primaries that did not answer, or that refused a command.
    pub(crate) failed: Vec<Error>,
    /// The time in which each server answered `HELLO`.
    pub(crate) round_trips: Vec<(String, Duration)>,
}

/// The names to search for.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// The prefix that programs put before each name.
    key_prefix: String,
    /// The start of the wanted names, as they are on the server.
    start: String,
}

/// The approximate number of keys that a server looks at for one SCAN.
const PAGE_KEYS: &str = "500";
/// The largest number of keys that are examined together, even if a page has more.
const BATCH: usize = 500;

impl Filter {
    pub(crate) fn new(key_prefix: &str, prefix: &str) -> Self {
        Self {
            key_prefix: key_prefix.to_owned(),
            start: format!("{key_prefix}{prefix}"),
        }
    }

    fn matches(&self, name: &LockName) -> bool {
        name.as_str().starts_with(&self.start)
    }

    /// Returns a name as programs use it, in a form that is safe to show.
    fn displayed(&self, name: &LockName) -> String {
        shown(self.without_prefix(name)).into_owned()
    }

    /// Returns a name as programs use it.
    fn without_prefix<'a>(&self, name: &'a LockName) -> &'a str {
        let name = name.as_str();
        name.strip_prefix(&self.key_prefix).unwrap_or(name)
    }

    /// Returns a pattern by which the server leaves out most keys of other names; `None` if all names are wanted. The
    /// pattern is not exact, because records have three forms of keys.
    fn pattern(&self) -> Option<String> {
        let escaped = |letter: char| match letter {
            '*' | '?' | '[' | ']' | '\\' => vec!['\\', letter],
            _ => vec![letter],
        };
        let start: String = self.start.chars().flat_map(escaped).collect();
        (!start.is_empty()).then(|| format!("*{start}*"))
    }
}

/// Finds all locks that are held and whose names match the filter.
///
/// # Errors
/// Fails if a server does not answer or refuses a command. With RedLock, fails only if this leaves no majority of the
/// primaries.
pub(crate) async fn list(servers: &mut Servers, filter: &Filter) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    let all = servers.deployments().len();
    let mut found = Vec::new();
    for deployment in servers.deployments_mut() {
        match list_deployment(deployment, filter, &mut listing).await {
            Ok(locked) => found.push(locked),
            Err(error) if all == 1 => return Err(error),
            Err(error) => listing.failed.push(error),
        }
    }
    if found.len() <= all / 2
        && let Some(error) = listing.failed.pop()
    {
        return Err(error);
    }
    listing.locks = if all == 1 {
        found.into_iter().flatten().flat_map(BTreeMap::into_values).collect()
    } else {
        merged_primaries(found.into_iter().flatten(), all)
    };
    listing
        .locks
        .sort_by(|one, other| (&one.name, one.kind).cmp(&(&other.name, other.kind)));
    Ok(listing)
}

type Found = BTreeMap<(LockName, &'static str), Locked>;

/// Finds the locks on the servers of one URL.
async fn list_deployment(
    deployment: &mut Deployment,
    filter: &Filter,
    listing: &mut Listing,
) -> Result<Vec<Found>, Error> {
    let mut found = Found::new();
    let (mut examined, mut forbidden, mut refusal) = (0, 0, None);
    let mut add_page = |page: Page| {
        examined += page.examined;
        forbidden += page.forbidden;
        refusal = refusal.take().or(page.refusal);
        for (name, mut locked) in page.locked {
            locked.name = filter.displayed(&name);
            found.insert((name, locked.kind), locked);
        }
        page.elsewhere
    };
    let mut elsewhere = Vec::new();
    for server in deployment.primaries_mut() {
        let trip = round_trip(server).await?;
        listing.round_trips.push((server.address().to_owned(), trip));
        let mut cursor = "0".to_owned();
        loop {
            let (next, keys) = scan(server, &cursor, filter).await?;
            let wanted = |key: &Vec<u8>| PossibleRecord::read(key).filter(|record| filter.matches(record.name()));
            let records: Vec<PossibleRecord> = keys.iter().filter_map(wanted).collect();
            for batch in records.chunks(BATCH) {
                elsewhere.extend(add_page(page::read(server, batch.to_vec(), false).await?));
            }
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    // The slots of these keys are moving, or have moved since the cluster's slots were read. The commands go to every
    // node, and the node that has the key answers.
    for server in deployment.primaries_mut() {
        if elsewhere.is_empty() {
            break;
        }
        elsewhere = add_page(page::read(server, elsewhere, true).await?);
    }
    listing.moving += elsewhere.len();
    listing.forbidden += forbidden;
    match refusal {
        Some(refusal) if forbidden == examined => return Err(refusal),
        _ => {}
    }
    let owners = found.iter_mut().map(|((name, _), locked)| (name, &mut locked.owner));
    clients::add_client_names(deployment, owners).await?;
    Ok(vec![found])
}

/// Finds the names that have this key on a server, in the form in which programs use them, sorted.
///
/// # Errors
/// As [`list`], but fails with the first server that does.
pub(crate) async fn names(servers: &mut Servers, filter: &Filter, of: LockKey) -> Result<Vec<String>, Error> {
    let mut found = BTreeSet::new();
    for deployment in servers.deployments_mut() {
        for server in deployment.primaries_mut() {
            let mut cursor = "0".to_owned();
            loop {
                let (next, keys) = scan(server, &cursor, filter).await?;
                let named = keys.iter().filter_map(|key| LockKey::read(key));
                let wanted = named.filter(|(key, name)| *key == of && filter.matches(name));
                found.extend(wanted.map(|(_, name)| filter.without_prefix(&name).to_owned()));
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Measures the time in which a server answers a command that every user may send.
async fn round_trip(server: &mut Server) -> Result<Duration, Error> {
    // The first command may open the connection, which is not measured.
    server.call(&["HELLO"]).await?;
    let start = Instant::now();
    server.call(&["HELLO"]).await?;
    Ok(start.elapsed())
}

/// Reads one page of SCAN: the cursor of the next page, and the keys.
async fn scan(server: &mut Server, cursor: &str, filter: &Filter) -> Result<(String, Vec<Vec<u8>>), Error> {
    let pattern = filter.pattern();
    let mut command = vec!["SCAN", cursor, "COUNT", PAGE_KEYS];
    if let Some(pattern) = &pattern {
        command.extend(["MATCH", pattern]);
    }
    let reply = server.ask(&command).await?;
    let reply = reply.map_err(|error: CallError| error.to_error(Operation::Inspect).with_node(server.address()))?;
    let unexpected = || {
        Error::new(
            ErrorKind::Misconfigured,
            Operation::Inspect,
            "the answer to SCAN is not a page of keys",
        )
        .with_node(server.address())
    };
    let Reply::Array(parts) = reply else {
        return Err(unexpected());
    };
    let [next, Reply::Array(keys)] = parts.as_slice() else {
        return Err(unexpected());
    };
    let key = |key: &Reply| match key {
        Reply::Bytes(key) => Some(key.clone()),
        _ => None,
    };
    Ok((
        text(next).ok_or_else(unexpected)?,
        keys.iter().filter_map(key).collect(),
    ))
}

/// Merges the records of RedLock. Each primary has its own record of a holder, with its own owner id, but the client id
/// in these owner ids is the same.
fn merged_primaries(found: impl Iterator<Item = Found>, primaries: usize) -> Vec<Locked> {
    let mut holders: BTreeMap<(LockName, &'static str, Option<String>), Vec<Locked>> = BTreeMap::new();
    for ((name, kind), locked) in found.flatten() {
        let client = locked.owner.client().map(str::to_owned);
        holders.entry((name, kind, client)).or_default().push(locked);
    }
    let merge = |records: Vec<Locked>| {
        let count = records.len();
        // The lock ends when so many records have ended that no majority has one any more. A client without a majority
        // is shown with the time of its first record to end.
        let mut left: Vec<_> = records.iter().map(|record| record.left).collect();
        left.sort_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
        let needed = (primaries / 2).min(count - 1);
        let first = records.into_iter().next()?;
        Some(Locked {
            left: left[needed],
            primaries: Some((count, primaries)),
            // Each primary draws its own tokens.
            token: None,
            held: None,
            ..first
        })
    };
    holders.into_values().filter_map(merge).collect()
}
