//! What clients say first: `HELLO`, `AUTH` and `CLIENT`.

use super::connection::Connection;
use super::encode::Protocol;
use crate::commands::unknown_subcommand;
use crate::info::REDIS_VERSION;
use crate::limits::server::NAME_BYTES;
use crate::reply::{Reply, SHOWN_BYTES, StoreError, shown};

type Outcome = Result<Reply, StoreError>;

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub(super) fn hello(connection: &mut Connection, words: &[Vec<u8>]) -> Outcome {
    let protocol = match words.get(1).map(Vec::as_slice) {
        None => connection.protocol,
        Some(b"2") => Protocol::Resp2,
        Some(b"3") => Protocol::Resp3,
        Some(other) if !other.is_empty() && other.iter().all(u8::is_ascii_digit) => {
            return Err(StoreError::parse("NOPROTO unsupported protocol version"));
        }
        Some(_) => return Err(StoreError::err("Protocol version is not an integer or out of range")),
    };
    let (mut credentials, mut name) = (None, None);
    let mut rest = words.get(2..).unwrap_or_default();
    while let [option, after @ ..] = rest {
        match after {
            [user, password, after @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                credentials = Some((user, password));
                rest = after;
            }
            [given, after @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                name = Some(client_name(given)?);
                rest = after;
            }
            _ => {
                let shown = shown(option, SHOWN_BYTES);
                return Err(StoreError::err(format!("Syntax error in HELLO option '{shown}'")));
            }
        }
    }
    if let Some((user, password)) = credentials {
        log_in(connection, user, password)?;
    }
    if !connection.is_authenticated() {
        return Err(StoreError::parse(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
             the same time",
        ));
    }
    connection.protocol = protocol;
    if let Some(name) = name {
        connection.name = name;
    }
    let version = match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let id = i64::try_from(connection.id).unwrap_or(i64::MAX);
    let entry = |name: &str, value: Reply| (Reply::bytes(name), value);
    Ok(Reply::Map(vec![
        // Clients look for this very name.
        entry("server", Reply::bytes("redis")),
        entry("version", Reply::bytes(REDIS_VERSION)),
        entry("proto", Reply::Int(version)),
        entry("id", Reply::Int(id)),
        entry("mode", Reply::bytes("standalone")),
        entry("role", Reply::bytes("master")),
        entry("modules", Reply::Array(Vec::new())),
    ]))
}

/// `AUTH [user] password`
pub(super) fn auth(connection: &mut Connection, words: &[Vec<u8>]) -> Outcome {
    match &words[1..] {
        [_] if connection.password().is_none() => Err(StoreError::err(
            "AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        )),
        [password] => log_in(connection, b"default", password),
        [user, password] => log_in(connection, user, password),
        _ => Err(StoreError::syntax()),
    }
}

fn log_in(connection: &mut Connection, user: &[u8], password: &[u8]) -> Outcome {
    let is_right = connection.password().is_none_or(|right| is_same(right, password));
    if user != b"default" || !is_right {
        return Err(StoreError::parse(
            "WRONGPASS invalid username-password pair or user is disabled.",
        ));
    }
    connection.trust();
    Ok(Reply::OK)
}

/// Takes the same time wherever the difference is.
fn is_same(right: &[u8], given: &[u8]) -> bool {
    let difference = right.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b));
    right.len() == given.len() && difference == 0
}

/// `CLIENT subcommand …`: what clients send when they connect.
pub(super) fn client(connection: &mut Connection, words: &[Vec<u8>]) -> Outcome {
    let subcommand = words[1].to_ascii_lowercase();
    let expects = |count: usize, name: &str| {
        if words.len() == count {
            Ok(())
        } else {
            Err(StoreError::arity(&format!("client|{name}")))
        }
    };
    match subcommand.as_slice() {
        b"id" => {
            expects(2, "id")?;
            Ok(Reply::Int(i64::try_from(connection.id).unwrap_or(i64::MAX)))
        }
        b"getname" => {
            expects(2, "getname")?;
            let name = Some(&connection.name).filter(|name| !name.is_empty());
            Ok(Reply::bytes_or_nil(name.cloned()))
        }
        b"setname" => {
            expects(3, "setname")?;
            connection.name = client_name(&words[2])?;
            Ok(Reply::OK)
        }
        b"setinfo" => {
            expects(4, "setinfo")?;
            Ok(Reply::OK)
        }
        b"info" | b"list" => Ok(Reply::bytes(connection.description())),
        b"no-evict" | b"no-touch" => {
            expects(3, "no-evict")?;
            Ok(Reply::OK)
        }
        b"reply" if words.len() == 3 && words[2].eq_ignore_ascii_case(b"on") => Ok(Reply::OK),
        b"getredir" => Ok(Reply::Int(-1)),
        _ => Err(unknown_subcommand("CLIENT", &words[1])),
    }
}

fn client_name(name: &[u8]) -> Result<Vec<u8>, StoreError> {
    if name.len() > NAME_BYTES {
        return Err(StoreError::err("Client names cannot be so long."));
    }
    if name.iter().all(u8::is_ascii_graphic) {
        Ok(name.to_vec())
    } else {
        Err(StoreError::err(
            "Client names cannot contain spaces, newlines or special characters.",
        ))
    }
}
