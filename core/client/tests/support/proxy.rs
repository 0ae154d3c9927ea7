//! A TCP proxy between a client and a server. A test can lead it to another server, make it refuse new connections, or
//! cut its connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use steadlock_protocol::Script;

/// The use of a connection, recognised by the commands on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    Commands,
    Renewals,
    Subscriptions,
}

impl ConnectionUse {
    pub const ALL: [Self; 3] = [Self::Commands, Self::Renewals, Self::Subscriptions];
}

pub struct Proxy {
    host: String,
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    is_over: AtomicBool,
    /// The delay of all data in each direction.
    delay: Duration,
    /// The number of bytes that clients have sent.
    sent: AtomicU64,
    accepted: AtomicU64,
}

struct Inner {
    /// The port to which a new connection leads. With `None` it is refused.
    target: Option<u16>,
    /// The port to which the connection after that leads, if the ports alternate.
    next: Option<u16>,
    connections: Vec<Connection>,
    last_number: u64,
    /// How often all connections were cut.
    cuts: u64,
}

struct Connection {
    number: u64,
    target: u16,
    client: TcpStream,
    server: TcpStream,
    usage: Option<ConnectionUse>,
}

impl Proxy {
    pub fn to(target: u16) -> Self {
        Self::open("127.0.0.1", 0, target, Duration::ZERO)
    }

    /// Opens a proxy at an address of this machine.
    pub fn at(host: &str, port: u16, target: u16) -> Self {
        Self::open(host, port, target, Duration::ZERO)
    }

    /// Opens a proxy that delays all data by this time in each direction.
    pub fn with_delay(target: u16, delay: Duration) -> Self {
        Self::open("127.0.0.1", 0, target, delay)
    }

    fn open(host: &str, port: u16, target: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind((host, port)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                target: Some(target),
                next: None,
                connections: Vec::new(),
                last_number: 0,
                cuts: 0,
            }),
            is_over: AtomicBool::new(false),
            delay,
            sent: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        let host = host.to_owned();
        Self { host, port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Leads new connections to this port from now on. Open connections stay.
    pub fn lead_to(&self, target: u16) {
        self.shared.lock().target = Some(target);
    }

    /// Leads every other new connection to this port from now on.
    pub fn alternate_with(&self, other: u16) {
        self.shared.lock().next = Some(other);
    }

    /// Refuses new connections from now on. Open connections stay.
    pub fn refuse(&self) {
        self.shared.lock().target = None;
    }

    /// Cuts all connections.
    pub fn cut_all(&self) {
        let mut inner = self.shared.lock();
        inner.cuts += 1;
        inner.connections.iter().for_each(Connection::close);
    }

    /// Cuts the connections with this use.
    pub fn cut(&self, usage: ConnectionUse) {
        for connection in &self.shared.lock().connections {
            if connection.usage == Some(usage) {
                connection.close();
            }
        }
    }

    /// Returns the number of connections with this use.
    pub fn count(&self, usage: ConnectionUse) -> usize {
        let inner = self.shared.lock();
        let with_use = inner.connections.iter().filter(|one| one.usage == Some(usage));
        with_use.count()
    }

    /// Returns the number of connections to a server.
    pub fn connections_to(&self, target: u16) -> usize {
        let inner = self.shared.lock();
        inner.connections.iter().filter(|one| one.target == target).count()
    }

    /// Returns the number of bytes that clients have sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were ever accepted.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for connection in &self.shared.lock().connections {
            connection.close();
        }
        // Wakes the accepting thread, which then ends.
        drop(TcpStream::connect((self.host.as_str(), self.port)));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic")
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            self.accepted.fetch_add(1, Ordering::Relaxed);
            let (target, cuts) = {
                let mut inner = self.lock();
                (inner.next_target(), inner.cuts)
            };
            let server = target.and_then(|target| Some((target, TcpStream::connect(("127.0.0.1", target)).ok()?)));
            if let Some((target, server)) = server {
                // Otherwise an acquisition would take tens of milliseconds instead of tens of microseconds, because of
                // Nagle's algorithm.
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                self.join(target, client, server, cuts);
            }
        }
    }

    /// Forwards all data between the client and the server. `cuts` is the number of cuts when the client was accepted:
    /// if a test has cut all connections since then, this one is closed too.
    fn join(self: &Arc<Self>, target: u16, client: TcpStream, server: TcpStream, cuts: u64) {
        let both = (|| Some((client.try_clone().ok()?, server.try_clone().ok()?)))();
        let Some((client_too, server_too)) = both else { return };
        let number = {
            let mut inner = self.lock();
            if inner.cuts != cuts {
                return;
            }
            inner.last_number += 1;
            let number = inner.last_number;
            inner.connections.push(Connection {
                number,
                target,
                client: client_too,
                server: server_too,
                usage: None,
            });
            number
        };
        let back = (server.try_clone(), client.try_clone());
        let there = Arc::clone(self);
        let delay = self.delay;
        thread::spawn(move || {
            pass_on(client, server, delay, |bytes| there.record(number, bytes));
            there.remove(number);
        });
        if let (Ok(server), Ok(client)) = back {
            let this = Arc::clone(self);
            thread::spawn(move || {
                pass_on(server, client, delay, |_| {});
                this.remove(number);
            });
        }
    }

    fn record(&self, number: u64, bytes: &[u8]) {
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let Some(usage) = use_shown_by(bytes) else { return };
        let mut inner = self.lock();
        let connection = inner.connections.iter_mut().find(|one| one.number == number);
        // Renewals may also go over a connection for commands. Such a connection keeps its use.
        if let Some(connection) =
            connection.filter(|one| one.usage.is_none_or(|before| before == ConnectionUse::Renewals))
        {
            connection.usage = Some(usage);
        }
    }

    fn remove(&self, number: u64) {
        let mut inner = self.lock();
        for connection in inner.connections.iter().filter(|one| one.number == number) {
            connection.close();
        }
        inner.connections.retain(|one| one.number != number);
    }
}

