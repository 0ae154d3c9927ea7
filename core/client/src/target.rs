//! The meaning of a URL.
//!
//! All parsing of URLs is here, and it is strict: a part that is not understood is refused instead of ignored. No
//! message repeats a part that might hold a password.

mod announced;
mod parts;
#[cfg(feature = "native")]
mod sentinel;
#[cfg(not(target_family = "wasm"))]
mod url_scheme;

use std::fmt;
#[cfg(not(target_family = "wasm"))]
use std::path::PathBuf;

use steadlock_protocol::Error;
#[cfg(not(target_family = "wasm"))]
use steadlock_protocol::ErrorKind;
#[cfg(all(not(feature = "native"), not(target_family = "wasm")))]
use steadlock_protocol::Operation;

pub use self::announced::AddressMap;
#[cfg(feature = "native")]
pub(crate) use self::announced::MAX_CALLS_PER_ADDRESS;
pub(crate) use self::announced::Mapping;
#[cfg(feature = "native")]
use self::parts::addresses;
#[cfg(not(target_family = "wasm"))]
use self::parts::decode;
#[cfg(feature = "native")]
pub(crate) use self::parts::host_and_required_port;
use self::parts::{Authority, host_and_port, parse_database, query_pairs, split_off, unknown_query};
#[cfg(feature = "native")]
use self::sentinel::Credentials;
#[cfg(feature = "admin")]
pub(crate) use self::url_scheme::split_urls;
#[cfg(not(target_family = "wasm"))]
use self::url_scheme::{Family, Protocol};
use crate::errors::invalid;
use crate::tls::{Tls, TlsOptions};

/// One server, or the servers behind one URL, and the credentials for them.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) scheme: Scheme,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
}

/// The sort of the servers, and the addresses by which they are found.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Scheme {
    /// `redis://`, and `rediss://` with TLS. In this and the next schemes, `valkey` means the same as `redis`.
    Tcp { host: String, port: u16, tls: Option<Tls> },
    /// `redis+cluster://`, and `rediss+cluster://` with TLS: some of the cluster's nodes.
    #[cfg(feature = "native")]
    Cluster {
        nodes: Vec<(String, u16)>,
        tls: Option<Tls>,
    },
    /// `redis+sentinel://`, and `rediss+sentinel://` with TLS: sentinels that know the service's primary.
    #[cfg(feature = "native")]
    Sentinel {
        sentinels: Vec<(String, u16)>,
        service: String,
        credentials: Credentials,
        tls: Option<Tls>,
    },
    /// `redis+unix://` or `unix://`.
    #[cfg(not(target_family = "wasm"))]
    Unix { path: PathBuf },
    /// `memory://` for a private store, or `memory://name` for a store that the clients of the process share.
    #[cfg(feature = "native")]
    Memory { name: Option<String> },
    /// `host://name`: a server that the program reaches by a Redis client of its own. Messages use this name.
    #[cfg(not(feature = "native"))]
    Host { name: String },
}

/// A target whose TLS files were not loaded.
#[cfg(feature = "admin")]
#[derive(Clone, Debug)]
pub(crate) struct TargetWithoutTls {
    pub(crate) target: Target,
    /// Whether the URL is one with TLS.
    pub(crate) has_tls: bool,
}

const DEFAULT_PORT: u16 = 6379;

impl Target {
    /// Parses a URL. On WebAssembly only `host://` is known, because the program reaches the servers by its own Redis
    /// client.
    #[cfg(target_family = "wasm")]
    pub(crate) fn parse(url: &str, _: &TlsOptions) -> Result<Self, Error> {
        let refuse = || invalid("the URL's scheme is not known");
        url.strip_prefix("host://").map(Self::host).ok_or_else(refuse)
    }

