//! The faults that a history can have, and how often each has struck.

use std::ops::AddAssign;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in the table.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
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

/// How often each kind has struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultCounts(Vec<u64>);

impl Default for FaultCounts {
    fn default() -> Self {
        Self(vec![0; Fault::ALL.len()])
    }
}

impl FaultCounts {
    pub(crate) fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How often this kind has struck.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// The kinds that have not struck.
    #[must_use]
    pub fn missing(&self) -> Vec<Fault> {
        Fault::ALL
            .iter()
            .copied()
            .filter(|fault| self.of(*fault) == 0)
            .collect()
    }
}

impl AddAssign<&Self> for FaultCounts {
    fn add_assign(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }
}
