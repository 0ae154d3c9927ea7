//! One connection: writes commands through one buffer, and takes frames one by one from another. A frame is a reply to
//! a command, or a message that the server pushes.
//!
//! `Socket` is a socket that notices when its descriptor number belongs to another owner.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::{io, mem};

use steadlock_resp::replies;
use steadlock_resp::replies::{Decoded, Frame, Limits, Scan, Unreadable};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::failure::Failure;
use super::identity::{Server, ServerRef};
use crate::sleep::note_descriptor_closed;
use crate::world::Stream;

/// A connection. Both buffers are reused.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    out: Vec<u8>,
    /// The number of bytes of `out` that are written.
    written: usize,
    /// The reason why nothing can be written any more. Reported after everything from the server was read, because the
    /// server may have given a better reason.
    broken: Option<Failure>,
    /// The read buffer, initialized in full. The bytes `begin..end` have arrived and were not taken yet.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    /// The search for the end of the next frame, of which a part has arrived.
    scan: Option<Box<Scan>>,
    limits: Limits,
    /// The bytes and frames that arrived without a pause.
    burst: Burst,
    /// The server, if this connection keeps the client there.
    server: Option<Arc<Server>>,
}

#[derive(Default)]
struct Burst {
    bytes: usize,
    frames: usize,
}

/// The largest burst. After it other tasks get their turn, because a server can send without end.
const LONGEST_BURST: Burst = Burst {
    bytes: 1 << 20,
    frames: 512,
};

/// The largest number of bytes of one read, except within a longer frame.
const READ: usize = 16 * 1_024;
/// A buffer that grew beyond this size is freed when it is empty.
const KEPT_CAPACITY: usize = 256 * 1_024;

impl Wire {
    pub(super) fn new(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            out: Vec::new(),
            written: 0,
            broken: None,
            input: vec![0; READ],
            begin: 0,
            end: 0,
            scan: None,
            limits: Limits::BEFORE_LOGIN,
            burst: Burst::default(),
            server: None,
        }
    }

    /// Notes that the server has accepted the login. Longer answers are allowed from now on.
    pub(super) const fn login_accepted(&mut self) {
        self.limits = Limits::AFTER_LOGIN;
    }

    /// Keeps the client at this server as long as this connection exists.
    pub(super) fn keep_at(&mut self, server: Arc<Server>) {
        self.server = Some(server);
    }

    /// Returns the server, and no longer keeps the client there.
    pub(super) fn server_ref(&mut self) -> Option<ServerRef> {
        self.server.take().map(|server| server.server_ref())
    }

    /// Returns the buffer for the next commands. `write` or the next poll sends them.
    pub(super) const fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends as much as the socket accepts now. The next poll sends the rest, and reports an error of this write.
    pub(super) fn write(&mut self) {
        let _ = self.poll_write(&mut Context::from_waker(Waker::noop()));
    }

    /// Sends everything in `out`.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.broken.is_none() && self.written < self.out.len() {
            let rest = &self.out[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest)) {
                Ok(0) => self.broken = Some(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(some) => self.written += some,
                Err(error) => self.broken = Some(error.into()),
            }
        }
        self.written = 0;
        self.out.clear();
        self.out.shrink_to(KEPT_CAPACITY);
        if self.broken.is_none()
            && let Err(error) = ready!(Pin::new(&mut self.stream).poll_flush(context))
        {
            self.broken = Some(error.into());
        }
        Poll::Ready(())
    }

    /// Returns the next frame from the server, and sends what is left in `out`. After a long burst it returns `Pending`
    /// once although there is more, and wakes the task.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Frame, Failure>> {
        loop {
            if self.burst.is_over() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.take_frame() {
                Ok(Some(frame)) => {
                    self.burst.frames += 1;
                    return Poll::Ready(Ok(frame));
                }
                Ok(None) => {}
                Err(why) => return Poll::Ready(Err(self.broken.clone().unwrap_or_else(|| unreadable(why)))),
            }
            let _ = self.poll_write(context);
            let Poll::Ready(read) = self.poll_read(context) else {
                self.burst = Burst::default();
                return Poll::Pending;
            };
            match read {
                Ok(0) => {
                    let closed = || Failure::unavailable("the connection closed");
                    return Poll::Ready(Err(self.broken.clone().unwrap_or_else(closed)));
                }
                Ok(some) => self.burst.bytes += some,
                Err(error) => return Poll::Ready(Err(self.broken.clone().unwrap_or_else(|| error.into()))),
            }
        }
    }

    /// Returns the next frame, if it has arrived in full.
    fn take_frame(&mut self) -> Result<Option<Frame>, Unreadable> {
        let bytes = &self.input[self.begin..self.end];
        if let Some(scan) = &mut self.scan
            && !scan.is_complete(bytes, self.limits)?
        {
            return Ok(None);
        }
        let Some(Decoded { frame, length }) = replies::decode(bytes, self.limits)? else {
            // Most frames arrive whole. Only the others need a scan.
            self.scan.get_or_insert_default();
            return Ok(None);
        };
        self.scan = None;
        self.begin += length;
        Ok(Some(frame))
    }

    /// Reads what has arrived, behind the bytes that were not taken yet.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
            if self.input.len() > KEPT_CAPACITY {
                self.input = vec![0; READ];
            }
        } else if self.end == self.input.len() {
            self.input.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            if self.end > self.input.len() / 2 {
                let more = self.input.len();
                // Without memory the connection ends, not the process.
                self.input
                    .try_reserve_exact(more)
                    .map_err(|_| io::ErrorKind::OutOfMemory)?;
                self.input.resize(2 * more, 0);
            }
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        let some = buffer.filled().len();
        self.end += some;
        Poll::Ready(Ok(some))
    }

    /// Waits for the next reply. It belongs to the oldest command without a reply, so no other caller may wait for one.
    pub(super) async fn reply(&mut self) -> Result<Result<steadlock_protocol::Reply, replies::ServerError>, Failure> {
        loop {
            if let Frame::Reply(reply) = poll_fn(|context| self.poll(context)).await? {
                return Ok(reply);
            }
        }
    }
}

