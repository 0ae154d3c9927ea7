//! The commands with which clients introduce themselves: `HELLO`, `AUTH` and `CLIENT`.

use std::net::SocketAddr;

use crate::commands::unknown_subcommand;
use crate::encode::Protocol;
use crate::info::REDIS_VERSION;
use crate::limits::server::NAME_BYTES;
use crate::reply::{EXCERPT_BYTES, Reply, StoreError, excerpt};

type Outcome = Result<Reply, StoreError>;

/// The client of a connection, and the protocol that it speaks.
pub(super) struct Client {
    id: u64,
    peer: SocketAddr,
    protocol: Protocol,
    /// The client's name; empty if it gave none.
    name: Vec<u8>,
    is_authenticated: bool,
}

impl Client {
    pub(super) fn new(id: u64, peer: SocketAddr, needs_password: bool) -> Self {
        Self {
            id,
            peer,
            protocol: Protocol::Resp2,
            name: Vec::new(),
            is_authenticated: !needs_password,
        }
    }

    /// Forgets everything that the client has set.
    pub(super) fn reset(&mut self, needs_password: bool) {
        *self = Self::new(self.id, self.peer, needs_password);
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns whether the client has logged in, or needs no password.
    pub(super) const fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Executes `HELLO [version [AUTH user password] [SETNAME name]]`. `expected` is the password, if there is one.
    pub(super) fn hello(&mut self, words: &[Vec<u8>], expected: Option<&[u8]>) -> Outcome {
        let protocol = match words.get(1).map(Vec::as_slice) {
            None => self.protocol,
            Some(b"2") => Protocol::Resp2,
            Some(b"3") => Protocol::Resp3,
            Some(other) if !other.is_empty() && other.iter().all(u8::is_ascii_digit) => {
                return Err(StoreError::parse("NOPROTO unsupported protocol version"));
            }
            Some(_) => return Err(StoreError::err("Protocol version is not an integer or out of range")),
        };
        let (credentials, name) = hello_options(words.get(2..).unwrap_or_default())?;
        if let Some((user, password)) = credentials {
            self.log_in(user, password, expected)?;
        }
        if !self.is_authenticated {
            return Err(StoreError::parse(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                 <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                 the same time",
            ));
        }
        self.protocol = protocol;
        if let Some(name) = name {
            self.name = name;
        }
        let version = match protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        let id = i64::try_from(self.id).unwrap_or(i64::MAX);
        let entry = |name: &str, value: Reply| (Reply::bytes(name), value);
        Ok(Reply::Map(vec![
            // Clients expect exactly this name.
            entry("server", Reply::bytes("redis")),
            entry("version", Reply::bytes(REDIS_VERSION)),
            entry("proto", Reply::Int(version)),
            entry("id", Reply::Int(id)),
            entry("mode", Reply::bytes("standalone")),
            entry("role", Reply::bytes("master")),
            entry("modules", Reply::Array(Vec::new())),
        ]))
    }

    /// Executes `AUTH [user] password`.
    pub(super) fn auth(&mut self, words: &[Vec<u8>], expected: Option<&[u8]>) -> Outcome {
        match &words[1..] {
            [_] if expected.is_none() => Err(StoreError::err(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            )),
            [password] => self.log_in(b"default", password, expected),
            [user, password] => self.log_in(user, password, expected),
            _ => Err(StoreError::syntax()),
        }
    }

    fn log_in(&mut self, user: &[u8], password: &[u8], expected: Option<&[u8]>) -> Outcome {
        let is_correct = expected.is_none_or(|expected| is_equal_in_constant_time(expected, password));
        if user != b"default" || !is_correct {
            return Err(StoreError::parse(
                "WRONGPASS invalid username-password pair or user is disabled.",
            ));
        }
        self.is_authenticated = true;
        Ok(Reply::OK)
    }

    /// Executes `CLIENT subcommand …`, for the subcommands that clients send when they connect.
    pub(super) fn client(&mut self, words: &[Vec<u8>], channels: usize) -> Outcome {
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
                Ok(Reply::Int(i64::try_from(self.id).unwrap_or(i64::MAX)))
            }
            b"getname" => {
                expects(2, "getname")?;
                let name = Some(&self.name).filter(|name| !name.is_empty());
                Ok(Reply::bytes_or_nil(name.cloned()))
            }
            b"setname" => {
                expects(3, "setname")?;
                self.name = client_name(&words[2])?;
                Ok(Reply::OK)
            }
            b"setinfo" => {
                expects(4, "setinfo")?;
                Ok(Reply::OK)
            }
            b"info" | b"list" => Ok(Reply::bytes(self.description(channels))),
            b"no-evict" | b"no-touch" => {
                expects(3, "no-evict")?;
                Ok(Reply::OK)
            }
            b"reply" if words.len() == 3 && words[2].eq_ignore_ascii_case(b"on") => Ok(Reply::OK),
            b"getredir" => Ok(Reply::Int(-1)),
            _ => Err(unknown_subcommand("CLIENT", &words[1])),
        }
    }

    /// Returns the line of `CLIENT LIST`.
    fn description(&self, channels: usize) -> String {
        let version = match self.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        format!(
            "id={} addr={} name={} db=0 sub={channels} psub=0 user=default resp={version}\n",
            self.id,
            self.peer,
            String::from_utf8_lossy(&self.name),
        )
    }
}

/// The user and password, and the name, that a `HELLO` can contain.
type HelloOptions<'a> = (Option<(&'a [u8], &'a [u8])>, Option<Vec<u8>>);

fn hello_options(mut rest: &[Vec<u8>]) -> Result<HelloOptions<'_>, StoreError> {
    let (mut credentials, mut name) = (None, None);
    while let [option, after @ ..] = rest {
        match after {
            [user, password, after @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                credentials = Some((user.as_slice(), password.as_slice()));
                rest = after;
            }
            [given, after @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                name = Some(client_name(given)?);
                rest = after;
            }
            _ => {
                let excerpt = excerpt(option, EXCERPT_BYTES);
                return Err(StoreError::err(format!("Syntax error in HELLO option '{excerpt}'")));
            }
        }
    }
    Ok((credentials, name))
}

/// Returns whether a password is correct. The time does not depend on where the first difference is.
#[must_use]
pub fn is_equal_in_constant_time(expected: &[u8], given: &[u8]) -> bool {
    let difference = expected.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b));
    expected.len() == given.len() && difference == 0
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
