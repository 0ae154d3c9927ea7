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
pub enum Carries {
    Commands,
    Renewals,
    Subscriptions,
}

impl Carries {
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
    /// The port to which the connection after it leads, if the ports alternate.
    next: Option<u16>,
    connections: Vec<Connection>,
    last: u64,
    /// How often all connections were cut.
    cuts: u64,
}

struct Connection {
    number: u64,
    target: u16,
    client: TcpStream,
    server: TcpStream,
    carries: Option<Carries>,
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
    pub fn far_from(target: u16, delay: Duration) -> Self {
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
                last: 0,
                cuts: 0,
            }),
            is_over: AtomicBool::new(false),
            delay,
            sent: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || of_thread.accept(&listener));
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
    pub fn lead_by_turns_to(&self, other: u16) {
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
    pub fn cut(&self, carries: Carries) {
        for connection in &self.shared.lock().connections {
            if connection.carries == Some(carries) {
                connection.close();
            }
        }
    }

    /// Returns the number of connections with this use.
    pub fn count(&self, carries: Carries) -> usize {
        let inner = self.shared.lock();
        let these = inner.connections.iter().filter(|of| of.carries == Some(carries));
        these.count()
    }

    /// Returns the number of connections to a server.
    pub fn leading_to(&self, target: u16) -> usize {
        let inner = self.shared.lock();
        inner.connections.iter().filter(|of| of.target == target).count()
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
                (inner.turn(), inner.cuts)
            };
            let server = target.and_then(|target| Some((target, TcpStream::connect(("127.0.0.1", target)).ok()?)));
            if let Some((target, server)) = server {
                // Without this, Nagle's algorithm would delay an acquisition from tens of microseconds to tens of
                // milliseconds.
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                self.join(target, client, server, cuts);
            }
        }
    }

    /// Forwards all data between the client and the server, unless all connections were cut since the cut `cuts`.
    fn join(self: &Arc<Self>, target: u16, client: TcpStream, server: TcpStream, cuts: u64) {
        let both = (|| Some((client.try_clone().ok()?, server.try_clone().ok()?)))();
        let Some((client_too, server_too)) = both else { return };
        let number = {
            let mut inner = self.lock();
            if inner.cuts != cuts {
                return;
            }
            inner.last += 1;
            let number = inner.last;
            inner.connections.push(Connection {
                number,
                target,
                client: client_too,
                server: server_too,
                carries: None,
            });
            number
        };
        let back = (server.try_clone(), client.try_clone());
        let there = Arc::clone(self);
        let delay = self.delay;
        thread::spawn(move || {
            pass_on(client, server, delay, |bytes| there.note(number, bytes));
            there.over(number);
        });
        if let (Ok(server), Ok(client)) = back {
            let this = Arc::clone(self);
            thread::spawn(move || {
                pass_on(server, client, delay, |_| {});
                this.over(number);
            });
        }
    }

    fn note(&self, number: u64, bytes: &[u8]) {
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let Some(carries) = what(bytes) else { return };
        let mut inner = self.lock();
        let of_number = inner.connections.iter_mut().find(|of| of.number == number);
        // A connection for commands can carry renewals too, so it keeps its use then.
        if let Some(of) = of_number.filter(|of| of.carries.is_none_or(|before| before == Carries::Renewals)) {
            of.carries = Some(carries);
        }
    }

    fn over(&self, number: u64) {
        let mut inner = self.lock();
        for connection in inner.connections.iter().filter(|of| of.number == number) {
            connection.close();
        }
        inner.connections.retain(|of| of.number != number);
    }
}

impl Inner {
    /// Returns the target of the next connection, and switches the targets if they alternate.
    fn turn(&mut self) -> Option<u16> {
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

fn pass_on(mut from: TcpStream, to: TcpStream, delay: Duration, mut note: impl FnMut(&[u8])) {
    let mut to = Delayed::new(to, delay);
    let mut buffer = vec![0; 16_384];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        note(&buffer[..count]);
        if !to.write(&buffer[..count]) {
            break;
        }
    }
}

/// One end of a connection. Data that is written to it can arrive later.
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
fn what(bytes: &[u8]) -> Option<Carries> {
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
    };
    if has("\r\nSUBSCRIBE\r\n") {
        return Some(Carries::Subscriptions);
    }
    let (renewals, others): (Vec<Script>, Vec<Script>) = Script::ALL
        .iter()
        .partition(|script| script.file().ends_with("_renew.lua"));
    if others.into_iter().any(|script| has(script.sha1())) {
        Some(Carries::Commands)
    } else if renewals.into_iter().any(|script| has(script.sha1())) {
        Some(Carries::Renewals)
    } else {
        None
    }
}
