//! A TCP connection, as hyper reads and writes it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use steadlock_store::server::ExternalClient;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// A connection that closes when its client has stopped reading for [`ExternalClient::STALLED_TIME`].
pub(super) struct Stream {
    tcp: TcpStream,
    client: Arc<ExternalClient>,
    /// The timeout that runs while the client does not read.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    pub(super) const fn new(tcp: TcpStream, client: Arc<ExternalClient>) -> Self {
        Self {
            tcp,
            client,
            stalled: None,
        }
    }

    /// Starts, checks or stops the timeout after a write. Returns the write's result, or an error if the timeout is
    /// over.
    fn track_write(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if outcome.is_ready() {
            if self.stalled.take().is_some() {
                self.client.mark_reading(true);
            }
            return outcome;
        }
        let stalled = self.stalled.get_or_insert_with(|| {
            self.client.mark_reading(false);
            Box::pin(sleep(ExternalClient::STALLED_TIME))
        });
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffer = [0; READ_BYTES];
        let limit = into.remaining().min(READ_BYTES);
        let mut read = ReadBuf::new(&mut buffer[..limit]);
        ready!(Pin::new(&mut self.tcp).poll_read(context, &mut read))?;
        into.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.track_write(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.tcp).poll_write_vectored(context, slices);
        self.track_write(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

/// The number of bytes that one read can return.
const READ_BYTES: usize = 16 * 1024;
