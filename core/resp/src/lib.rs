//! RESP, the wire format of Redis and Valkey, in both directions.
//!
//! A client writes [`commands`] and reads [`replies`]; a server reads commands and writes replies. Both formats have a
//! line `KIND NUMBER \r\n` that announces a length or a count, and a string of bytes that follows its length.
//!
//! Each reader has limits, because a peer chooses the length of what it sends. The limits are lower before the login.
//! Neither reader reserves much memory for bytes that were announced and have not arrived.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod commands;
mod parts;
pub mod replies;
#[cfg(test)]
mod vectors;
