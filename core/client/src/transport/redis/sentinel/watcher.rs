//! The connection to one sentinel: listens for switches of the primary, and asks which server the primary is.
//!
//! ```text
//!   Connecting ──► Open: subscribes, asks ── a switch, or a request: asks again
//!        ▲                    │
//!        └── pause ◄──────────┘ closed, or silent
//! ```

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Instant, Reply, brief};

use super::answer::{self, Other, Vote};
use crate::settings::Settings;
use crate::transport::redis::connect::{Boxed, Connector};
use crate::transport::redis::failure::Failure;
use crate::transport::redis::outage::{Outage, up_to};
use crate::transport::redis::purpose::Purpose;
use crate::transport::redis::resp::{self, Frame, ServerError};
use crate::transport::redis::wire::Wire;

/// The events about a switch of the primary. Every sentinel sends the first one when it learns of the switch. The
/// sentinel that promotes a replica sends the second one earlier.
const EVENTS: [&[u8]; 2] = [b"+switch-master", b"+promoted-slave"];
/// The number of frames of one sentinel that are read before other tasks get their turn.
const AT_ONCE: usize = 64;
/// The interval at which a sentinel is asked while the client is in use, whatever events it sends.
const LOOK: Duration = Duration::from_secs(10);

/// The connection to one sentinel, and the sentinel's replies so far.
pub(super) struct Watcher {
    connector: Arc<Connector>,
    service: Arc<str>,
    state: State,
    outage: Outage,
    is_given: bool,
    /// Whether the last attempt to connect failed.
    is_down: bool,
    /// The sentinel's replies so far.
    told: Told,
    /// The time without a reply after which the connection is given up.
    silence: Duration,
}

enum State {
    Connecting(Boxed<Result<Wire, Failure>>),
    Open(Box<Open>),
}

/// The replies of a sentinel.
#[derive(Default)]
struct Told {
    /// The sentinel's id.
    id: Option<Arc<str>>,
    /// The other sentinels that it knows.
    others: Vec<Other>,
    /// The last answer.
    vote: Option<Vote>,
}

struct Open {
    connector: Arc<Connector>,
    wire: Wire,
    since: Instant,
    /// Questions without a reply, oldest first.
    asked: VecDeque<Question>,
    asked_at: Instant,
    /// Whether the sentinel has answered, well or not.
    has_answered: bool,
    /// Whether something has happened since the question was sent.
    is_outdated: bool,
    /// The epoch of the answer that arrives in parts.
    epoch: u64,
    look_due: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// A subscription. This many events are not confirmed yet.
    Subscribe(usize),
    Id,
    Epoch,
    Others,
    /// The last question. Its reply completes the answer.
    Address,
}

/// An event of a sentinel's connection.
#[derive(Debug)]
pub(super) enum Heard {
    /// The sentinel has named a primary, or does not know the service.
    Says(Said),
    /// The sentinel has named other sentinels.
    Others,
    /// An attempt to connect failed, or the sentinel does not answer the question.
    Fails(Failure),
    /// The connection was lost.
    Lost,
}

