//! The replies of the store.

use std::borrow::Cow;
use std::fmt;

use steadlock_protocol as protocol;

use crate::limits::{Limits, REPLY_ITEM_BYTES};

/// A reply, with the types of RESP3. A RESP2 client receives the nearest type of RESP2.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// No value.
    Nil,
    /// No value, in place of a list.
    NilArray,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A string of bytes.
    Bytes(Vec<u8>),
    /// A status, such as `OK`.
    Status(Cow<'static, str>),
    /// Several replies.
    Array(Vec<Self>),
    /// Several replies without an order.
    Set(Vec<Self>),
    /// Keys and values; a flat list in RESP2 and in Lua.
    Map(Vec<(Self, Self)>),
    /// A list of pairs; a flat list in RESP2 and in Lua.
    Pairs(Vec<(Self, Self)>),
    /// A refusal.
    Error(StoreError),
}

impl Reply {
    /// `OK`.
    pub const OK: Self = Self::Status(Cow::Borrowed("OK"));

    pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(bytes.into())
    }

    pub(crate) fn bytes_or_nil<B: Into<Vec<u8>>>(bytes: Option<B>) -> Self {
        bytes.map_or(Self::Nil, |bytes| Self::Bytes(bytes.into()))
    }

    pub(crate) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns the approximate memory of the reply.
    #[cfg(feature = "server")]
    pub(crate) fn memory(&self) -> usize {
        let content = match self {
            Self::Nil | Self::NilArray | Self::Int(_) | Self::Double(_) => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Status(status) => status.len(),
            Self::Error(error) => error.message.len(),
            Self::Array(items) | Self::Set(items) => items.iter().map(Self::memory).sum(),
            Self::Map(pairs) | Self::Pairs(pairs) => pairs.iter().map(|(a, b)| a.memory() + b.memory()).sum(),
        };
        content + REPLY_ITEM_BYTES
    }

    pub(crate) const fn flag(flag: bool) -> Self {
        Self::Int(flag as i64)
    }

    /// Returns the reply, or the refusal as an error.
    ///
    /// # Errors
    /// Returns the store's refusal.
    pub fn into_result(self) -> Result<Self, StoreError> {
        match self {
            Self::Error(error) => Err(error),
            reply => Ok(reply),
        }
    }
}

/// Converts a reply to the form that a RESP2 client reads. A refusal becomes its text.
impl From<Reply> for protocol::Reply {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Nil | Reply::NilArray => Self::Nil,
            Reply::Int(number) => Self::Int(number),
            Reply::Double(number) => Self::Bytes(crate::float::format(number).into_bytes()),
            Reply::Bytes(bytes) => Self::Bytes(bytes),
            Reply::Status(status) => Self::Bytes(status.into_owned().into_bytes()),
            Reply::Array(items) | Reply::Set(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Reply::Map(pairs) | Reply::Pairs(pairs) => Self::Array(
                pairs
                    .into_iter()
                    .flat_map(|(key, value)| [Self::from(key), Self::from(value)])
                    .collect(),
            ),
            Reply::Error(error) => Self::Bytes(error.to_string().into_bytes()),
        }
    }
}

/// The remaining budget of a reply while it is built.
pub(crate) struct ReplyBudget {
    items: usize,
    bytes: usize,
}

impl ReplyBudget {
    pub(crate) const fn new(limits: &Limits) -> Self {
        Self {
            items: limits.reply_items,
            bytes: limits.reply_bytes,
        }
    }

    /// Takes one element with this many bytes from the budget.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), StoreError> {
        let left = self.bytes.checked_sub(bytes.saturating_add(REPLY_ITEM_BYTES));
        let (Some(bytes), Some(items)) = (left, self.items.checked_sub(1)) else {
            return Err(StoreError::reply_too_large());
        };
        (self.bytes, self.items) = (bytes, items);
        Ok(())
    }

    /// Takes elements with these lengths from the budget.
    pub(crate) fn spend_all(&mut self, mut lengths: impl Iterator<Item = usize>) -> Result<(), StoreError> {
        lengths.try_for_each(|bytes| self.spend(bytes))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<Reply, StoreError> {
        self.spend(bytes.len())?;
        Ok(Reply::bytes(bytes))
    }

    pub(crate) fn bytes_or_nil(&mut self, bytes: Option<&Vec<u8>>) -> Result<Reply, StoreError> {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.spend(0).map(|()| Reply::Nil),
        }
    }
}

/// A refusal: its first word and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// The first word, such as `ERR`, `WRONGTYPE` or `NOSCRIPT`.
    pub code: String,
    /// The rest of the text.
    pub message: String,
}

impl StoreError {
    /// Parses an error text. Its first word becomes the code.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = one_line(text);
        let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
        Self {
            code: code.into(),
            message: message.into(),
        }
    }

    /// Returns an error with the code `ERR`.
    pub(crate) fn err(message: impl Into<String>) -> Self {
        Self {
            code: "ERR".into(),
            message: one_line(&message.into()).into_owned(),
        }
    }

    pub(crate) fn syntax() -> Self {
        Self::err("syntax error")
    }

    pub(crate) fn not_an_integer() -> Self {
        Self::err("value is not an integer or out of range")
    }

    pub(crate) fn wrong_type() -> Self {
        Self::parse("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    pub(crate) fn arity(command: &str) -> Self {
        Self::err(format!("wrong number of arguments for '{command}' command"))
    }

    pub(crate) fn out_of_memory() -> Self {
        Self::parse("OOM command not allowed when used memory > 'maxmemory'.")
    }

    pub(crate) fn value_too_large() -> Self {
        Self::err("string exceeds maximum allowed size (proto-max-bulk-len)")
    }

    pub(crate) fn reply_too_large() -> Self {
        Self::err("the reply is too large for this development server")
    }

    pub(crate) fn too_slow() -> Self {
        Self::parse("BUSY it took too long and was ended")
    }

    pub(crate) fn no_script() -> Self {
        Self::parse("NOSCRIPT No matching script. Please use EVAL.")
    }
}

/// Returns a client's input for an error message: up to the first NUL, as in C, and at most `most` bytes.
pub(crate) fn excerpt(bytes: &[u8], most: usize) -> Cow<'_, str> {
    let bytes = &bytes[..bytes.len().min(most)];
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end])
}

/// The most bytes of a word that an error message repeats.
pub(crate) const EXCERPT_BYTES: usize = 128;

/// Removes the line breaks at the end and replaces all others, because a line break would end an error reply early.
fn one_line(text: &str) -> Cow<'_, str> {
    let text = text.trim_end_matches(['\r', '\n']);
    if text.contains(['\r', '\n']) {
        text.replace(['\r', '\n'], " ").into()
    } else {
        text.into()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code)?;
        if !self.message.is_empty() {
            write!(f, " {}", self.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for protocol::CallError {
    fn from(error: StoreError) -> Self {
        Self::server(&error.code, &error.message)
    }
}
