//! The connection to one sentinel: listens for switches of the primary, and asks which server the primary is.
//!
//! ```text
//!   Connecting ──► Open: subscribes, asks ── a switch, a round, or 10 s in use: asks again
//!        ▲                    │
//!        └── pause ◄──────────┘ closed, or silent
//! ```

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::{Instant, Reply, brief};
use steadlock_resp::replies::{Frame, ServerError};
use steadlock_resp::{commands, replies};

use super::answer::{self, Answer, OtherSentinel};
use crate::settings::Settings;
use crate::transport::redis::attempt::Purpose;
use crate::transport::redis::connect::{Boxed, Connector};
use crate::transport::redis::failure::Failure;
use crate::transport::redis::outage::{Outage, random_up_to};
use crate::transport::redis::wire::Wire;

/// The events about a switch of the primary. Every sentinel sends the first one when it learns of the switch. The
/// sentinel that promotes a replica sends the second one earlier.
const EVENTS: [&[u8]; 2] = [b"+switch-master", b"+promoted-slave"];
/// The number of frames of one sentinel that are read before other tasks get their turn.
const FRAMES_PER_POLL: usize = 64;
/// The interval at which a sentinel is asked while the client is in use, even if the sentinel sends no events.
const ASK_INTERVAL: Duration = Duration::from_secs(10);

/// The source of a sentinel's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The URL names the sentinel.
    Url,
    /// Another sentinel names it.
    Announced,
}

/// The connection to one sentinel, and the sentinel's replies so far.
pub(super) struct Watcher {
    connector: Arc<Connector>,
    service: Arc<str>,
    state: State,
    outage: Outage,
    origin: Origin,
    /// Whether the last attempt to connect failed.
    is_down: bool,
    /// The sentinel's replies so far.
    last_replies: LastReplies,
    /// The time without a reply after which the connection is given up.
    silence_limit: Duration,
}

enum State {
    Connecting(Boxed<Result<Wire, Failure>>),
    Open(Box<Open>),
}

/// The replies of a sentinel.
#[derive(Default)]
struct LastReplies {
    /// The sentinel's id.
    id: Option<Arc<str>>,
    /// The other sentinels that it knows.
    others: Vec<OtherSentinel>,
    /// The last answer.
    answer: Option<Answer>,
}

struct Open {
    connector: Arc<Connector>,
    wire: Wire,
    since: Instant,
    /// Questions without a reply, oldest first.
    pending: VecDeque<Question>,
    last_asked: Instant,
    /// Whether the sentinel has answered, even with an error.
    has_answered: bool,
    /// Whether the sentinel is to be asked again, because an event or a new round came while the questions were
    /// pending.
    is_outdated: bool,
    /// The epoch from the reply to `Question::Epoch`, kept until the reply to `Question::Address` completes the answer.
    epoch: u64,
    ask_due: Instant,
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
pub(super) enum WatcherEvent {
    /// The sentinel has named a primary, or does not know the service.
    Replied(WatcherReply),
    /// The sentinel has named other sentinels.
    OthersListed,
    /// An attempt to connect failed, or the sentinel gave no usable answer.
    Failed(Failure),
    /// The connection was lost after the sentinel had answered.
    Lost,
}

/// The answer of a sentinel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WatcherReply {
    /// `None` if the sentinel does not know the service.
    pub(super) answer: Option<Answer>,
    /// Whether the answer differs from the previous one, or is the first.
    pub(super) is_changed: bool,
    /// Whether the sentinel is asked again, because an event or a new round came while the questions were pending.
    pub(super) is_outdated: bool,
}

