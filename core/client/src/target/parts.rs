//! The parts of a URL. No message repeats a part: it may be a password in the wrong place.

use steadlock_protocol::Error;

use crate::errors::invalid;

/// The forms that a URL can have.
pub(super) const URL_FORMS: &str = "give redis://[user:password@]host[:port][/db], rediss://…, redis+cluster://host,host, redis+sentinel://host,host/service, redis+unix:///path, memory:// or memory://name; valkey may stand for redis";

/// The part of a URL between the scheme and the path.
pub(super) struct Authority<'a> {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    /// The text after the last `@`.
    pub(super) address: &'a str,
}

impl<'a> Authority<'a> {
    pub(super) fn parse(authority: &'a str) -> Result<Self, Error> {
        let Some((userinfo, address)) = authority.rsplit_once('@') else {
            return Ok(Self {
                username: None,
                password: None,
                address: authority,
            });
        };
        let (user, password) = match userinfo.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (userinfo, None),
        };
        let user = decode(user)?;
        let password = password
            .map(decode)
            .transpose()?
            .filter(|password| !password.is_empty());
        if !user.is_empty() && password.is_none() {
            return Err(invalid(
                "the URL has a user but no password; give user:password@ or :password@",
            ));
        }
        Ok(Self {
            username: (!user.is_empty()).then_some(user),
            password,
            address,
        })
    }
}

/// Returns the addresses in a comma-separated list, without duplicates.
#[cfg(feature = "native")]
pub(super) fn addresses(listed: &str, default_port: u16) -> Result<Vec<(String, u16)>, Error> {
    let mut nodes = Vec::new();
    for address in listed.split(',') {
        let node = host_and_port(address, default_port)?;
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    Ok(nodes)
}

pub(super) fn host_and_port(address: &str, default_port: u16) -> Result<(String, u16), Error> {
    let (host, port) = host_and_optional_port(address)?;
    Ok((host, port.unwrap_or(default_port)))
}

/// As `host_and_port`, for an address that must have a port; `None` for any other text.
#[cfg(feature = "native")]
pub(crate) fn host_and_required_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = host_and_optional_port(address).ok()?;
    Some((host, port?))
}

pub(super) fn host_and_optional_port(address: &str) -> Result<(String, Option<u16>), Error> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let Some((host, after)) = rest.split_once(']') else {
                return Err(invalid("the URL's IPv6 address has no closing bracket"));
            };
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(invalid("the URL has brackets around something that is no IPv6 address"));
            }
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(invalid("the URL has text after its IPv6 address")),
            }
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if host.is_empty() {
        return Err(invalid(format!("the URL has no host; {URL_FORMS}")));
    }
    if !host
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':'))
    {
        return Err(invalid(
            "the URL's host has letters that no host name has; write @, : and / in a password as %40, %3A and %2F",
        ));
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            // `parse` would accept a sign.
            Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Some(number),
            // The port may be part of a password that contains a slash.
            _ => {
                return Err(invalid(
                    "the URL's port is not a number from 1 to 65535; if it is part of a password, write @, : and / as %40, %3A and %2F",
                ));
            }
        },
    };
    Ok((host.to_owned(), port))
}

pub(super) fn parse_database(text: &str) -> Result<i64, Error> {
    match text.parse::<u32>() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(i64::from(number)),
        _ => Err(invalid("the URL's database is not a number; give /0, /1, …")),
    }
}

pub(super) fn query_pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

pub(super) fn split_off(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// Decodes percent-encoding.
pub(super) fn decode(text: &str) -> Result<String, Error> {
    let refuse = || invalid("the URL has a % that is not followed by two hex digits; write a % as %25");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(refuse);
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).map_err(|_| refuse())?);
    }
    String::from_utf8(bytes).map_err(|_| invalid("the URL's percent-encoding is not UTF-8"))
}

pub(super) fn unknown_query() -> Error {
    invalid("the URL has a ?part that is not known; only ?db=n is, once")
}
