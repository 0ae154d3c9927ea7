//! A proxy that can flood its clients with messages.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// A message on a channel to which no client has subscribed.
const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nx\r\n";
/// The number of messages in one write.
const BURST: usize = 1_000;

/// Forwards calls and replies. After [`Streaming::begin`], it also sends messages on every connection, as fast as the
/// client reads them.
pub struct Streaming {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_streaming: AtomicBool,
    is_over: AtomicBool,
    /// The number of messages that were written.
    messages: AtomicU64,
}

impl Streaming {
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::<Shared>::default();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let server = TcpStream::connect(("127.0.0.1", server)).expect("the server");
                let shared = Arc::clone(&accepting);
                thread::spawn(move || shared.serve(client, server));
            }
        });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Streams messages on every connection from now on.
    pub fn begin(&self) {
        self.shared.is_streaming.store(true, Ordering::Relaxed);
    }

    /// Returns the number of messages that were written.
    pub fn messages(&self) -> u64 {
        self.shared.messages.load(Ordering::Relaxed)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread, which then ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    /// Serves one connection until one of its ends closes it.
    fn serve(&self, client: TcpStream, server: TcpStream) {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (mut from, mut to) = (cloned(&client), cloned(&server));
        thread::spawn(move || {
            let _ = (io::copy(&mut from, &mut to), to.shutdown(Shutdown::Both));
        });
        let _ = (
            self.write(&client, &replies_of(server)),
            client.shutdown(Shutdown::Both),
        );
    }

    /// Writes the server's replies to the client, and messages between them.
    fn write(&self, mut client: &TcpStream, replies: &Receiver<Vec<u8>>) -> io::Result<()> {
        let burst = MESSAGE.repeat(BURST);
        while !self.is_over.load(Ordering::Relaxed) {
            let is_streaming = self.is_streaming.load(Ordering::Relaxed);
            let wait = Duration::from_millis(if is_streaming { 0 } else { 5 });
            match replies.recv_timeout(wait) {
                Ok(reply) => client.write_all(&reply)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if is_streaming {
                client.write_all(&burst)?;
                self.messages.fetch_add(BURST as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Reads the server's replies. Each read returns whole replies, because those of the scripts are much shorter than the
/// buffer.
fn replies_of(mut server: TcpStream) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1_024];
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn cloned(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a socket")
}
