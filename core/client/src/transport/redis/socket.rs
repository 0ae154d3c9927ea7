//! A socket that closes no descriptor but its own.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::world::Stream;

/// A connected socket. A program may close descriptors that it did not open, as daemons do, and then
/// open files that get the same numbers. Dropped after that, this socket leaves the number alone.
pub(super) struct Socket<S: Connected> {
    /// `None` in its drop only.
    stream: Option<S>,
    name: Option<S::Name>,
}

pub(super) trait Connected: Stream {
    /// By which it is told from what has its number later.
    type Name: PartialEq + Unpin + Send;

    fn name(&self) -> io::Result<Self::Name>;
}

impl Connected for TcpStream {
    type Name = std::net::SocketAddr;

    // Also known after the peer has reset the connection, as the peer's address is not.
    fn name(&self) -> io::Result<Self::Name> {
        self.local_addr()
    }
}

#[cfg(unix)]
impl Connected for tokio::net::UnixStream {
    /// Clients have no names: all that shows is that the number is not a file's.
    type Name = ();

    fn name(&self) -> io::Result<()> {
        self.local_addr().map(drop)
    }
}

impl<S: Connected> Socket<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            name: stream.name().ok(),
            stream: Some(stream),
        }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut S>> {
        let stream = self.stream.as_mut().map(Pin::new);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: Connected> Drop for Socket<S> {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take()
            && stream.name().ok() != self.name
        {
            mem::forget(stream);
        }
    }
}

impl<S: Connected> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, buffer)
    }
}

impl<S: Connected> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
}
