//! The connection to one sentinel: it listens for switches of the primary, and asks who is it.
//!
//! ```text
//!   Connecting ──► Open: subscribes, asks ── a switch, or when told to: asks again
//!        ▲                    │
//!        └── pause ◄──────────┘ closed, or silent
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Instant, Reply};

use super::answer::{self, Vote};
use crate::settings::Settings;
use crate::transport::redis::address::Address;
use crate::transport::redis::connect::{Boxed, Connector, Purpose};
use crate::transport::redis::failure::Failure;
use crate::transport::redis::outage::{Outage, up_to};
use crate::transport::redis::resp::{self, Frame, ServerError};
use crate::transport::redis::wire::Wire;

/// The events that say that the primary is another one: every sentinel sends the first when it
/// learns of it, the one that promotes a replica sends the second earlier.
const EVENTS: [&[u8]; 2] = [b"+switch-master", b"+promoted-slave"];
/// So often a sentinel is asked while the client is in use, whatever it says by itself.
const LOOK: Duration = Duration::from_secs(10);

/// One sentinel.
pub(super) struct Watcher {
    connector: Arc<Connector>,
    service: Arc<str>,
    state: State,
    outage: Outage,
    is_given: bool,
    /// The other sentinels that it knows.
    others: Vec<Address>,
    /// A connection that leaves a question unanswered for so long is given up.
    silence: Duration,
}

enum State {
    Connecting(Boxed<Result<Wire, Failure>>),
    Open(Box<Open>),
}

struct Open {
    connector: Arc<Connector>,
    wire: Wire,
    since: Instant,
    /// What has no answer yet, oldest first.
    asked: VecDeque<Question>,
    asked_at: Instant,
    /// Something happened since it was asked.
    is_outdated: bool,
    /// Of the answer that comes in parts.
    epoch: u64,
    look_due: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// So many events are not confirmed yet.
    Subscribe(usize),
    Epoch,
    Address,
    Others,
}

/// What became known of a sentinel.
#[derive(Debug)]
pub(super) enum Heard {
    /// Which server it thinks the primary; `None` if it does not know the service.
    Says(Option<Vote>),
    /// It knows other sentinels.
    Others,
    /// It has no connection any more, or still none, or does not answer the question.
    Fails(Failure),
}

impl Watcher {
    pub(super) fn new(settings: &Settings, connector: Connector, service: &Arc<str>, is_given: bool) -> Self {
        let (connector, outage) = (Arc::new(connector), Outage::default());
        Self {
            state: State::Connecting(connector.open(Purpose::Topology, &outage, Instant::ZERO)),
            connector,
            service: Arc::clone(service),
            outage,
            is_given,
            others: Vec::new(),
            silence: settings.command_timeout,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether the URL names it.
    pub(super) const fn is_given(&self) -> bool {
        self.is_given
    }

    /// The other sentinels that it knows.
    pub(super) fn others(&self) -> &[Address] {
        &self.others
    }

    /// Asks, if there is a connection; a new one asks by itself.
    pub(super) fn ask(&mut self, now: Instant) {
        if let State::Open(open) = &mut self.state {
            open.ask(&self.service, now);
        }
    }

    /// Moves the connection on.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, is_in_use: bool, heard: &mut Vec<Heard>) {
        loop {
            let failure = match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(wire)) => {
                        let mut open = Box::new(Open::new(
                            &self.connector,
                            wire,
                            now,
                            up_to(&self.connector.world, LOOK),
                        ));
                        open.subscribe();
                        open.ask(&self.service, now);
                        self.state = State::Open(open);
                        continue;
                    }
                    Poll::Ready(Err(failure)) => {
                        self.outage.failed(now);
                        failure
                    }
                },
                State::Open(open) => {
                    if is_in_use && now >= open.look_due {
                        open.ask(&self.service, now);
                    }
                    match open.poll(context, now, &self.service, &mut self.others, heard) {
                        Ok(()) if open.is_silent(now, self.silence) => {
                            self.outage.began(open.since, now);
                            Failure::unavailable(format!("no answer for {:?}", self.silence))
                        }
                        Ok(()) => return,
                        Err(failure) => {
                            self.outage.began(open.since, now);
                            failure
                        }
                    }
                }
            };
            heard.push(Heard::Fails(failure));
            self.state = State::Connecting(self.connector.open(Purpose::Topology, &self.outage, now));
        }
    }

    pub(super) fn poll_timeout(&self, is_in_use: bool) -> Option<Instant> {
        match &self.state {
            State::Connecting(_) => None,
            State::Open(open) if !open.asked.is_empty() => Some(open.asked_at + self.silence),
            State::Open(open) => Some(open.look_due).filter(|_| is_in_use),
        }
    }
}

