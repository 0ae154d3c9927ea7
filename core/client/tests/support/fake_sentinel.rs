//! A fake sentinel with replies that a test chooses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::mem;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A fake sentinel. Once it is dropped it accepts no more connections; open connections stay.
pub struct FakeSentinel {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// The host of all servers in its replies.
    host: String,
    /// The port of the primary in its replies, or 0 if it knows none, and the config epoch (the number of the
    /// failover).
    named: Mutex<(u16, u64)>,
    /// The port of each other sentinel that it knows, and the id if its replies give one.
    others: Mutex<Vec<(u16, Option<String>)>>,
    /// The delay of each reply, as from a distant machine.
    delay: Duration,
    /// Whether it sends no replies.
    is_silent: AtomicBool,
    connected: Mutex<Vec<TcpStream>>,
    listeners: Mutex<Vec<TcpStream>>,
    calls: AtomicU64,
    /// The number of connections that have asked for the primary.
    connections: AtomicU64,
    is_over: AtomicBool,
}

impl FakeSentinel {
    pub fn naming(primary: u16, epoch: u64) -> Self {
        Self::naming_at("127.0.0.1", primary, epoch, None)
    }

    /// Starts a sentinel whose replies arrive after this delay.
    pub fn delayed(delay: Duration, primary: u16, epoch: u64) -> Self {
        Self::with("127.0.0.1", primary, epoch, None, delay)
    }

    /// Starts a sentinel that reports this host for all servers and for the sentinel `other`.
    pub fn naming_at(host: &str, primary: u16, epoch: u64, other: Option<u16>) -> Self {
        Self::with(host, primary, epoch, other, Duration::ZERO)
    }

    fn with(host: &str, primary: u16, epoch: u64, other: Option<u16>, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            host: host.to_owned(),
            others: Mutex::new(other.into_iter().map(|port| (port, None)).collect()),
            delay,
            is_silent: AtomicBool::new(false),
            connected: Mutex::default(),
            named: Mutex::new((primary, epoch)),
            listeners: Mutex::default(),
            calls: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let at_work = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if at_work.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let at_work = Arc::clone(&at_work);
                locked(&at_work.connected).push(stream.try_clone().expect("a socket"));
                thread::spawn(move || at_work.serve(stream, port));
            }
        });
        Self { port, shared }
    }

    /// Names another primary from now on, and publishes the switch to all subscribers.
    pub fn switch(&self, primary: u16, epoch: u64) {
        self.name(primary, epoch);
        let host = &self.shared.host;
        let event = format!("mymaster {host} 1 {host} {primary}");
        let push = format!(">3\r\n{}", bulks(&["message", "+switch-master", &event]));
        for listener in locked(&self.shared.listeners).iter_mut() {
            let _ = listener.write_all(push.as_bytes());
        }
    }

    /// Names another primary from now on, without publishing it.
    pub fn name(&self, primary: u16, epoch: u64) {
        *locked(&self.shared.named) = (primary, epoch);
    }

    /// Reports these other sentinels from now on, with their ids.
    pub fn set_others(&self, others: &[&Self]) {
        let known = |other: &&Self| (other.port, Some(id(other.port)));
        *locked(&self.shared.others) = others.iter().map(known).collect();
    }

    /// Makes the sentinel stop replying, like a machine that is gone, or reply again.
    pub fn set_silent(&self, is_silent: bool) {
        self.shared.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Closes all of its connections.
    pub fn cut(&self) {
        locked(&self.shared.listeners).clear();
        for stream in locked(&self.shared.connected).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Names no primary from now on, as after `SENTINEL REMOVE`.
    pub fn forget(&self) {
        self.name(0, 0);
    }

    /// Returns the number of connections that have asked for the primary. Other connections are not counted: they can
    /// come from clients of an earlier test that used the same port.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of subscribed connections, without those that `cut` has closed.
    pub fn listeners(&self) -> usize {
        locked(&self.shared.listeners).len()
    }

    /// Returns the number of requests for the primary.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
}

impl Drop for FakeSentinel {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream, port: u16) {
        let out = stream.try_clone().expect("a socket");
        let (answers, to_send) = mpsc::channel();
        thread::spawn(move || send(out, &to_send));
        let mut listener = stream.try_clone().ok();
        let mut input = BufReader::new(stream);
        let mut has_called = false;
        while let Some(command) = read(&mut input) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            if words[0] == "SUBSCRIBE" {
                locked(&self.listeners).extend(listener.take());
            }
            if words[..] == ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"] {
                self.calls.fetch_add(1, Ordering::Relaxed);
                if !mem::replace(&mut has_called, true) {
                    self.connections.fetch_add(1, Ordering::Relaxed);
                }
            }
            if self.is_silent.load(Ordering::Relaxed) {
                continue;
            }
            if answers
                .send((Instant::now() + self.delay, self.answer(&words, port)))
                .is_err()
            {
                return;
            }
        }
    }

    fn answer(&self, words: &[&str], port: u16) -> String {
        let (primary, epoch) = *locked(&self.named);
        match *words {
            ["HELLO", ..] => format!("%2\r\n{}", bulks(&["mode", "sentinel", "version", "7.0.0"])),
            ["SUBSCRIBE", ref channels @ ..] => {
                let push = |channel: &&str| format!(">3\r\n{}:1\r\n", bulks(&["subscribe", channel]));
                channels.iter().map(push).collect()
            }
            ["SENTINEL", "MYID"] => bulks(&[&id(port)]),
            ["SENTINEL", "MASTER", _] => format!("%1\r\n{}", bulks(&["config-epoch", &epoch.to_string()])),
            ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"] if primary == 0 => "_\r\n".into(),
            ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"] => {
                format!("*2\r\n{}", bulks(&[&self.host, &primary.to_string()]))
            }
            ["SENTINEL", "SENTINELS", _] => {
                let others = locked(&self.others);
                let entries = others.iter().map(|(port, id)| {
                    let port = port.to_string();
                    let address = ["ip", &self.host, "port", &port];
                    let id = id.as_deref().map_or(vec![], |id| vec!["runid", id]);
                    let fields = [&address[..], &id].concat();
                    format!("*{}\r\n{}", fields.len(), bulks(&fields))
                });
                format!("*{}\r\n{}", others.len(), entries.collect::<String>())
            }
            _ => "-ERR unknown command\r\n".into(),
        }
    }
}

/// Sends each reply when it is due.
fn send(mut out: TcpStream, answers: &mpsc::Receiver<(Instant, String)>) {
    while let Ok((due, answer)) = answers.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if out.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Returns the id of the sentinel at this port.
fn id(port: u16) -> String {
    format!("{port:040}")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads one command. Returns `None` at the end of the connection.
fn read(input: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let number = |input: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.get(1..)?.trim_end().parse::<usize>().ok()
    };
    let parts = number(input)?;
    let mut command = Vec::new();
    for _ in 0..parts {
        let mut part = vec![0; number(input)? + 2];
        input.read_exact(&mut part).ok()?;
        part.truncate(part.len() - 2);
        command.push(String::from_utf8(part).ok()?);
    }
    Some(command)
}

fn bulks(parts: &[&str]) -> String {
    parts
        .iter()
        .map(|part| format!("${}\r\n{part}\r\n", part.len()))
        .collect()
}
