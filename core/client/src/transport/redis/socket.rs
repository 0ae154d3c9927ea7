//! A socket that never uses a descriptor of another owner.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::sleep::note_lost;
use crate::world::Stream;

/// A connected socket that checks whether its descriptor number is still its own. A program may close descriptors that
/// it did not open, as daemons do. The number may then belong to a file of the program or to a connection of another
/// client. From then on this socket does not close the number and writes nothing to it. It also discards what it reads
/// there, which may be the reply to another client's command.
pub(super) struct Socket<S: Connected> {
    /// `None` only during the drop.
    stream: Option<S>,
    name: Option<S::Name>,
}

pub(super) trait Connected: Stream {
    /// A name that distinguishes the socket from a later owner of its number.
    type Name: PartialEq + Unpin + Send;

    fn name(&self) -> io::Result<Self::Name>;
}

impl Connected for TcpStream {
    type Name = std::net::SocketAddr;

    // The local address, because the peer's is unknown after the peer has reset the connection.
    fn name(&self) -> io::Result<Self::Name> {
        self.local_addr()
    }
}

#[cfg(unix)]
impl Connected for tokio::net::UnixStream {
    /// Client sockets have no names, so this only shows that the number does not belong to a file.
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

    /// Whether the number is still the socket's own, as far as names show.
    fn is_own(&self) -> bool {
        let name = self.stream.as_ref().map(Connected::name);
        name.is_some_and(|name| name.ok() == self.name)
    }

    fn check(&self) -> io::Result<()> {
        if self.is_own() {
            return Ok(());
        }
        note_lost();
        Err(io::Error::new(io::ErrorKind::NotConnected, "its descriptor was closed"))
    }

    fn stream(&mut self) -> io::Result<Pin<&mut S>> {
        let stream = self.stream.as_mut().map(Pin::new);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: Connected> Drop for Socket<S> {
    fn drop(&mut self) {
        if !self.is_own() {
            mem::forget(self.stream.take());
        }
    }
}

impl<S: Connected> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.stream()?.poll_read(context, buffer);
        if read.is_ready()
            && let Err(error) = self.check()
        {
            buffer.set_filled(before);
            return Poll::Ready(Err(error));
        }
        read
    }
}

impl<S: Connected> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
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
        self.check()?;
        self.stream()?.poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
}
