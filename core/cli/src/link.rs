//! The messages between `steadlock run` and its supervisor.
//!
//! Each of the two processes has one end of a socket pair, and no third process has an end. Therefore the socket closes
//! when either process ends, for any reason. The first message carries the command's standard input, because the
//! supervisor's own standard input is the socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, send, sendmsg,
};
use rustix::process::Signal;
use tokio::net::UnixStream;

/// The size of a message: a letter and an eight-byte number.
const MESSAGE_BYTES: usize = 9;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// To the supervisor: the deadline of the lease, on the clock of [`shared_clock_micros`].
    Deadline(u64),
    /// To the supervisor: a signal for the command.
    Forward(Signal),
    /// To the supervisor: the lock is lost.
    Lost,
    /// From the supervisor: the lock was not renewed in time, and the supervisor ends the command.
    NotRenewed,
    /// From the supervisor: the command has ended, and the supervisor ends the processes that the command left behind.
    EndingLeftovers,
    /// From the supervisor: the id of a process that it may not end.
    NotPermitted(u64),
    /// From the supervisor: it has nothing left to end. The status is the exit status of the command, or says that the
    /// command could not be started.
    AllEnded(u8),
}

impl Message {
    fn encode(self) -> [u8; MESSAGE_BYTES] {
        let (letter, number) = match self {
            Self::Deadline(micros) => (b'D', micros),
            Self::Forward(signal) => (b'F', u64::from(signal.as_raw().unsigned_abs())),
            Self::Lost => (b'L', 0),
            Self::NotRenewed => (b'T', 0),
            Self::EndingLeftovers => (b'O', 0),
            Self::NotPermitted(pid) => (b'R', pid),
            Self::AllEnded(status) => (b'E', u64::from(status)),
        };
        let mut bytes = [letter; MESSAGE_BYTES];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; MESSAGE_BYTES]) -> Option<Self> {
        let [letter, number @ ..] = bytes;
        let number = u64::from_le_bytes(number);
        Some(match letter {
            b'D' => Self::Deadline(number),
            b'F' => Self::Forward(Signal::from_named_raw(i32::try_from(number).ok()?)?),
            b'L' => Self::Lost,
            b'T' => Self::NotRenewed,
            b'O' => Self::EndingLeftovers,
            b'R' => Self::NotPermitted(number),
            b'E' => Self::AllEnded(u8::try_from(number).ok()?),
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    /// The bytes that have arrived and that [`Link::next`] has not returned yet.
    received: Vec<u8>,
}

impl Link {
    /// Opens the holder's side, and sends the first deadline. Also returns the socket that becomes the supervisor's
    /// standard input.
    pub(crate) fn open(deadline: u64) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = BlockingStream::pair()?;
        let stdin = io::stdin();
        let files = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let first = Message::Deadline(deadline).encode();
        sendmsg(&ours, &[IoSlice::new(&first)], &mut control, SendFlags::empty())?;
        Ok((Self::new(ours)?, theirs.into()))
    }

    /// Opens the supervisor's side. Also returns the first deadline and the command's standard input.
    pub(crate) fn accept() -> io::Result<(Self, u64, OwnedFd)> {
        // The copy of the socket is closed on exec. The command gets its own input as descriptor 0.
        let socket = BlockingStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut first = [0; MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::WAITALL | CLOSE_ON_EXEC;
        let received = recvmsg(&socket, &mut [IoSliceMut::new(&mut first)], &mut control, flags)?;
        let stdin = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        match (Message::decode(first), stdin) {
            (Some(Message::Deadline(deadline)), Some(stdin)) if received.bytes == MESSAGE_BYTES => {
                Ok((Self::new(socket)?, deadline, stdin))
            }
            _ => Err(io::Error::other("it is started by steadlock run only")),
        }
    }

    fn new(socket: BlockingStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            stream: UnixStream::from_std(socket)?,
            received: Vec::new(),
        })
    }

    /// Returns the next message; `None` when the other process is gone or has sent no valid message. Dropping the
    /// future loses no message.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some((message, rest)) = self.received.split_first_chunk::<MESSAGE_BYTES>() {
                let message = Message::decode(*message);
                self.received = rest.to_vec();
                return message;
            }
            self.stream.readable().await.ok()?;
            let mut bytes = [0; 16 * MESSAGE_BYTES];
            match self.stream.try_read(&mut bytes) {
                Ok(0) => return None,
                Ok(length) => self.received.extend_from_slice(bytes.get(..length)?),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends a message to the other process, if it is still there.
    pub(crate) fn send(&self, message: Message) {
        // A failed send is ignored. The socket holds hundreds of messages, so it is full only if the other process is
        // stopped. The command ends even then: the supervisor ends it at the deadline without a message, and the holder
        // kills a supervisor that is stuck. `try_write` is not used, because it fails without an attempt until the
        // runtime has looked at the socket.
        let _ = send(&self.stream, &message.encode(), SendFlags::empty());
    }
}

/// Returns the current time on a clock that both processes share. On Linux it also counts the time for which the
/// machine is suspended.
pub(crate) fn shared_clock_micros() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000;
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

#[cfg(target_os = "linux")]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
/// Without the flag, the command inherits its standard input under a second number, too.
#[cfg(not(target_os = "linux"))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();