impl Burst {
    /// Whether the burst has reached its limit. If so, a new one begins.
    fn is_over(&mut self) -> bool {
        let is_over = self.bytes >= LONGEST_BURST.bytes || self.frames >= LONGEST_BURST.frames;
        if is_over {
            *self = Self::default();
        }
        is_over
    }
}

fn unreadable(why: Unreadable) -> Failure {
    Failure::unavailable(match why {
        Unreadable::Malformed => "the server's answer is not what Redis or Valkey would say",
        Unreadable::TooLong => "the server's answer is longer than any that was asked for",
        Unreadable::NoMemory => "there is no memory for the server's answer",
    })
}

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
        note_descriptor_closed();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use steadlock_protocol::Reply;

    use super::*;
    use crate::port::counting::CountingWaker;

    /// A connection that accepts no writes, and returns `at_a_time` bytes per read of what the server sent before.
    struct NoWrites {
        reply: &'static [u8],
        at_a_time: usize,
    }

    impl AsyncRead for NoWrites {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let length = self.at_a_time.min(self.reply.len()).min(buffer.remaining());
            let (now, later) = self.reply.split_at(length);
            buffer.put_slice(now);
            self.reply = later;
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for NoWrites {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn after_a_failed_write_every_reply_still_belongs_to_its_call() {
        for at_a_time in 1..=20 {
            let mut wire = Wire::new(NoWrites {
                reply: b":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n",
                at_a_time,
            });
            wire.out().extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
            wire.write();
            let mut context = Context::from_waker(Waker::noop());
            for number in 1..=5 {
                let frame = wire.poll(&mut context);
                assert!(
                    matches!(frame, Poll::Ready(Ok(Frame::Reply(Ok(Reply::Int(reply))))) if reply == number),
                    "{number}: {frame:?}"
                );
            }
            let end = wire.poll(&mut context);
            assert!(
                matches!(&end, Poll::Ready(Err(why)) if why.cause().text().contains("reset")),
                "{end:?}"
            );
        }
    }

    /// A server that repeats the same bytes without end, as fast as they are read.
    struct Endless {
        reply: &'static [u8],
        at: usize,
    }

    impl Endless {
        const fn repeating(reply: &'static [u8]) -> Self {
            Self { reply, at: 0 }
        }
    }

    impl AsyncRead for Endless {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            while buffer.remaining() > 0 {
                let rest = &self.reply[self.at..];
                let length = rest.len().min(buffer.remaining());
                buffer.put_slice(&rest[..length]);
                self.at = (self.at + length) % self.reply.len();
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_server_that_sends_without_end_does_not_starve_other_tasks() {
        let long = format!(">1\r\n$100000\r\n{}\r\n", "a".repeat(100_000));
        // A burst ends with the read that exceeds its limit.
        for (reply, most) in [(b":1\r\n".as_slice(), 512), (long.into_bytes().leak(), 14)] {
            let mut wire = Wire::new(Endless::repeating(reply));
            wire.login_accepted();
            let count = Arc::new(CountingWaker::default());
            let waker = Waker::from(Arc::clone(&count));
            for turn in 1..4 {
                let mut frames = 0;
                while wire.poll(&mut Context::from_waker(&waker)).is_ready() {
                    frames += 1;
                    assert!(frames <= most, "{frames} in one turn");
                }
                assert!(frames > 0);
                assert_eq!(count.wake_count(), turn, "nothing else wakes it");
            }
        }
    }

    #[test]
    fn before_the_login_is_accepted_a_long_reply_is_refused() {
        let reply: &'static str = Box::leak(format!("*20000\r\n{}", ":1\r\n".repeat(20_000)).into_boxed_str());
        for login_accepted in [false, true] {
            let mut wire = Wire::new(Endless::repeating(reply.as_bytes()));
            if login_accepted {
                wire.login_accepted();
            }
            let answer = wire.poll(&mut Context::from_waker(Waker::noop()));
            match answer {
                Poll::Ready(Ok(Frame::Reply(Ok(Reply::Array(values))))) if login_accepted => {
                    assert_eq!(values.len(), 20_000);
                }
                Poll::Ready(Err(why)) if !login_accepted => assert!(why.cause().text().contains("longer"), "{why:?}"),
                other => panic!("{login_accepted}: {other:?}"),
            }
        }
    }
}
