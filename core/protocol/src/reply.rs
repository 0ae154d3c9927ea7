//! What a server answers, and what it means.

/// A reply as the transport read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<Self>),
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The server answered with an error.
    Server {
        /// The first word, such as `WRONGTYPE` or `OOM`.
        code: String,
        /// The rest.
        message: String,
    },
    /// The connection closed, or the call could not be sent; the cause in words.
    Disconnected(String),
}

/// What a server's error says about the call it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Refused for good before anything was written.
    BeforeWrite,
    /// The server cannot serve for now; asking again may help.
    Temporary,
    /// Asking again does not help, and something may have been written.
    Permanent,
}

impl Refusal {
    /// Sorts an error by its first word.
    pub(crate) fn of(code: &str) -> Self {
        match code {
            "WRONGTYPE" | "LEASEHOLD_TOKEN" | "LEASEHOLD_ARGUMENT" | "LEASEHOLD_LIMIT" | "NOAUTH" | "WRONGPASS" => {
                Self::BeforeWrite
            }
            "LOADING" | "BUSY" | "MASTERDOWN" | "TRYAGAIN" | "CLUSTERDOWN" | "NOREPLICAS" | "READONLY" | "MISCONF"
            | "OOM" | "NOSCRIPT" | "UNBLOCKED" | "MOVED" | "ASK" => Self::Temporary,
            _ => Self::Permanent,
        }
    }
}