    /// Parses a URL.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn parse(url: &str, options: &TlsOptions) -> Result<Self, Error> {
        let (protocol, rest) = url_scheme::split_scheme(url)?;
        if let Some(option) = options.first()
            && !protocol.has_tls
        {
            return Err(invalid(format!(
                "{option} is given but the URL is neither rediss:// nor valkeys://; use one with the other"
            )));
        }
        let tls = protocol.has_tls.then(|| Tls::load(options)).transpose()?;
        Self::read(protocol, rest, tls)
    }

    /// As [`Target::parse`], but loads no TLS files.
    #[cfg(feature = "admin")]
    pub(crate) fn without_tls(url: &str) -> Result<TargetWithoutTls, Error> {
        let (protocol, rest) = url_scheme::split_scheme(url)?;
        Ok(TargetWithoutTls {
            target: Self::read(protocol, rest, None)?,
            has_tls: protocol.has_tls,
        })
    }

    #[cfg(not(target_family = "wasm"))]
    fn read(protocol: Protocol, rest: &str, tls: Option<Tls>) -> Result<Self, Error> {
        Self::read_parts(protocol, rest, tls).map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => protocol.unescaped_error(rest).unwrap_or(error),
            _ => error,
        })
    }

    #[cfg(not(target_family = "wasm"))]
    fn read_parts(protocol: Protocol, rest: &str, tls: Option<Tls>) -> Result<Self, Error> {
        if rest.contains('#') {
            return Err(invalid(
                "the URL has a #fragment; leave it out (there is no #insecure: name the server's authority by tls_ca_file), and write a # in a password as %23",
            ));
        }
        match protocol.family {
            Family::Server => Self::tcp(rest, tls),
            Family::Unix => Self::unix(rest),
            #[cfg(feature = "native")]
            Family::Cluster => Self::cluster(rest, tls),
            #[cfg(feature = "native")]
            Family::Sentinel => Self::sentinel(rest, tls),
            #[cfg(feature = "native")]
            Family::Memory => Self::memory(rest),
            #[cfg(not(feature = "native"))]
            Family::Host => Ok(Self::host(rest)),
            #[cfg(not(feature = "native"))]
            Family::Cluster => Err(not_in_this_build(
                "clusters are not part of this build; connect to one server",
            )),
            #[cfg(not(feature = "native"))]
            Family::Sentinel => Err(not_in_this_build(
                "sentinels are not part of this build; connect to the primary",
            )),
            #[cfg(not(feature = "native"))]
            Family::Memory => Err(not_in_this_build(
                "memory:// is not part of this build; connect to a server",
            )),
        }
    }

    fn tcp(rest: &str, tls: Option<Tls>) -> Result<Self, Error> {
        let (rest, query) = split_off(rest, '?');
        let (authority, path) = split_off(rest, '/');
        let Authority {
            username,
            password,
            address,
        } = Authority::parse(authority)?;
        let (host, port) = host_and_port(address, DEFAULT_PORT)?;
        let mut database = path.filter(|path| !path.is_empty()).map(parse_database).transpose()?;
        for (key, value) in query_pairs(query) {
            match key {
                "db" if database.is_none() => database = Some(parse_database(value)?),
                _ => return Err(unknown_query()),
            }
        }
        Ok(Self {
            scheme: Scheme::Tcp { host, port, tls },
            username,
            password,
            database: database.unwrap_or(0),
        })
    }

    #[cfg(not(target_family = "wasm"))]
    fn unix(rest: &str) -> Result<Self, Error> {
        let (rest, query) = split_off(rest, '?');
        let Some(slash) = rest.find('/') else {
            return Err(invalid("the URL has no socket path; give redis+unix:///path/to/socket"));
        };
        let (authority, path) = rest.split_at(slash);
        let Authority {
            username,
            password,
            address,
        } = Authority::parse(authority)?;
        if !address.is_empty() {
            return Err(invalid(
                "a unix socket has no host; give redis+unix:///path with three slashes",
            ));
        }
        let mut database = None;
        for (key, value) in query_pairs(query) {
            match key {
                "db" if database.is_none() => database = Some(parse_database(value)?),
                _ => return Err(unknown_query()),
            }
        }
        Ok(Self {
            scheme: Scheme::Unix {
                path: PathBuf::from(decode(path)?),
            },
            username,
            password,
            database: database.unwrap_or(0),
        })
    }

    #[cfg(feature = "native")]
    fn cluster(rest: &str, tls: Option<Tls>) -> Result<Self, Error> {
        let (rest, query) = split_off(rest, '?');
        let (authority, path) = split_off(rest, '/');
        let authority = Authority::parse(authority)?;
        let nodes = addresses(authority.address, DEFAULT_PORT)?;
        if query.is_some_and(|query| !query.is_empty()) {
            return Err(invalid("the URL of a cluster has a ?part; leave it out"));
        }
        if path.is_some_and(|path| !matches!(path, "" | "0")) {
            return Err(invalid("a cluster has no database but 0; leave out what follows the /"));
        }
        Ok(Self {
            scheme: Scheme::Cluster { nodes, tls },
            username: authority.username,
            password: authority.password,
            database: 0,
        })
    }

    /// Whether the servers announce the addresses of other servers.
    pub(crate) const fn has_announcements(&self) -> bool {
        match self.scheme {
            #[cfg(feature = "native")]
            Scheme::Cluster { .. } | Scheme::Sentinel { .. } => true,
            _ => false,
        }
    }

    /// Whether a server runs the calls of one connection in the order in which they were sent. The program's own Redis
    /// client (`Host`) may change the order.
    pub(crate) const fn keeps_order(&self) -> bool {
        match self.scheme {
            #[cfg(not(feature = "native"))]
            Scheme::Host { .. } => false,
            _ => true,
        }
    }

    /// Whether no other client can use the same store.
    pub(crate) const fn is_private(&self) -> bool {
        match self.scheme {
            #[cfg(feature = "native")]
            Scheme::Memory { name: None } => true,
            _ => false,
        }
    }

    /// Whether the URL of a cluster or of sentinels names this address.
    #[cfg(feature = "native")]
    pub(crate) fn names_address(&self, host: &str, port: u16) -> bool {
        match &self.scheme {
            Scheme::Cluster { nodes: listed, .. } | Scheme::Sentinel { sentinels: listed, .. } => {
                listed.iter().any(|(name, at)| name == host && *at == port)
            }
            Scheme::Tcp { .. } | Scheme::Unix { .. } | Scheme::Memory { .. } => false,
        }
    }

    /// Returns one of the sentinels as a target, with the sentinels' own credentials.
    #[cfg(feature = "native")]
    pub(crate) fn sentinel_target(&self, host: &str, port: u16) -> Self {
        let (credentials, tls) = match &self.scheme {
            Scheme::Sentinel { credentials, tls, .. } => (credentials.clone(), tls.clone()),
            _ => (Credentials::default(), None),
        };
        Self {
            scheme: Scheme::Tcp {
                host: host.to_owned(),
                port,
                tls,
            },
            username: credentials.username,
            password: credentials.password,
            database: 0,
        }
    }

    /// Returns a cluster's node or a service's primary as a target, with this target's credentials.
    #[cfg(feature = "native")]
    pub(crate) fn node_target(&self, host: &str, port: u16) -> Self {
        let tls = match &self.scheme {
            Scheme::Cluster { tls, .. } | Scheme::Sentinel { tls, .. } | Scheme::Tcp { tls, .. } => tls.clone(),
            Scheme::Unix { .. } | Scheme::Memory { .. } => None,
        };
        Self {
            scheme: Scheme::Tcp {
                host: host.to_owned(),
                port,
                tls,
            },
            ..self.clone()
        }
    }

    #[cfg(not(feature = "native"))]
    fn host(name: &str) -> Self {
        Self {
            scheme: Scheme::Host { name: name.to_owned() },
            username: None,
            password: None,
            database: 0,
        }
    }

    #[cfg(feature = "native")]
    fn memory(rest: &str) -> Result<Self, Error> {
        let name = rest.strip_suffix('/').unwrap_or(rest);
        if !name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'))
        {
            return Err(invalid(
                "a memory:// name may have letters, digits, dots, dashes and underscores only",
            ));
        }
        Ok(Self {
            scheme: Scheme::Memory {
                name: (!name.is_empty()).then(|| name.to_owned()),
            },
            username: None,
            password: None,
            database: 0,
        })
    }
}