/// The answer of a sentinel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// `None` if the sentinel does not know the service.
    pub(super) vote: Option<Vote>,
    /// Whether the answer differs from the previous one, or is the first.
    pub(super) is_changed: bool,
    /// Whether the sentinel is asked again, because something has happened since the question was sent.
    pub(super) is_outdated: bool,
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
            is_down: false,
            told: Told::default(),
            silence: settings.command_timeout,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether the URL names this sentinel.
    pub(super) const fn is_given(&self) -> bool {
        self.is_given
    }

    /// Whether a round need not wait for this sentinel. A sentinel of the URL is never skipped, because it is tried
    /// again soon; another one may be tried much later.
    pub(super) const fn is_down(&self) -> bool {
        self.is_down && !self.is_given
    }

    /// Returns the sentinel's id, once it is known.
    pub(super) fn id(&self) -> Option<&str> {
        self.told.id.as_deref()
    }

    /// Returns the other sentinels that it knows.
    pub(super) fn others(&self) -> &[Other] {
        &self.told.others
    }

    /// Asks the sentinel if it is connected. A new connection asks by itself.
    pub(super) fn ask(&mut self, now: Instant) {
        if let State::Open(open) = &mut self.state {
            open.ask(&self.service, now);
        }
    }

    /// Advances the connection.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, is_in_use: bool, heard: &mut Vec<Heard>) {
        loop {
            let end = match &mut self.state {
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
                        self.is_down = false;
                        continue;
                    }
                    Poll::Ready(Err(failure)) => {
                        self.outage.failed(now);
                        self.is_down = true;
                        Heard::Fails(failure)
                    }
                },
                State::Open(open) => {
                    if is_in_use && now >= open.look_due {
                        open.ask(&self.service, now);
                    }
                    let end = match open.poll(context, now, &self.service, &mut self.told, heard) {
                        Ok(()) if open.is_silent(now, self.silence) => {
                            Heard::Fails(Failure::unavailable(format!("no answer for {}", brief(self.silence))))
                        }
                        Ok(()) => return,
                        // The sentinel may be back at once.
                        Err(_) if open.has_answered => Heard::Lost,
                        Err(failure) => Heard::Fails(failure),
                    };
                    self.outage.began(open.since, now);
                    end
                }
            };
            heard.push(end);
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
            has_answered: false,
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

    /// Asks the questions. If they are being answered, asks them again afterwards.
    fn ask(&mut self, service: &str, now: Instant) {
        if self.asked.iter().any(|asked| *asked == Question::Address) {
            self.is_outdated = true;
            return;
        }
        let service = service.as_bytes();
        self.is_outdated = false;
        self.asked_at = now;
        self.look_due = now + LOOK;
        self.question(Question::Id, &[b"SENTINEL", b"MYID"]);
        self.question(Question::Epoch, &[b"SENTINEL", b"MASTER", service]);
        self.question(Question::Others, &[b"SENTINEL", b"SENTINELS", service]);
        self.question(Question::Address, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service]);
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
        told: &mut Told,
        heard: &mut Vec<Heard>,
    ) -> Result<(), Failure> {
        for _ in 0..AT_ONCE {
            let Poll::Ready(frame) = self.wire.poll(context) else {
                return Ok(());
            };
            match frame? {
                Frame::Push(parts) => self.pushed(&parts, service, now),
                Frame::Reply(reply) => self.answered(reply, told, heard)?,
            }
            if self.is_outdated {
                self.ask(service, now);
            }
        }
        // Lets renewals be sent in between.
        context.waker().wake_by_ref();
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
        told: &mut Told,
        heard: &mut Vec<Heard>,
    ) -> Result<(), Failure> {
        let asked = self.asked.pop_front();
        self.has_answered |= asked == Some(Question::Address);
        match (asked, reply) {
            // A missing right is no failure. Without events the sentinel is only asked at intervals. Without ids each
            // address of a sentinel counts. Without `SENTINELS` it names no others. Without epochs all answers count as
            // equally new.
            (Some(Question::Subscribe(_)), _) | (Some(Question::Others), Err(_)) => {}
            (Some(Question::Id), reply) => told.id = reply.ok().as_ref().and_then(answer::id),
            (Some(Question::Epoch), reply) => self.epoch = reply.ok().as_ref().map_or(0, answer::epoch),
            (Some(Question::Others), Ok(reply)) => {
                told.others = answer::others(&reply);
                heard.push(Heard::Others);
            }
            (Some(Question::Address), Ok(reply)) => match answer::vote(&reply, self.epoch) {
                Ok(vote) => {
                    let before = mem::replace(&mut told.vote, vote.clone());
                    heard.push(Heard::Says(Said {
                        is_changed: vote != before,
                        is_outdated: self.is_outdated,
                        vote,
                    }));
                }
                Err(failure) => heard.push(Heard::Fails(failure)),
            },
            (Some(Question::Address), Err(error)) => heard.push(Heard::Fails(self.connector.refused(error))),
            (None, _) => return Err(Failure::unavailable("the sentinel answers what was not asked")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::Waker;

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;
    use crate::port::counting::CountingWaker;
    use crate::settings::Options;
    use crate::target::Target;
    use crate::tls::TlsOptions;
    use crate::transport::redis::membership::Membership;

    const SAYS: &[u8] = b">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$4\r\nshop\r\n";
    /// More bytes than a test can wait for.
    const TOO_MANY: usize = 1_000 * SAYS.len();

    /// A sentinel that sends events without end, and the number of bytes read.
    struct Endless(usize);

    impl AsyncRead for Endless {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            assert!(self.0 < TOO_MANY, "it is read without end");
            buffer.put_slice(SAYS);
            self.0 += SAYS.len();
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_sentinel_that_never_stops_leaves_others_their_turn_and_is_given_up() {
        let settings = Settings::check(Options {
            url: Some("redis://127.0.0.1:1".into()),
            ..Options::default()
        })
        .unwrap();
        let target = Target::parse("redis://127.0.0.1:1", &TlsOptions::default()).unwrap();
        let connector = Connector::new(&settings, &target, Membership::Sentinel, None);
        let mut watcher = Watcher::new(&settings, connector, &"shop".into(), true);
        let wire = Wire::new(Endless(0));
        let mut open = Open::new(&watcher.connector, wire, Instant::ZERO, LOOK);
        open.ask(&watcher.service, Instant::ZERO);
        watcher.state = State::Open(Box::new(open));
        let woken = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (mut context, mut heard) = (Context::from_waker(&waker), Vec::new());
        for turn in 1..=3 {
            watcher.poll(&mut context, Instant::ZERO, true, &mut heard);
            assert_eq!(woken.wake_count(), turn, "it has another turn");
            assert!(heard.is_empty());
        }
        let late = Instant::ZERO + watcher.silence;
        watcher.poll(&mut context, late, true, &mut heard);
        assert!(matches!(heard[..], [Heard::Fails(_)]), "{heard:?}");
    }
}
