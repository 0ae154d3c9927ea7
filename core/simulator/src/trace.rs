//! The events of a history, line by line, and the hash of all lines.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use steadlock_protocol::{CallId, Instant, Kind, Lane, LeaseId, LostReason, ReleaseOutcome, Script, Ticket};

use crate::fault::Fault;
use crate::fnv::Fnv;
use crate::kinds::Terms;
use crate::time::Micros;

/// The number of lines that the report of a violation shows.
const SHOWN: usize = 40;

/// An event. Clients, tasks, nodes and owners are numbers.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Line {
    Opened {
        client: usize,
        node: usize,
        lane: Lane,
    },
    OpenedForMessages {
        client: usize,
        node: usize,
    },
    Closed {
        client: usize,
        node: usize,
    },
    Acquires {
        client: usize,
        task: usize,
        ticket: Ticket,
        wait: Option<Micros>,
        lease: Option<Micros>,
        within: bool,
        name: usize,
        kind: Kind,
    },
    /// Another lock that is requested together with the first.
    Wants {
        client: usize,
        ticket: Ticket,
        name: usize,
        kind: Kind,
    },
    ReleasesMember {
        client: usize,
        task: usize,
        ticket: Ticket,
    },
    Releases {
        client: usize,
        task: usize,
        ticket: Ticket,
        lease: LeaseId,
    },
    /// The terms that the caller of a job asks for.
    WantsRun {
        client: usize,
        ticket: Ticket,
        terms: Terms,
    },
    EndsRun {
        client: usize,
        task: usize,
        ticket: Ticket,
        lease: LeaseId,
        succeeded: bool,
        at_least: Option<Micros>,
    },
    Extends {
        client: usize,
        task: usize,
        ticket: Ticket,
        lease: LeaseId,
    },
    Inspects {
        client: usize,
        task: usize,
        ticket: Ticket,
    },
    Forces {
        client: usize,
        task: usize,
        ticket: Ticket,
        name: usize,
        kind: Kind,
    },
    SetsLimit {
        client: usize,
        task: usize,
        ticket: Ticket,
        name: usize,
        limit: u32,
    },
    Forced {
        client: usize,
        ticket: Ticket,
        is_done: bool,
    },
    Cancels {
        client: usize,
        task: usize,
        ticket: Ticket,
    },
    Sends {
        client: usize,
        node: usize,
        call: CallId,
        script: Script,
        owner: usize,
    },
    Runs {
        client: usize,
        node: usize,
        call: CallId,
        script: Script,
        owner: usize,
        is_yes: bool,
    },
    Refuses {
        client: usize,
        node: usize,
        call: CallId,
        code: &'static str,
    },
    ReceivesMessage {
        client: usize,
        node: usize,
    },
    Subscribed {
        client: usize,
        node: usize,
    },
    Granted {
        client: usize,
        ticket: Ticket,
        lease: LeaseId,
        token: Option<u64>,
        deadline: Instant,
        levels: u32,
    },
    NotGranted {
        client: usize,
        ticket: Ticket,
    },
    Failed {
        client: usize,
        ticket: Ticket,
        kind: steadlock_protocol::ErrorKind,
    },
    Released {
        client: usize,
        ticket: Ticket,
        how: &'static str,
    },
    Extended {
        client: usize,
        ticket: Ticket,
        deadline: Instant,
    },
    Inspected {
        client: usize,
        ticket: Ticket,
        held: bool,
    },
    Renewed {
        client: usize,
        lease: LeaseId,
        deadline: Instant,
    },
    Lost {
        client: usize,
        lease: LeaseId,
        why: &'static str,
    },
    Writes {
        client: usize,
        token: u64,
        accepted: bool,
    },
    Faulty {
        fault: Fault,
        target: usize,
    },
    Over {
        fault: Fault,
        target: usize,
    },
    FaultsEnd,
    TasksEnd,
    AllClosed,
    AllExpired,
}

impl Line {
    pub(crate) fn released(client: usize, ticket: Ticket, how: ReleaseOutcome) -> Self {
        let how = how.as_str();
        Self::Released { client, ticket, how }
    }

    pub(crate) fn lost(client: usize, lease: LeaseId, why: LostReason) -> Self {
        let why = why.as_str();
        Self::Lost { client, lease, why }
    }
}

/// The lines of a history.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: Fnv,
    last: VecDeque<(Micros, Line)>,
    print: bool,
}

impl Trace {
    /// Starts an empty trace. With `print` each line is printed at once.
    pub(crate) fn new(print: bool) -> Self {
        Self {
            hash: Fnv::default(),
            last: VecDeque::with_capacity(SHOWN),
            print,
        }
    }

    pub(crate) fn push(&mut self, time: Micros, line: Line) {
        (time, line).hash(&mut self.hash);
        if self.print {
            println!("{}", Shown(time, &line));
        }
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back((time, line));
    }

    /// Returns the hash, which is the same for every run of one seed.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// Returns the last lines, as text.
    pub(crate) fn last(&self) -> Vec<String> {
        self.last
            .iter()
            .map(|(time, line)| Shown(*time, line).to_string())
            .collect()
    }
}

/// A time, in the form in which lines begin.
pub(crate) struct At(pub(crate) Micros);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

struct Shown<'a>(Micros, &'a Line);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", At(self.0), self.1)
    }
}
