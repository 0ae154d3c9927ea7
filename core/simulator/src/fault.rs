//! The faults that a history can have, and how often each has struck.

use crate::counted::counted;

counted! {
    /// A kind of fault.
    Fault, FaultCounts;
    /// A call did not reach the server, and its connection closed.
    LostCall = "lost call",
    /// A server ran a call, and the connection closed before the reply.
    LostReply = "lost reply",
    /// A call was slow, possibly longer than the command timeout.
    DelayedCall = "delayed call",
    /// A reply was slow, possibly longer than the command timeout.
    DelayedReply = "delayed reply",
    /// The server ran another attempt of an owner that already had the record.
    Resent = "resent call",
    /// A published message did not reach a listener.
    DroppedMessage = "dropped message",
    /// All connections of a client to a node closed.
    Disconnect = "disconnect",
    /// One connection of a client closed, and was not replaced for a while.
    LaneCut = "lane cut",
    /// A server was demoted in place, and its address led to another server some time later.
    Demotion = "demotion",
    /// A server was paused, and then ran the calls that had arrived meanwhile.
    NodeStop = "node stop",
    /// For a while a server refused calls (LOADING, BUSY), or the commands in scripts that need memory (OOM).
    TemporaryError = "temporary error",
    /// A client was paused, and then saw what had arrived meanwhile.
    ClientPause = "client pause",
    /// A client crashed without closing anything.
    ClientCrash = "client crash",
    /// A client was closed while it was in use.
    ClientClose = "client close",
    /// A caller stopped waiting.
    Cancel = "cancel",
    /// A malicious client published false messages.
    Invention = "invented message",
    /// An external client deleted the record of a lock.
    RecordRemoved = "record removed",
    /// An external client emptied the server.
    Flush = "flush",
    /// A server's clock was set forward.
    ClockForward = "clock forward",
    /// A server's clock was set back.
    ClockBack = "clock back",
    /// A replica took over without the primary's last writes.
    Failover = "lossy failover",
}
