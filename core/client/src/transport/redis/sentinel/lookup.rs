//! Asking sentinels once who the primary is, for tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use steadlock_protocol::{Error, Operation, Reply};
use tokio::time::{Instant, timeout_at};

use super::answer::{self, Choice, Vote};
use super::{OTHERS, PATIENCE};
use crate::settings::Settings;
use crate::target::{Scheme, Target};
use crate::transport::redis::address::Address;
use crate::transport::redis::connect::Boxed;
use crate::transport::redis::failure::Failure;
use crate::transport::redis::link::Link;
use crate::transport::redis::membership::Membership;

/// What sentinels said.
pub(in crate::transport::redis) struct Said {
    pub(in crate::transport::redis) primary: Address,
    /// Those of the URL, and those that they name.
    pub(in crate::transport::redis) sentinels: Vec<Link>,
}

/// Longer than any try to connect: until a sentinel has named a primary, all are waited for.
const LONG: Duration = Duration::from_secs(86_400);

/// Asks the sentinels of the URL, and those that they name. The first that names a primary gives the others
/// a quarter of a second; then the newest answer counts.
pub(in crate::transport::redis) async fn ask(settings: &Arc<Settings>, target: &Target) -> Result<Said, Error> {
    let Scheme::Sentinel {
        sentinels: given,
        service,
        ..
    } = &target.scheme
    else {
        unreachable!("there are no sentinels");
    };
    let link = |address: &Address| {
        let one = target.one_sentinel(&address.host, address.port);
        Link::of(settings, target, &one, Membership::Sentinel)
    };
    let mut asked: BTreeMap<Address, Option<Link>> = BTreeMap::new();
    let mut asking: Vec<Boxed<Answer>> = Vec::new();
    for (host, port) in given {
        let address = Address::new(host, *port);
        asking.push(Box::pin(ask_one(address.clone(), link(&address), service.clone())));
        asked.insert(address, None);
    }
    let mut votes = Vec::new();
    let mut failures: Vec<Error> = Vec::new();
    let mut ends_at = Instant::now() + LONG;
    while !asking.is_empty() {
        let Ok((answer, _, others)) = timeout_at(ends_at, select_all(asking)).await else {
            break;
        };
        asking = others;
        for other in answer.others {
            let reached = settings.address_map.listed(&other.host, other.port);
            let is_given = reached.is_some_and(|(host, port)| target.lists(&host, port));
            if !is_given && asked.len() < given.len() + OTHERS && !asked.contains_key(&other) {
                asking.push(Box::pin(ask_one(other.clone(), link(&other), service.clone())));
                asked.insert(other, None);
            }
        }
        asked.insert(answer.address, Some(answer.link));
        match answer.vote {
            Ok(vote) => {
                if vote.is_some() {
                    ends_at = ends_at.min(Instant::now() + PATIENCE);
                }
                votes.push(vote);
            }
            Err(error) => failures.push(error),
        }
    }
    let Choice::Follow(vote) = answer::choose(votes.iter().flatten(), None, true) else {
        return Err(nobody(target, service, votes.is_empty(), failures));
    };
    let sentinels = asked
        .into_iter()
        .map(|(address, known)| known.unwrap_or_else(|| link(&address)));
    Ok(Said {
        primary: vote.primary,
        sentinels: sentinels.collect(),
    })
}

/// One sentinel's answer.
struct Answer {
    address: Address,
    link: Link,
    /// `None` if it does not know the service.
    vote: Result<Option<Vote>, Error>,
    /// The other sentinels that it knows.
    others: Vec<Address>,
}

async fn ask_one(address: Address, mut link: Link, service: String) -> Answer {
    let commands = [
        ["SENTINEL", "MASTER", &service],
        ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &service],
        ["SENTINEL", "SENTINELS", &service],
    ];
    let (vote, others) = match link.send(&commands).await {
        Err(error) => (Err(error), Vec::new()),
        Ok(mut answers) => {
            let others = answers.pop().and_then(Result::ok);
            let named = answers.pop().unwrap_or(Ok(Reply::Nil));
            // What its user may not ask, it goes without: then the answers of all count alike.
            let epoch = answers.pop().and_then(Result::ok).as_ref().map_or(0, answer::epoch);
            let vote = match named {
                Ok(named) => answer::vote(&named, epoch).map_err(|failure| failure.into_error(link.address())),
                Err(error) => Err(error.to_error(Operation::Connect).with_node(link.address())),
            };
            (vote, others.as_ref().map(answer::others).unwrap_or_default())
        }
    };
    Answer {
        address,
        link,
        vote,
        others,
    }
}

/// Why no sentinel named a primary.
fn nobody(target: &Target, service: &str, is_silent: bool, mut failures: Vec<Error>) -> Error {
    if !is_silent {
        return Failure::unknown_service(service).into_error(&target.to_string());
    }
    let lasting = failures.iter().position(|error| !error.is_retryable());
    if !failures.is_empty() {
        return failures.swap_remove(lasting.unwrap_or(0));
    }
    Failure::unavailable("no sentinel was asked").into_error(&target.to_string())
}
