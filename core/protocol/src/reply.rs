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
    Array(Vec<Reply>),
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