impl Inner {
    /// Returns the target of the next connection, and switches the targets if they alternate.
    fn next_target(&mut self) -> Option<u16> {
        let target = self.target;
        if let Some(next) = self.next {
            self.next = target;
            self.target = Some(next);
        }
        target
    }
}

impl Connection {
    fn close(&self) {
        let _ = (
            self.client.shutdown(Shutdown::Both),
            self.server.shutdown(Shutdown::Both),
        );
    }
}

fn pass_on(mut from: TcpStream, to: TcpStream, delay: Duration, mut record: impl FnMut(&[u8])) {
    let mut to = Delayed::new(to, delay);
    let mut buffer = vec![0; 16_384];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        record(&buffer[..count]);
        if !to.write(&buffer[..count]) {
            break;
        }
    }
}

/// One end of a connection. It can delay the data that is written to it.
enum Delayed {
    AtOnce(TcpStream),
    Later(Duration, Sender<(Instant, Vec<u8>)>),
}

impl Delayed {
    fn new(mut to: TcpStream, delay: Duration) -> Self {
        if delay.is_zero() {
            return Self::AtOnce(to);
        }
        let (sender, receiver) = channel::<(Instant, Vec<u8>)>();
        thread::spawn(move || {
            for (arrives, bytes) in receiver {
                thread::sleep(arrives.saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        Self::Later(delay, sender)
    }

    /// Writes the data, now or later. Returns false if the connection is known to be closed.
    fn write(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::AtOnce(to) => to.write_all(bytes).is_ok(),
            Self::Later(delay, sender) => sender.send((Instant::now() + *delay, bytes.to_vec())).is_ok(),
        }
    }
}

/// Returns the use of a connection on which a client sends these bytes, if they show it.
fn use_shown_by(bytes: &[u8]) -> Option<ConnectionUse> {
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
    };
    if has("\r\nSUBSCRIBE\r\n") {
        return Some(ConnectionUse::Subscriptions);
    }
    let (renewals, others): (Vec<Script>, Vec<Script>) = Script::ALL
        .iter()
        .partition(|script| script.file().ends_with("_renew.lua"));
    if others.into_iter().any(|script| has(script.sha1())) {
        Some(ConnectionUse::Commands)
    } else if renewals.into_iter().any(|script| has(script.sha1())) {
        Some(ConnectionUse::Renewals)
    } else {
        None
    }
}
