//! Asks sentinels once for the primary, for tools.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use steadlock_protocol::{Error, Instant, Operation, Reply};

use super::MAX_OTHERS;
use super::answer::{self, Answer, Choice, OtherSentinel, Trust};
use super::round::{KnownSentinel, Outcome, Round};
use crate::settings::Settings;
use crate::sleep::timeout;
use crate::target::{Scheme, Target};
use crate::transport::redis::address::Address;
use crate::transport::redis::connect::Boxed;
use crate::transport::redis::failure::Failure;
use crate::transport::redis::link::Link;
use crate::transport::redis::server_kind::ServerKind;

/// The result of the lookup.
pub(in crate::transport::redis) struct Found {
    pub(in crate::transport::redis) primary: Address,
    /// The sentinels of the URL, and those that they name.
    pub(in crate::transport::redis) sentinels: Vec<Link>,
}

/// Stands for no limit: it is longer than any attempt to connect. Until a sentinel has named a primary, all are waited
/// for.
const NO_TIMEOUT: Duration = Duration::from_secs(86_400);

/// Asks the sentinels of the URL, and those that they name, in one [`Round`].
pub(in crate::transport::redis) async fn ask(settings: &Arc<Settings>, target: &Target) -> Result<Found, Error> {
    let Scheme::Sentinel {
        sentinels: configured,
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
        round: Round::foreground(settings.connect_timeout, Instant::ZERO),
        pending: Vec::new(),
        links: BTreeMap::new(),
        ids: BTreeMap::new(),
        has_reply: false,
        failures: Vec::new(),
    };
    for (host, port) in configured {
        lookup.ask(Address::new(host, *port));
    }
    let outcome = loop {
        if let Some(outcome) = lookup.outcome() {
            break outcome;
        }
        lookup.wait(configured.len() + MAX_OTHERS).await;
    };
    let Choice::Follow(answer) = answer::choose(outcome.answers.iter(), None, Trust::Older) else {
        return Err(not_found_error(target, service, !lookup.has_reply, lookup.failures));
    };
    Ok(Found {
        primary: answer.primary,
        sentinels: lookup.into_links(),
    })
}

/// The round of questions in progress.
struct Lookup<'a> {
    settings: &'a Settings,
    target: &'a Target,
    service: &'a str,
    start: tokio::time::Instant,
    round: Round,
    pending: Vec<Boxed<SentinelReply>>,
    /// The known sentinels, with the connections of those that have answered or failed.
    links: BTreeMap<Address, Option<Link>>,
    /// The ids of the sentinels.
    ids: BTreeMap<Address, Arc<str>>,
    has_reply: bool,
    failures: Vec<Error>,
}

impl Lookup<'_> {
    fn link(&self, address: &Address) -> Link {
        let sentinel = self.target.sentinel_target(&address.host, address.port);
        Link::of(self.settings, self.target, &sentinel, ServerKind::Sentinel)
    }

    fn ask(&mut self, address: Address) {
        let pending = ask_sentinel(address.clone(), self.link(&address), self.service.to_owned());
        self.pending.push(Box::pin(pending));
        self.links.insert(address, None);
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// Returns the outcome of the round, if it is over.
    fn outcome(&mut self) -> Option<Outcome> {
        // Each sentinel is asked once: when all are done, a missing answer never arrives.
        let now = if self.pending.is_empty() {
            Instant::ZERO + NO_TIMEOUT
        } else {
            self.now()
        };
        let known = self.links.keys().map(|address| KnownSentinel {
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
        let left = due.map_or(NO_TIMEOUT, |due| due.saturating_since(now));
        let mut waiting = select_all(mem::take(&mut self.pending));
        let Some((reply, _, others)) = timeout(left, &mut waiting).await else {
            self.pending = waiting.into_inner();
            return;
        };
        self.pending = others;
        for OtherSentinel { address, id } in reply.others {
            let reached = self.settings.address_map.lookup(&address.host, address.port);
            let is_configured = reached.is_some_and(|(host, port)| self.target.names_address(&host, port));
            if let Some(id) = id {
                self.ids.entry(address.clone()).or_insert(id);
            }
            if !is_configured && self.links.len() < most && !self.links.contains_key(&address) {
                self.ask(address);
            }
        }
        if let Some(id) = reply.id {
            self.ids.insert(reply.address.clone(), id);
        }
        match reply.answer {
            Ok(answer) => {
                self.has_reply = true;
                self.round.add_answer(reply.address.clone(), answer, self.now());
            }
            Err(error) => {
                let failure = Failure::unavailable(error.message());
                self.round.add_failure(&reply.address, failure);
                self.failures.push(error);
            }
        }
        self.links.insert(reply.address, Some(reply.link));
    }

    /// Returns the connections to all sentinels, including those that have not answered.
    fn into_links(mut self) -> Vec<Link> {
        let links = mem::take(&mut self.links);
        let link = |(address, known): (Address, Option<Link>)| known.unwrap_or_else(|| self.link(&address));
        links.into_iter().map(link).collect()
    }
}

/// The answer of one sentinel.
struct SentinelReply {
    address: Address,
    link: Link,
    /// `None` if the sentinel does not know the service.
    answer: Result<Option<Answer>, Error>,
    /// The sentinel's id.
    id: Option<Arc<str>>,
    /// The other sentinels that this one knows.
    others: Vec<OtherSentinel>,
}

async fn ask_sentinel(address: Address, mut link: Link, service: String) -> SentinelReply {
    let commands: [&[&str]; 4] = [
        &["SENTINEL", "MYID"],
        &["SENTINEL", "MASTER", &service],
        &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &service],
        &["SENTINEL", "SENTINELS", &service],
    ];
    let (answer, id, others) = match link.send(&commands).await {
        Err(error) => (Err(error), None, Vec::new()),
        Ok(mut answers) => {
            let others = answers.pop().and_then(Result::ok);
            let named = answers.pop().unwrap_or(Ok(Reply::Nil));
            // The user may lack some rights. Without epochs all answers count as equally new.
            let epoch = answers.pop().and_then(Result::ok).as_ref().map_or(0, answer::epoch);
            let id = answers.pop().and_then(Result::ok).as_ref().and_then(answer::id);
            let answer = match named {
                Ok(named) => answer::parse(&named, epoch).map_err(|failure| failure.into_error(link.address())),
                Err(error) => Err(error.to_error(Operation::Connect).with_node(link.address())),
            };
            (answer, id, others.as_ref().map(answer::others).unwrap_or_default())
        }
    };
    SentinelReply {
        address,
        link,
        answer,
        id,
        others,
    }
}

/// Returns the reason why no sentinel named a primary.
fn not_found_error(target: &Target, service: &str, is_silent: bool, mut failures: Vec<Error>) -> Error {
    if !is_silent {
        return Failure::unknown_service(service).into_error(&target.to_string());
    }
    let lasting = failures.iter().position(|error| !error.is_retryable());
    if !failures.is_empty() {
        return failures.swap_remove(lasting.unwrap_or(0));
    }
    Failure::unavailable("no sentinel was asked").into_error(&target.to_string())
}
