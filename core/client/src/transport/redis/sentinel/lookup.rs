//! Asks sentinels once for the primary, for tools.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use steadlock_protocol::{Error, Instant, Operation, Reply};

use super::OTHERS;
use super::answer::{self, Choice, Other, Trust, Vote};
use super::round::{Known, Outcome, Round};
use crate::settings::Settings;
use crate::sleep::timeout;
use crate::target::{Scheme, Target};
use crate::transport::redis::address::Address;
use crate::transport::redis::connect::Boxed;
use crate::transport::redis::failure::Failure;
use crate::transport::redis::link::Link;
use crate::transport::redis::membership::Membership;

/// The result of the lookup.
pub(in crate::transport::redis) struct Said {
    pub(in crate::transport::redis) primary: Address,
    /// The sentinels of the URL, and those that they name.
    pub(in crate::transport::redis) sentinels: Vec<Link>,
}

/// Longer than any attempt to connect: all sentinels are waited for until one has named a primary.
const LONG: Duration = Duration::from_secs(86_400);

/// Asks the sentinels of the URL, and those that they name, in one [`Round`].
pub(in crate::transport::redis) async fn ask(settings: &Arc<Settings>, target: &Target) -> Result<Said, Error> {
    let Scheme::Sentinel {
        sentinels: given,
        service,
        ..
    } = &target.scheme
    else {
        unreachable!("there are no sentinels");
    };
    let mut lookup = Lookup {
        settings,
        target,
        service,
        start: tokio::time::Instant::now(),
        round: Round::awaited(settings.connect_timeout, Instant::ZERO),
        asking: Vec::new(),
        asked: BTreeMap::new(),
        ids: BTreeMap::new(),
        has_answer: false,
        failures: Vec::new(),
    };
    for (host, port) in given {
        lookup.ask(Address::new(host, *port));
    }
    let outcome = loop {
        if let Some(outcome) = lookup.outcome() {
            break outcome;
        }
        lookup.wait(given.len() + OTHERS).await;
    };
    let Choice::Follow(vote) = answer::choose(outcome.votes.iter(), None, Trust::Older) else {
        return Err(nobody(target, service, !lookup.has_answer, lookup.failures));
    };
    Ok(Said {
        primary: vote.primary,
        sentinels: lookup.into_links(),
    })
}

/// A round in progress.
struct Lookup<'a> {
    settings: &'a Settings,
    target: &'a Target,
    service: &'a str,
    start: tokio::time::Instant,
    round: Round,
    asking: Vec<Boxed<Answer>>,
    /// The known sentinels, with the connections of those that have answered or failed.
    asked: BTreeMap<Address, Option<Link>>,
    /// The ids of the sentinels.
    ids: BTreeMap<Address, Arc<str>>,
    has_answer: bool,
    failures: Vec<Error>,
}

impl Lookup<'_> {
    fn link(&self, address: &Address) -> Link {
        let one = self.target.sentinel_target(&address.host, address.port);
        Link::of(self.settings, self.target, &one, Membership::Sentinel)
    }

    fn ask(&mut self, address: Address) {
        let asking = ask_one(address.clone(), self.link(&address), self.service.to_owned());
        self.asking.push(Box::pin(asking));
        self.asked.insert(address, None);
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Returns the outcome of the round, if it is over.
    fn outcome(&mut self) -> Option<Outcome> {
        // Each sentinel is asked once: when all are done, a missing answer never arrives.
        let now = if self.asking.is_empty() {
            Instant::ZERO + LONG
        } else {
            self.now()
        };
        let known = self.asked.keys().map(|address| Known {
            address,
            id: self.ids.get(address).map(AsRef::as_ref),
            is_down: false,
        });
        self.round.outcome(known, None, now)
    }

    /// Waits for the next answer until the round's time is up. Asks at most `most` sentinels.
    async fn wait(&mut self, most: usize) {
        let now = self.now();
        let due = self.round.poll_timeout();
        let left = due.map_or(LONG, |due| due.saturating_since(now));
        let mut waiting = select_all(mem::take(&mut self.asking));
        let Some((answer, _, others)) = timeout(left, &mut waiting).await else {
            self.asking = waiting.into_inner();
            return;
        };
        self.asking = others;
        for Other { address, id } in answer.others {
            let reached = self.settings.address_map.lookup(&address.host, address.port);
            let is_given = reached.is_some_and(|(host, port)| self.target.names_address(&host, port));
            if let Some(id) = id {
                self.ids.entry(address.clone()).or_insert(id);
            }
            if !is_given && self.asked.len() < most && !self.asked.contains_key(&address) {
                self.ask(address);
            }
        }
        if let Some(id) = answer.id {
            self.ids.insert(answer.address.clone(), id);
        }
        match answer.vote {
            Ok(vote) => {
                self.has_answer = true;
                self.round.answered(answer.address.clone(), vote, self.now());
            }
            Err(error) => {
                let failure = Failure::unavailable(error.message());
                self.round.failed(&answer.address, failure);
                self.failures.push(error);
            }
        }
        self.asked.insert(answer.address, Some(answer.link));
    }

    /// Returns the connections to all sentinels, including those that have not answered.
    fn into_links(mut self) -> Vec<Link> {
        let asked = mem::take(&mut self.asked);
        let link = |(address, known): (Address, Option<Link>)| known.unwrap_or_else(|| self.link(&address));
        asked.into_iter().map(link).collect()
    }
}

/// The answer of one sentinel.
struct Answer {
    address: Address,
    link: Link,
    /// `None` if the sentinel does not know the service.
    vote: Result<Option<Vote>, Error>,
    /// The sentinel's id.
    id: Option<Arc<str>>,
    /// The other sentinels that it knows.
    others: Vec<Other>,
}

async fn ask_one(address: Address, mut link: Link, service: String) -> Answer {
    let commands: [&[&str]; 4] = [
        &["SENTINEL", "MYID"],
        &["SENTINEL", "MASTER", &service],
        &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &service],
        &["SENTINEL", "SENTINELS", &service],
    ];
    let (vote, id, others) = match link.send(&commands).await {
        Err(error) => (Err(error), None, Vec::new()),
        Ok(mut answers) => {
            let others = answers.pop().and_then(Result::ok);
            let named = answers.pop().unwrap_or(Ok(Reply::Nil));
            // The user may lack some rights. Without epochs all answers count as equally new.
            let epoch = answers.pop().and_then(Result::ok).as_ref().map_or(0, answer::epoch);
            let id = answers.pop().and_then(Result::ok).as_ref().and_then(answer::id);
            let vote = match named {
                Ok(named) => answer::vote(&named, epoch).map_err(|failure| failure.into_error(link.address())),
                Err(error) => Err(error.to_error(Operation::Connect).with_node(link.address())),
            };
            (vote, id, others.as_ref().map(answer::others).unwrap_or_default())
        }
    };
    Answer {
        address,
        link,
        vote,
        id,
        others,
    }
}

/// Returns the reason why no sentinel named a primary.
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
