//! The cells of the table: an operation on a lock of one kind, and the result for its caller while an error lasts.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use steadlock::{Client, Error, ErrorKind, Lease, Lock, LostReason, ReleaseOutcome};

use crate::support::{eventually, version};
use crate::trouble::{Trouble, TroubledServer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Lock,
    Mutex,
    Fair,
    Read,
    Write,
    Semaphore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Connect,
    /// A single attempt for a free lock.
    Acquire,
    /// A wait for a free lock.
    Wait,
    /// A wait for a lock that another owner holds.
    Behind,
    Renew,
    Release,
    Extend,
    Inspect,
    Force,
    SetLimit,
}

/// The result of an operation, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// No error.
    Works,
    /// The lease is not renewed but stays valid. It is renewed once the error is over.
    Kept,
    /// The lease is lost as `stolen`.
    Lost,
    /// `LockTimeout` after the wait, with the holder of the lock.
    Held,
    /// An error after the wait or after the response timeout.
    Unavailable,
    /// An immediate error.
    Misconfigured,
    /// An immediate error.
    LockLost,
    /// The release is `unknown`, and is retried in the background.
    Unknown,
    /// The release is `stolen`.
    Stolen,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Lock,
        Self::Mutex,
        Self::Fair,
        Self::Read,
        Self::Write,
        Self::Semaphore,
    ];

    fn lock(self, client: &Client, name: &str) -> Lock {
        match self {
            Self::Lock => client.lock(name),
            Self::Mutex => client.mutex(name),
            Self::Fair => client.fair_lock(name),
            Self::Read => client.read_write_lock(name).read,
            Self::Write => client.read_write_lock(name).write,
            Self::Semaphore => client.semaphore(name, 2).permits(2),
        }
    }

    /// Returns the kind of lock that blocks an acquisition of this kind.
    fn blocking_kind(self) -> Self {
        match self {
            Self::Read => Self::Write,
            // Behind readers, the mark of a waiting writer creates a key. Behind a writer, that key exists already.
            Self::Write => Self::Read,
            other => other,
        }
    }
}

impl Operation {
    pub const ALL: [Self; 10] = [
        Self::Connect,
        Self::Acquire,
        Self::Wait,
        Self::Behind,
        Self::Renew,
        Self::Release,
        Self::Extend,
        Self::Inspect,
        Self::Force,
        Self::SetLimit,
    ];

    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Connect => &[Kind::Lock],
            Self::SetLimit => &[Kind::Semaphore],
            _ => &Kind::ALL,
        }
    }

    const fn needs_a_lease(self) -> bool {
        !matches!(self, Self::Connect | Self::Acquire | Self::Wait | Self::Behind)
    }

    const fn error_operation(self) -> steadlock::Operation {
        match self {
            Self::Connect => steadlock::Operation::Connect,
            Self::Acquire | Self::Wait | Self::Behind => steadlock::Operation::Acquire,
            Self::Renew | Self::Extend => steadlock::Operation::Extend,
            Self::Release | Self::Force => steadlock::Operation::Release,
            Self::Inspect => steadlock::Operation::Inspect,
            Self::SetLimit => steadlock::Operation::SetLimit,
        }
    }
}

/// The length of the auto-renewed leases. They are renewed at a third of it.
const LEASE: Duration = Duration::from_secs(6);
/// A lease with less time left has missed its renewal.
const OVERDUE: Duration = Duration::from_millis(3_200);
/// A lease with more time left than this after its renewal was due has been renewed.
const RENEWED: Duration = Duration::from_millis(3_500);
const WAIT: Duration = Duration::from_millis(1_300);
/// A server is loading its data for about twice this time.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Longer than the default of the tests, because a server that is loading its data replies late.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(2_500);
const SOON: Duration = Duration::from_secs(10);

/// One operation on one lock.
struct Cell {
    operation: Operation,
    kind: Kind,
    name: String,
    client: Client,
    url: String,
    lease: Option<Lease>,
}

