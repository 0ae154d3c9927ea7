//! A sentinel that says what a test wants.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::mem;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// It says so until it is dropped; connections that are open stay.
pub struct FakeSentinel {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// The host that it says all servers have.
    host: String,
    /// The port of the primary that it names, 0 if it knows none, and the number of the failover.
    named: Mutex<(u16, u64)>,
    /// The port of another sentinel that it knows.
    other: Option<u16>,
    listeners: Mutex<Vec<TcpStream>>,
    asked: AtomicU64,
    /// How many connections have asked for the primary.
    connections: AtomicU64,
    is_over: AtomicBool,
}

impl FakeSentinel {
    pub fn naming(primary: u16, epoch: u64) -> Self {
        Self::naming_at("127.0.0.1", primary, epoch, None)
    }

    /// One that says of all servers, and of the sentinel `other`, that they are at this host.
    pub fn naming_at(host: &str, primary: u16, epoch: u64, other: Option<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            host: host.to_owned(),
            other,
            named: Mutex::new((primary, epoch)),
            listeners: Mutex::default(),
            asked: AtomicU64::new(0),
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
                thread::spawn(move || at_work.serve(stream));
            }
        });
        Self { port, shared }
    }

    /// Names another primary from now on, and says so to those who listen.
    pub fn switch(&self, primary: u16, epoch: u64) {
        self.name(primary, epoch);
        let host = &self.shared.host;
        let event = format!("mymaster {host} 1 {host} {primary}");
        let push = format!(">3\r\n{}", bulks(&["message", "+switch-master", &event]));
        for listener in self.shared.listeners().iter_mut() {
            let _ = listener.write_all(push.as_bytes());
        }
    }

    /// Names another primary to those who ask.
    pub fn name(&self, primary: u16, epoch: u64) {
        *self.shared.named.lock().unwrap_or_else(PoisonError::into_inner) = (primary, epoch);
    }

    /// Knows of no primary any more, as after `SENTINEL REMOVE`.
    pub fn forget(&self) {
        self.name(0, 0);
    }

    /// How many connections have asked it for the primary. Others may be somebody's who found a port used again.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How often it was asked for the primary.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }
}

impl Drop for FakeSentinel {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut out = stream.try_clone().expect("a socket");
        let mut input = BufReader::new(stream);
        let mut has_asked = false;
        while let Some(command) = read(&mut input) {
            let (primary, epoch) = *self.named.lock().unwrap_or_else(PoisonError::into_inner);
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let answer = match words[..] {
                ["HELLO", ..] => format!("%2\r\n{}", bulks(&["mode", "sentinel", "version", "7.0.0"])),
                ["SUBSCRIBE", ref channels @ ..] => {
                    self.listeners().push(out.try_clone().expect("a socket"));
                    let push = |channel: &&str| format!(">3\r\n{}:1\r\n", bulks(&["subscribe", channel]));
                    channels.iter().map(push).collect()
                }
                ["SENTINEL", "MASTER", _] => format!("%1\r\n{}", bulks(&["config-epoch", &epoch.to_string()])),
                ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"] => {
                    self.asked.fetch_add(1, Ordering::Relaxed);
                    if !mem::replace(&mut has_asked, true) {
                        self.connections.fetch_add(1, Ordering::Relaxed);
                    }
                    if primary == 0 {
                        "_\r\n".into()
                    } else {
                        format!("*2\r\n{}", bulks(&[&self.host, &primary.to_string()]))
                    }
                }
                ["SENTINEL", "SENTINELS", _] => match self.other {
                    None => "*0\r\n".into(),
                    Some(port) => format!("*1\r\n*4\r\n{}", bulks(&["ip", &self.host, "port", &port.to_string()])),
                },
                _ => "-ERR unknown command\r\n".into(),
            };
            if out.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One command; `None` at the end.
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