impl Watcher {
    pub(super) fn new(settings: &Settings, connector: Connector, service: &Arc<str>, origin: Origin) -> Self {
        let (connector, outage) = (Arc::new(connector), Outage::default());
        Self {
            state: State::Connecting(connector.open(Purpose::Topology, &outage, Instant::ZERO)),
            connector,
            service: Arc::clone(service),
            outage,
            origin,
            is_down: false,
            last_replies: LastReplies::default(),
            silence_limit: settings.command_timeout,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    pub(super) const fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether the URL names this sentinel.
    pub(super) const fn is_configured(&self) -> bool {
        matches!(self.origin, Origin::Url)
    }

    /// Whether a round of questions (see `Round`) counts this sentinel as down from its start, and waits only briefly
    /// for it. Never for a sentinel of the URL, which is tried again within 500 ms. A sentinel that others name may be
    /// tried only after 10 s.
    pub(super) const fn is_down(&self) -> bool {
        self.is_down && !self.is_configured()
    }

    /// Returns the sentinel's id, once it is known.
    pub(super) fn id(&self) -> Option<&str> {
        self.last_replies.id.as_deref()
    }

    /// Returns the other sentinels that this one has named.
    pub(super) fn others(&self) -> &[OtherSentinel] {
        &self.last_replies.others
    }

    /// Asks the sentinel the questions, unless there is no connection: a new connection asks by itself.
    pub(super) fn ask(&mut self, now: Instant) {
        if let State::Open(open) = &mut self.state {
            open.ask(&self.service, now);
        }
    }

    /// Advances the connection.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        is_in_use: bool,
        events: &mut Vec<WatcherEvent>,
    ) {
        loop {
            let end = match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().poll(context) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(wire)) => {
                        let mut open = Box::new(Open::new(
                            &self.connector,
                            wire,
                            now,
                            random_up_to(&self.connector.world, ASK_INTERVAL),
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
                        WatcherEvent::Failed(failure)
                    }
                },
                State::Open(open) => {
                    if is_in_use && now >= open.ask_due {
                        open.ask(&self.service, now);
                    }
                    let end = match open.poll(context, now, &self.service, &mut self.last_replies, events) {
                        Ok(()) if open.is_silent(now, self.silence_limit) => WatcherEvent::Failed(
                            Failure::unavailable(format!("no answer for {}", brief(self.silence_limit))),
                        ),
                        Ok(()) => return,
                        // The sentinel may be back at once, so a round still waits for it.
                        Err(_) if open.has_answered => WatcherEvent::Lost,
                        Err(failure) => WatcherEvent::Failed(failure),
                    };
                    self.outage.began(open.since, now);
                    end
                }
            };
            events.push(end);
            self.state = State::Connecting(self.connector.open(Purpose::Topology, &self.outage, now));
        }
    }

    pub(super) fn poll_timeout(&self, is_in_use: bool) -> Option<Instant> {
        match &self.state {
            State::Connecting(_) => None,
            State::Open(open) if !open.pending.is_empty() => Some(open.last_asked + self.silence_limit),
            State::Open(open) => Some(open.ask_due).filter(|_| is_in_use),
        }
    }
}

impl Open {
    fn new(connector: &Arc<Connector>, wire: Wire, now: Instant, first_ask_in: Duration) -> Self {
        Self {
            connector: Arc::clone(connector),
            wire,
            since: now,
            pending: VecDeque::new(),
            last_asked: now,
            has_answered: false,
            is_outdated: false,
            epoch: 0,
            ask_due: now + first_ask_in,
        }
    }

    fn subscribe(&mut self) {
        let command = [b"SUBSCRIBE".as_slice()].into_iter().chain(EVENTS);
        let parts: Vec<&[u8]> = command.collect();
        self.send_question(Question::Subscribe(EVENTS.len()), &parts);
        self.wire.write();
    }