/// Runs every cell of an error's row concurrently while the error lasts.
pub async fn check(trouble: Trouble, word: &str, expected: impl Fn(Operation, Kind) -> OperationResult) {
    let server = TroubledServer::start(trouble);
    let url = server.url(trouble);
    let other = client(&server.redis().url()).await;
    let mut holders = Vec::new();
    let mut cells = Vec::new();
    for operation in Operation::ALL {
        // Each operation has its own client: an error can make a client close a connection that other operations share.
        let client = client(&url).await;
        for kind in operation.kinds() {
            let name = format!("{operation:?}-{kind:?}");
            if operation == Operation::Behind {
                let lock = kind.blocking_kind().lock(&other, &name);
                holders.push(lock.lease(Duration::from_secs(60)).acquire().await.expect("the holder"));
            }
            cells.push(Cell {
                operation,
                kind: *kind,
                lease: match operation.needs_a_lease() {
                    true => Some(kind.lock(&client, &name).acquire().await.expect("a lease")),
                    false => None,
                },
                name,
                client: client.clone(),
                url: url.clone(),
            });
        }
    }
    let names: Vec<String> = cells.iter().map(|cell| cell.name.clone()).collect();

    server.begin(trouble, &names);
    let results = join_all(
        cells
            .iter_mut()
            .map(|cell| cell.run(expected(cell.operation, cell.kind))),
    )
    .await;
    server.end(trouble, &names);

    let mut wrong = Vec::new();
    for (cell, (result, error)) in cells.iter().zip(&results) {
        let expected = expected(cell.operation, cell.kind);
        let message = error
            .as_ref()
            .map_or(String::new(), |error| format!("{:?}: {error}", error.kind()));
        if *result != expected {
            wrong.push(format!("{}: {result:?}, not {expected:?}; {message}", cell.name));
        } else if let Some(flaw) = error.as_ref().and_then(|error| cell.flaw(error, word)) {
            wrong.push(format!("{}: {flaw}; {message}", cell.name));
        }
    }
    assert!(wrong.is_empty(), "{trouble:?}:\n{}", wrong.join("\n"));

    for (cell, (result, _)) in cells.iter().zip(&results) {
        cell.check_recovery(*result, &other).await;
    }
    if !matches!(trouble, Trouble::WrongType | Trouble::OtherForm) {
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    }
    // Bypasses `println`, whose output appears only for failed tests.
    let line = format!(
        "errors, rust, on {}: {trouble:?}, {} cells\n",
        version::of(server.redis()),
        cells.len()
    );
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("stderr");
}

async fn client(url: &str) -> Client {
    let client = Client::builder().url(url).lease(LEASE).command_timeout(COMMAND_TIMEOUT);
    client.connect().await.expect("a client")
}

impl Cell {
    async fn run(&mut self, expected: OperationResult) -> (OperationResult, Option<Error>) {
        let start = Instant::now();
        let result = self.operate(expected).await;
        let (result, error) = match result {
            Ok(result) => (result, None),
            Err(error) => (result_of(&error), Some(error)),
        };
        let waits = matches!(self.operation, Operation::Wait | Operation::Behind);
        if waits && matches!(result, OperationResult::Held | OperationResult::Unavailable) {
            assert!(start.elapsed() >= WAIT, "{}: {error:?}", self.name);
        }
        (result, error)
    }

    async fn operate(&mut self, expected: OperationResult) -> Result<OperationResult, Error> {
        let lock = self.kind.lock(&self.client, &self.name);
        match self.operation {
            Operation::Connect => {
                let client = Client::builder().url(&self.url).connect_timeout(CONNECT_TIMEOUT);
                client.connect().await.map(|_| OperationResult::Works)
            }
            Operation::Acquire => {
                self.lease = lock.try_acquire().await?;
                assert!(self.lease.is_some(), "{}: there is no lease", self.name);
                Ok(OperationResult::Works)
            }
            Operation::Wait | Operation::Behind => {
                self.lease = Some(lock.wait(WAIT).acquire().await?);
                Ok(OperationResult::Works)
            }
            Operation::Renew => Ok(self.renewal(expected).await),
            Operation::Release => Ok(match self.lease.take().expect("a lease").release().await? {
                ReleaseOutcome::Released => OperationResult::Works,
                ReleaseOutcome::Unknown => OperationResult::Unknown,
                ReleaseOutcome::Stolen => OperationResult::Stolen,
                other => panic!("{}: {other:?}", self.name),
            }),
            Operation::Extend => {
                let longer = Some(Duration::from_secs(20));
                self.lease().extend(longer).await.map(|()| OperationResult::Works)
            }
            Operation::Inspect => {
                assert!(lock.is_locked().await?, "{}: it is held", self.name);
                Ok(OperationResult::Works)
            }
            Operation::Force => {
                assert!(self.client.force_release(&lock).await?, "{}: it is held", self.name);
                Ok(OperationResult::Works)
            }
            Operation::SetLimit => {
                assert!(self.client.set_limit(&self.name, 5).await?, "{}: it is held", self.name);
                Ok(OperationResult::Works)
            }
        }
    }

    fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("a lease")
    }

    /// Watches the auto-renewed lease until it is renewed, if that is expected, and otherwise until a renewal is
    /// overdue.
    async fn renewal(&self, expected: OperationResult) -> OperationResult {
        let lease = self.lease();
        let overdue = Instant::now() + lease.remaining().saturating_sub(OVERDUE);
        let mut before = lease.remaining();
        loop {
            let is_overdue = Instant::now() >= overdue;
            match lease.lost_reason() {
                None => assert!(lease.is_valid(), "{}", self.name),
                Some(LostReason::Stolen) => return OperationResult::Lost,
                Some(other) => panic!("{}: {other:?}", self.name),
            }
            let remaining = lease.remaining();
            match expected {
                // No time limit, as a busy machine can be late: the renewal comes, or the lease is lost.
                OperationResult::Works if remaining > before => return OperationResult::Works,
                OperationResult::Works => {}
                _ if is_overdue && remaining > RENEWED => return OperationResult::Works,
                _ if is_overdue => return OperationResult::Kept,
                _ => {}
            }
            before = remaining;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the first flaw of an error's message, if it has one.
    fn flaw(&self, error: &Error, word: &str) -> Option<&'static str> {
        let message = error.message();
        if error.operation() != self.operation.error_operation() {
            return Some("the error names another operation");
        }
        if self.operation != Operation::Connect && error.lock_name() != Some(&*self.name) {
            return Some("the error does not name the lock");
        }
        if message.contains("script: ") || message.contains("user_script") {
            return Some("the error has a place in a script");
        }
        if message.contains("did not answer") {
            return Some("the error blames a missing answer");
        }
        let is_in_message = |cause: &str| message.contains(cause) && !cause.contains("; ");
        if !error.cause().is_some_and(is_in_message) {
            return Some("the error has no cause, or one with advice");
        }
        match error.kind() {
            ErrorKind::LockTimeout if error.holder().is_none_or(|holder| holder.owner.is_empty()) => {
                Some("the error does not name the holder")
            }
            ErrorKind::Unavailable | ErrorKind::Misconfigured
                if !message.to_lowercase().contains(&word.to_lowercase()) =>
            {
                Some("the error gives no reason")
            }
            _ => None,
        }
    }

    /// Checks after the error that leases are renewed, and that unresolved attempts and releases leave the lock free.
    async fn check_recovery(&self, result: OperationResult, other: &Client) {
        let name = &self.name;
        match (self.operation, result) {
            (Operation::Renew, OperationResult::Kept) => {
                let lease = self.lease();
                eventually(&format!("{name} is renewed"), SOON, || {
                    assert!(lease.is_valid(), "{name}: {:?}", lease.lost_reason());
                    lease.remaining() > RENEWED
                })
                .await;
            }
            (Operation::Release, OperationResult::Unknown | OperationResult::Works)
            | (Operation::Acquire | Operation::Wait, OperationResult::Unavailable) => {
                let lock = self.kind.lock(other, name).wait(SOON);
                let lease = lock.acquire().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                lease.release().await.expect("released");
            }
            _ => {}
        }
    }
}

fn result_of(error: &Error) -> OperationResult {
    match error.kind() {
        ErrorKind::LockTimeout => OperationResult::Held,
        ErrorKind::Unavailable => OperationResult::Unavailable,
        ErrorKind::Misconfigured => OperationResult::Misconfigured,
        ErrorKind::LockLost => OperationResult::LockLost,
        other => panic!("{other:?}: {error}"),
    }
}
