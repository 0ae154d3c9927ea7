//! A session whose server answers every call at once, and grants everything.

mod seeded;

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Call, ClientId, Config, Context, Event, Grant, Instant, Kind, LeaseTerms, LockName, NodeId,
    OnUnavailable, Outcome, Reply, Session, Ticket, Transmit,
};

use self::seeded::Seeded;

pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) now: Instant,
    /// Calls that are not answered yet.
    pub(crate) calls: Vec<Call>,
    /// The largest number of entries that the session had.
    pub(crate) most: usize,
    pub(crate) lost: usize,
}

impl Client {
    pub(crate) fn new() -> Self {
        let mut seed = Seeded(0x9E37_79B9);
        let config = Config::new(ClientId::random(&mut seed));
        let mut session = Session::new(config, Box::new(seed));
        let now = Instant::ZERO + Duration::from_secs(1_000);
        session.on_connected(NodeId::default(), now);
        Self {
            session,
            now,
            calls: Vec::new(),
            most: 0,
            lost: 0,
        }
    }

    /// Collects all calls and events. Returns the outcome of the ticket, if one of the events has it.
    pub(crate) fn drain(&mut self, wanted: Option<Ticket>) -> Option<Outcome> {
        while let Some(transmit) = self.session.poll_transmit() {
            if let Transmit::Call(call) = transmit {
                self.session.on_sent(call.id, self.now);
                self.calls.push(call);
            }
        }
        let mut found = None;
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Completed { ticket, outcome } if Some(ticket) == wanted => found = Some(outcome),
                Event::Lost { .. } => self.lost += 1,
                _ => {}
            }
        }
        self.most = self.most.max(self.session.len());
        found
    }

    /// Answers all calls. Returns the outcome of the ticket, if it is done by then.
    pub(crate) fn answer(&mut self, wanted: Option<Ticket>) -> Option<Outcome> {
        let mut found = self.drain(wanted);
        while let Some(call) = self.calls.pop() {
            let yes = if call.script.file().contains("acquire") {
                vec![Reply::Int(1), Reply::Bytes(Vec::new())]
            } else {
                vec![Reply::Int(1)]
            };
            self.session.on_reply(call.id, Ok(Reply::Array(yes)), self.now);
            found = self.drain(wanted).or(found);
        }
        found
    }

    pub(crate) fn hold(&mut self, request: AcquireRequest) -> Grant {
        let ticket = self.session.acquire(request, self.now);
        match self.answer(Some(ticket)) {
            Some(Outcome::Granted(grant)) => grant,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.session.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.session.on_timeout(self.now);
            self.answer(None);
        }
        self.now = end;
    }
}

pub(crate) fn wants(name: &str, fixed_ms: Option<u64>) -> AcquireRequest {
    AcquireRequest {
        run: None,
        kind: Kind::Lock,
        name: LockName::parse(name).unwrap(),
        context: Some(Context::from_u64(1)),
        within: None,
        wait: None,
        lease: fixed_ms.map_or(LeaseTerms::CLIENT, |millis| {
            LeaseTerms::fixed(Duration::from_millis(millis)).unwrap()
        }),
        max_hold: None,
        fencing: false,
        on_unavailable: OnUnavailable::Fail,
        blocked: Vec::new(),
    }
}
