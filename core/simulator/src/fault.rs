//! The faults that a history can have, and how often each has struck.

use crate::counted::counted;

counted! {
    /// A kind of fault.
    Fault, FaultCounts;
    /// A call did not reach the server, and its connection closed.
    LostCall = "lost call",
    /// A call was executed, and its connection closed before the reply.
    LostReply = "lost reply",
    /// A call took long, perhaps longer than the command timeout.
    DelayedCall = "delayed call",
    /// A reply took long, perhaps longer than the command timeout.
    DelayedReply = "delayed reply",
    /// The server ran one more attempt of an owner that had the record already.
    Resent = "resent call",
    /// A published message did not reach a listener.
    DroppedMessage = "dropped message",
    /// All connections of a client to a node closed.
    Disconnect = "disconnect",
    /// One connection of a client closed, and stayed away for a while.
    LaneCut = "lane cut",
    /// A server was demoted in place, and the address led elsewhere some time later.
    Demotion = "demotion",
    /// A server stood still; what came meanwhile ran afterwards.
    NodeStop = "node stop",
    /// A server refused for a while: LOADING, BUSY or OOM.
    TemporaryError = "temporary error",
    /// A client stood still; what came meanwhile was seen afterwards.
    ClientPause = "client pause",
    /// A client was gone without a word.
    ClientCrash = "client crash",
    /// A client was closed while it was in use.
    ClientClose = "client close",
    /// A caller went away while it waited.
    Cancel = "cancel",
    /// A stranger published what was not so.
    Invention = "invented message",
    /// A stranger deleted a lock's record.
    RecordRemoved = "record removed",
    /// A stranger emptied the server.
    Flush = "flush",
    /// A server's clock was put forward.
    ClockForward = "clock forward",
    /// A server's clock was put back.
    ClockBack = "clock back",
    /// A replica took over that had not heard the last of it.
    Failover = "lossy failover",
}
