//! A server behind a Unix socket.

use std::path::PathBuf;

use steadlock_protocol::Error;

use super::parts::{credentials, decode, pairs, parse_database, split_off, unknown_query};
use crate::errors::invalid;

/// The parts of a URL of such a server.
pub(super) struct Parts {
    pub(super) path: PathBuf,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

/// Parses the text after `redis+unix://` or `unix://`.
pub(super) fn read(rest: &str) -> Result<Parts, Error> {
    let (rest, query) = split_off(rest, '?');
    let Some(slash) = rest.find('/') else {
        return Err(invalid("the URL has no socket path; give redis+unix:///path/to/socket"));
    };
    let (authority, path) = rest.split_at(slash);
    let (username, password, address) = credentials(authority)?;
    if !address.is_empty() {
        return Err(invalid(
            "a unix socket has no host; give redis+unix:///path with three slashes",
        ));
    }
    let mut database = None;
    for (key, value) in pairs(query) {
        match key {
            "db" if database.is_none() => database = Some(parse_database(value)?),
            _ => return Err(unknown_query()),
        }
    }
    Ok(Parts {
        path: PathBuf::from(decode(path)?),
        username,
        password,
        database: database.unwrap_or(0),
    })
}
