//! A proxy in front of a server that delays answers or reports a wrong time.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A proxy that stops accepting connections when it is dropped.
pub(crate) struct FaultyProxy {
    pub(crate) port: u16,
    is_stopped: Arc<AtomicBool>,
}

/// The changes that the proxy makes to answers.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// Delays each answer by this time.
    Delay(Duration),
    /// Delays the first answer to TIME on each connection by this time.
    DelayOnce(Duration),
    /// Reports a time that is this many seconds ahead.
    Ahead(i64),
}

impl FaultyProxy {
    pub(crate) fn start(server: u16, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let server = TcpStream::connect(("127.0.0.1", server)).expect("the server");
                forward_both_ways(client, server, fault);
            }
        });
        Self { port, is_stopped }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn forward_both_ways(client: TcpStream, server: TcpStream, fault: Fault) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a socket");
    }
    let (from_client, mut to_client) = (client.try_clone().expect("a socket"), client);
    let (from_server, to_server) = (server.try_clone().expect("a socket"), server);
    let mut own_answers = to_client.try_clone().expect("a socket");
    let mut is_first = true;
    thread::spawn(move || {
        forward(from_client, to_server, |bytes, server| {
            let is_time = bytes == b"*1\r\n$4\r\nTIME\r\n";
            match fault {
                Fault::Ahead(seconds) if is_time => return own_answers.write_all(&time(seconds)),
                Fault::DelayOnce(delay) if is_time && is_first => {
                    is_first = false;
                    thread::sleep(delay);
                }
                _ => {}
            }
            server.write_all(bytes)
        });
    });
    thread::spawn(move || {
        forward(from_server, to_client.try_clone().expect("a socket"), |bytes, _| {
            if let Fault::Delay(delay) = fault {
                thread::sleep(delay);
            }
            to_client.write_all(bytes)
        });
    });
}

fn forward(mut from: TcpStream, mut to: TcpStream, mut pass: impl FnMut(&[u8], &mut TcpStream) -> std::io::Result<()>) {
    let mut buffer = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if pass(&buffer[..count], &mut to).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Returns the answer to TIME.
fn time(ahead: i64) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seconds = (i64::try_from(now.as_secs()).expect("before the year 292e9") + ahead).to_string();
    let micros = now.subsec_micros().to_string();
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    format!("*2\r\n{}{}", bulk(&seconds), bulk(&micros)).into_bytes()
}