impl Open {
    fn new(connector: &Arc<Connector>, wire: Wire, now: Instant, look_in: Duration) -> Self {
        Self {
            connector: Arc::clone(connector),
            wire,
            since: now,
            asked: VecDeque::new(),
            asked_at: now,
            is_outdated: false,
            epoch: 0,
            look_due: now + look_in,
        }
    }

    fn subscribe(&mut self) {
        let command = [b"SUBSCRIBE".as_slice()].into_iter().chain(EVENTS);
        let parts: Vec<&[u8]> = command.collect();
        self.question(Question::Subscribe(EVENTS.len()), &parts);
        self.wire.write();
    }

    /// Asks, or asks again once there is an answer.
    fn ask(&mut self, service: &str, now: Instant) {
        if self.asked.iter().any(|asked| *asked == Question::Address) {
            self.is_outdated = true;
            return;
        }
        let service = service.as_bytes();
        self.is_outdated = false;
        self.asked_at = now;
        self.look_due = now + LOOK;
        self.question(Question::Epoch, &[b"SENTINEL", b"MASTER", service]);
        self.question(Question::Address, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service]);
        self.question(Question::Others, &[b"SENTINEL", b"SENTINELS", service]);
        self.wire.write();
    }

    fn question(&mut self, question: Question, parts: &[&[u8]]) {
        resp::command(self.wire.out(), parts.iter().copied());
        self.asked.push_back(question);
    }

    fn is_silent(&self, now: Instant, silence: Duration) -> bool {
        !self.asked.is_empty() && now >= self.asked_at + silence
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        service: &str,
        others: &mut Vec<Address>,
        heard: &mut Vec<Heard>,
    ) -> Result<(), Failure> {
        while let Poll::Ready(frame) = self.wire.poll(context) {
            match frame? {
                Frame::Push(parts) => self.pushed(&parts, service, now),
                Frame::Reply(reply) => self.answered(reply, others, heard)?,
            }
            if self.is_outdated {
                self.ask(service, now);
            }
        }
        Ok(())
    }

    fn pushed(&mut self, parts: &[Reply], service: &str, now: Instant) {
        match (parts.first().and_then(resp::text), parts.get(2).and_then(resp::text)) {
            (Some("subscribe"), _) => {
                if let Some(Question::Subscribe(left)) = self.asked.front_mut() {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.asked.pop_front();
                    }
                }
            }
            (Some("message"), Some(event)) if answer::is_about(event, service) => self.ask(service, now),
            _ => {}
        }
    }

    fn answered(
        &mut self,
        reply: Result<Reply, ServerError>,
        others: &mut Vec<Address>,
        heard: &mut Vec<Heard>,
    ) -> Result<(), Failure> {
        match (self.asked.pop_front(), reply) {
            // What its user may not do, it goes without: then it is asked now and then only, or
            // has no other sentinels, or the answers of all count alike.
            (Some(Question::Subscribe(_)), _) | (Some(Question::Others), Err(_)) => {}
            (Some(Question::Epoch), reply) => self.epoch = reply.ok().as_ref().map_or(0, answer::epoch),
            (Some(Question::Address), Ok(reply)) => match answer::vote(&reply, self.epoch) {
                Ok(vote) => heard.push(Heard::Says(vote)),
                Err(failure) => heard.push(Heard::Fails(failure)),
            },
            (Some(Question::Address), Err(error)) => heard.push(Heard::Fails(self.connector.refused(error))),
            (Some(Question::Others), Ok(reply)) => {
                *others = answer::others(&reply);
                heard.push(Heard::Others);
            }
            (None, _) => return Err(Failure::unavailable("the sentinel answers what was not asked")),
        }
        Ok(())
    }
}