/// Shows the server as messages name it; never with credentials.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scheme {
            Scheme::Tcp { host, port, .. } => write!(f, "{}", address(host, *port)),
            #[cfg(feature = "native")]
            Scheme::Cluster { nodes, .. } => f.write_str(&list(nodes)),
            #[cfg(feature = "native")]
            Scheme::Sentinel { sentinels, service, .. } => write!(f, "sentinels {} of {service}", list(sentinels)),
            #[cfg(not(target_family = "wasm"))]
            Scheme::Unix { path } => write!(f, "{}", path.display()),
            #[cfg(feature = "native")]
            Scheme::Memory { name } => write!(f, "memory://{}", name.as_deref().unwrap_or_default()),
            #[cfg(not(feature = "native"))]
            Scheme::Host { name } => f.write_str(&steadlock_protocol::shown(name)),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(all(not(feature = "native"), not(target_family = "wasm")))]
fn not_in_this_build(refusal: &str) -> Error {
    Error::new(ErrorKind::Misconfigured, Operation::Connect, refusal)
}

/// Returns a host and a port as text, an IPv6 address in brackets.
pub(crate) fn address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(feature = "native")]
fn list(nodes: &[(String, u16)]) -> String {
    let nodes: Vec<String> = nodes.iter().map(|(host, port)| address(host, *port)).collect();
    nodes.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::UncheckedTlsOptions;

    fn parse(url: &str) -> Target {
        Target::parse(url, &TlsOptions::default()).unwrap()
    }

    fn refuse(url: &str) -> Error {
        Target::parse(url, &TlsOptions::default()).unwrap_err()
    }

    #[test]
    fn a_host_alone_has_the_usual_port_and_database() {
        let target = parse("redis://example");
        assert_eq!(target.to_string(), "example:6379");
        assert_eq!((target.database, target.password), (0, None));
    }

    #[test]
    fn every_part_is_read_and_decoded() {
        let target = parse("rediss://us%65r:p%40ss%2F%3a@[::1]:7000/3");
        assert_eq!(target.username.as_deref(), Some("user"));
        assert_eq!(target.password.as_deref(), Some("p@ss/:"));
        assert_eq!(target.database, 3);
        assert_eq!(target.to_string(), "[::1]:7000");
    }

    #[test]
    fn a_password_without_a_user_is_read() {
        let target = parse("redis://:secret@h");
        assert_eq!((target.username, target.password.as_deref()), (None, Some("secret")));
    }

    #[test]
    fn a_unix_socket_has_a_path_and_a_database() {
        for url in ["redis+unix:///tmp/a%20b.sock?db=2", "unix:///tmp/a%20b.sock?db=2"] {
            let target = parse(url);
            assert_eq!(target.to_string(), "/tmp/a b.sock");
            assert_eq!(target.database, 2);
        }
    }

    #[test]
    fn memory_is_private_or_named() {
        assert_eq!(parse("memory://").scheme, Scheme::Memory { name: None });
        assert_eq!(
            parse("memory://shop").scheme,
            Scheme::Memory {
                name: Some("shop".into())
            }
        );
    }

    #[test]
    fn a_cluster_has_several_nodes_and_one_login() {
        let target = parse("redis+cluster://me:p%2C@a,b:7001,[::1]:7002,a:6379/0");
        assert_eq!(target.to_string(), "a:6379,b:7001,[::1]:7002");
        assert_eq!(target.username.as_deref(), Some("me"));
        assert_eq!(target.password.as_deref(), Some("p,"));
        assert_eq!(target.database, 0);
        for url in [
            "redis+cluster://",
            "redis+cluster://a,,b",
            "redis+cluster://a,b:sesame",
            "redis+cluster://:sesame@a/1",
            "redis+cluster://:sesame@a?db=0",
        ] {
            let error = refuse(url);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}");
            assert!(!error.to_string().contains("sesame"), "{url}: {error}");
        }
    }

    #[test]
    fn malformed_urls_are_refused_and_no_secret_is_repeated() {
        let urls = [
            "",
            "sesame",
            "sesame://h",
            "redis://",
            "redis://:sesame@",
            "redis://user@h",
            "redis://user:sesame@h:0",
            "redis://user:sesame@h:99999",
            "redis://user:sesame@h:+1",
            "redis://user:sesame@h/x",
            "redis://user:sesame@h/1/2",
            "redis://user:se/sesame@h",
            "redis://user:sesame/@h",
            "redis://user:sesame%zz@h",
            "redis://user:sesame%f@h",
            "redis://user:sesame%ff@h",
            "redis://user:sesame@h#insecure",
            "redis://user:sesame#x@h",
            "redis://user:sesame@h?protocol=3",
            "redis://user:sesame@[::1",
            "redis://user:sesame@[nope]",
            "redis://user:sesame@h h",
            "redis+unix://sesame",
            "redis+unix://host/path",
            "memory://sesame@x",
        ];
        for url in urls {
            let error = refuse(url);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}");
            assert!(!error.to_string().contains("sesame"), "{url}: {error}");
            assert!(!format!("{error:?}").contains("sesame"), "{url}");
        }
    }

    #[test]
    fn tls_options_need_rediss() {
        for options in [
            UncheckedTlsOptions {
                ca: Some("/ca.pem".into()),
                ..UncheckedTlsOptions::default()
            },
            UncheckedTlsOptions {
                cert: Some("/cert.pem".into()),
                key: Some("/key.pem".into()),
                ..UncheckedTlsOptions::default()
            },
            UncheckedTlsOptions {
                server_name: Some("cache.example".into()),
                ..UncheckedTlsOptions::default()
            },
        ] {
            let options = TlsOptions::check(options).unwrap();
            for url in ["redis://h", "redis+unix:///h", "memory://"] {
                let error = Target::parse(url, &options).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.message().contains("rediss://"), "{error}");
            }
        }
    }
}