    /// Asks the questions. If they are pending, asks them again after the replies.
    fn ask(&mut self, service: &str, now: Instant) {
        if self.pending.iter().any(|pending| *pending == Question::Address) {
            self.is_outdated = true;
            return;
        }
        let service = service.as_bytes();
        self.is_outdated = false;
        self.last_asked = now;
        self.ask_due = now + ASK_INTERVAL;
        self.send_question(Question::Id, &[b"SENTINEL", b"MYID"]);
        self.send_question(Question::Epoch, &[b"SENTINEL", b"MASTER", service]);
        self.send_question(Question::Others, &[b"SENTINEL", b"SENTINELS", service]);
        self.send_question(Question::Address, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service]);
        self.wire.write();
    }

    fn send_question(&mut self, question: Question, parts: &[&[u8]]) {
        commands::write(self.wire.out(), parts.iter().copied());
        self.pending.push_back(question);
    }

    fn is_silent(&self, now: Instant, limit: Duration) -> bool {
        !self.pending.is_empty() && now >= self.last_asked + limit
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        service: &str,
        last_replies: &mut LastReplies,
        events: &mut Vec<WatcherEvent>,
    ) -> Result<(), Failure> {
        for _ in 0..FRAMES_PER_POLL {
            let Poll::Ready(frame) = self.wire.poll(context) else {
                return Ok(());
            };
            match frame? {
                Frame::Push(parts) => self.on_push(&parts, service, now),
                Frame::Reply(reply) => self.on_reply(reply, last_replies, events)?,
            }
            if self.is_outdated {
                self.ask(service, now);
            }
        }
        // Lets renewals be sent in between.
        context.waker().wake_by_ref();
        Ok(())
    }

    fn on_push(&mut self, parts: &[Reply], service: &str, now: Instant) {
        match (
            parts.first().and_then(replies::text),
            parts.get(2).and_then(replies::text),
        ) {
            (Some("subscribe"), _) => {
                if let Some(Question::Subscribe(left)) = self.pending.front_mut() {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.pending.pop_front();
                    }
                }
            }
            (Some("message"), Some(event)) if answer::is_about(event, service) => self.ask(service, now),
            _ => {}
        }
    }

    fn on_reply(
        &mut self,
        reply: Result<Reply, ServerError>,
        last_replies: &mut LastReplies,
        events: &mut Vec<WatcherEvent>,
    ) -> Result<(), Failure> {
        let pending = self.pending.pop_front();
        self.has_answered |= pending == Some(Question::Address);
        match (pending, reply) {
            // A missing right is no failure. Without events the sentinel is only asked at intervals. Without ids each
            // address counts as a sentinel of its own. Without the reply to `SENTINEL SENTINELS` the sentinel names no
            // others. Without epochs all answers count as equally new.
            (Some(Question::Subscribe(_)), _) | (Some(Question::Others), Err(_)) => {}
            (Some(Question::Id), reply) => last_replies.id = reply.ok().as_ref().and_then(answer::id),
            (Some(Question::Epoch), reply) => self.epoch = reply.ok().as_ref().map_or(0, answer::epoch),
            (Some(Question::Others), Ok(reply)) => {
                last_replies.others = answer::others(&reply);
                events.push(WatcherEvent::OthersListed);
            }
            (Some(Question::Address), Ok(reply)) => match answer::parse(&reply, self.epoch) {
                Ok(answer) => {
                    let before = mem::replace(&mut last_replies.answer, answer.clone());
                    events.push(WatcherEvent::Replied(WatcherReply {
                        is_changed: answer != before,
                        is_outdated: self.is_outdated,
                        answer,
                    }));
                }
                Err(failure) => events.push(WatcherEvent::Failed(failure)),
            },
            (Some(Question::Address), Err(error)) => events.push(WatcherEvent::Failed(self.connector.refusal(error))),
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
    use crate::transport::redis::server_kind::ServerKind;

    const SWITCH_EVENT: &[u8] = b">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$4\r\nshop\r\n";
    /// More bytes than the watcher may read in this test.
    const TOO_MANY: usize = 1_000 * SWITCH_EVENT.len();

    /// A sentinel that sends events without end, and the number of bytes read.
    struct Endless(usize);

    impl AsyncRead for Endless {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            assert!(self.0 < TOO_MANY, "the stream is read without end");
            buffer.put_slice(SWITCH_EVENT);
            self.0 += SWITCH_EVENT.len();
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
    async fn an_endless_stream_of_events_does_not_starve_other_tasks_and_is_given_up() {
        let settings = Settings::check(Options {
            url: Some("redis://127.0.0.1:1".into()),
            ..Options::default()
        })
        .unwrap();
        let target = Target::parse("redis://127.0.0.1:1", &TlsOptions::default()).unwrap();
        let connector = Connector::new(&settings, &target, ServerKind::Sentinel, None);
        let mut watcher = Watcher::new(&settings, connector, &"shop".into(), Origin::Url);
        let wire = Wire::new(Endless(0));
        let mut open = Open::new(&watcher.connector, wire, Instant::ZERO, ASK_INTERVAL);
        open.ask(&watcher.service, Instant::ZERO);
        watcher.state = State::Open(Box::new(open));
        let wake_counter = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&wake_counter));
        let (mut context, mut events) = (Context::from_waker(&waker), Vec::new());
        for turn in 1..=3 {
            watcher.poll(&mut context, Instant::ZERO, true, &mut events);
            assert_eq!(wake_counter.wake_count(), turn, "the task is woken for another turn");
            assert!(events.is_empty());
        }
        let late = Instant::ZERO + watcher.silence_limit;
        watcher.poll(&mut context, late, true, &mut events);
        assert!(matches!(events[..], [WatcherEvent::Failed(_)]), "{events:?}");
    }
}
