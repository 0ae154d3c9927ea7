//! Options in the form of a host, and the settings of the engine that are made of them.

mod metrics;
mod number;
#[cfg(test)]
mod tests;

use std::env::VarError;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    Breaker, Config, Error, ErrorKind, Identity, KeyPrefix, LeaseDuration, LockName, OnUnavailable, Operation, shown,
};
#[cfg(feature = "admin")]
use steadlock_protocol::{ClientId, Scratch};

use self::number::Number;
use crate::errors::invalid;
use crate::introduction::Introduction;
use crate::observe::metrics::Grouping;
use crate::observe::{GroupBy, Level, LogLevel, Observer, Observers};
use crate::target::{AddressMap, Mapping, Target};
use crate::tls::{TlsOptions, shown_path};
use crate::world::World;

/// The options of a client. `None` stands for the default.
#[derive(Clone, Default)]
pub struct Options {
    /// The server's URL: `redis://[user:password@]host[:port][/db]`,
    /// `redis+sentinel://[user:password@]host[:port],host/service[/db]`,
    /// `redis+cluster://[user:password@]host[:port],host`, each with TLS as `rediss…`; `redis+unix:///path[?db=n]`,
    /// `memory://` or `memory://name`. `valkey` is accepted in place of `redis`. Whitespace around the URL is dropped;
    /// whitespace inside and quotes around the URL are refused. Default: the environment variable `STEADLOCK_URL`.
    pub url: Option<String>,
    /// The URLs of several independent primaries, an odd number from 3 to 15. Every lock then is a RedLock, held by a
    /// majority of them, and `url` must not be given.
    pub primaries: Option<Vec<String>>,
    /// The lease length of an acquisition that sets none, 300 ms to 24 h. Default 30,000.
    pub lease_ms: Option<f64>,
    /// Whether the watchdog renews that lease. Default: yes.
    pub renew: Option<bool>,
    /// How long an answer can take. Default 3,000.
    pub command_timeout_ms: Option<f64>,
    /// How long connecting can take. Default 5,000.
    pub connect_timeout_ms: Option<f64>,
    /// A waiter asks again after a random time between these two. Default (500, 750).
    pub retry_interval_ms: Option<(f64, f64)>,
    /// A prefix for every lock's name. The prefixed name is checked; see [`KeyPrefix::parse`]. Default: no prefix.
    pub key_prefix: Option<String>,
    /// A PEM file of the certificate authorities to trust instead of the system's.
    pub tls_ca_file: Option<String>,
    /// A PEM file of the client's certificate, for a server that demands one; intermediate certificates can follow in
    /// the file. Requires `tls_key_file`.
    pub tls_cert_file: Option<String>,
    /// A PEM file of that certificate's private key, which must not be encrypted.
    pub tls_key_file: Option<String>,
    /// The name that every server's certificate must have, also sent as SNI, instead of the host of the connection. Use
    /// it for nodes that announce IP addresses which no certificate names. The name is a host name or an IP address,
    /// without a port; with TLS only.
    pub tls_server_name: Option<String>,
    /// Maps the addresses that cluster nodes and sentinels announce to addresses that the program can reach. Addresses
    /// of the URL are not mapped. Default: as announced.
    pub address_map: Option<AddressMap>,
    /// Whether to connect only at the first use: see [`Host::open`](crate::host::Host::open).
    pub lazy: bool,
    /// The failures in a row that open the circuit breaker of a primary: 1 to 1,000,000. Default: no circuit breaker,
    /// or 5 if one of the next two options is given.
    pub breaker_failures: Option<u32>,
    /// The time between two probes while a breaker is open. Default 10,000, if there are breakers.
    pub breaker_pause_ms: Option<f64>,
    /// How an acquisition ends while the breaker is open; an acquisition can have its own setting. Default:
    /// [`OnUnavailable::Fail`].
    pub on_unavailable: Option<OnUnavailable>,
    /// Whether to tell the servers which program this client is and on which machine, and to ask them which program
    /// holds a lock. Costs a call at the first use, then one every 30 s while the client is in use. Default: yes, if
    /// the program is a process.
    pub client_info: Option<bool>,
    /// A label to report with that, up to 200 characters on one line. Default: no label. Not allowed without
    /// `client_info`.
    pub client_label: Option<String>,
    /// The program's name, as the host's language knows it. Default: the name of the executable.
    pub program: Option<String>,
    /// The host's language, and the version of the language. Default: `rust`.
    pub language: Option<String>,
    /// The lowest level of the lines that arrive as [`Event::Observed`](crate::host::Event::Observed), for the host's
    /// log. `Debug` includes each grant and release, which costs time. Default: no lines.
    /// [`Host::set_log`](crate::host::Host::set_log) changes it.
    pub log: Option<Level>,
    /// Observers to call on the engine's thread. Default: none.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Whether to count for [`Host::metrics`](crate::host::Host::metrics). Default: no, at no cost.
    pub metrics: bool,
    /// The maximum number of groups of locks in the metrics, 1 to 10,000; further groups count as `other`. Default 100.
    /// Only with `metrics`.
    pub metrics_groups: Option<f64>,
    /// The fair locks whose queues on the server are counted, up to 100. The client asks for each queue every 15 s.
    /// Default: none. Only with `metrics`, and not with `primaries`.
    pub metrics_queues: Option<Vec<String>>,
    /// The function that returns the group of a lock. Default: the part of the name before the first `:`. Only with
    /// `metrics`.
    pub metrics_group: Option<GroupBy>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            // A URL can hold a password.
            .field("url", &self.url.as_ref().map(|_| ".."))
            .field("primaries", &self.primaries.as_ref().map(Vec::len))
            .field("lease_ms", &self.lease_ms)
            .field("renew", &self.renew)
            .field("command_timeout_ms", &self.command_timeout_ms)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("retry_interval_ms", &self.retry_interval_ms)
            .field("key_prefix", &self.key_prefix.as_deref().map(shown))
            .field("tls_ca_file", &self.tls_ca_file.as_deref().map(shown_path))
            .field("tls_cert_file", &self.tls_cert_file.as_deref().map(shown_path))
            .field("tls_key_file", &self.tls_key_file.as_deref().map(shown_path))
            // The value can be anything, even a URL.
            .field("tls_server_name", &self.tls_server_name.as_ref().map(|_| ".."))
            .field("address_map", &self.address_map)
            .field("lazy", &self.lazy)
            .field("breaker_failures", &self.breaker_failures)
            .field("breaker_pause_ms", &self.breaker_pause_ms)
            .field("on_unavailable", &self.on_unavailable)
            .field("client_info", &self.client_info)
            .field("client_label", &self.client_label.as_deref().map(shown))
            .field("program", &self.program)
            .field("language", &self.language)
            .field("log", &self.log)
            .field("observers", &self.observers.len())
            .field("metrics", &self.metrics)
            .field("metrics_groups", &self.metrics_groups)
            .field("metrics_queues", &self.metrics_queues.as_ref().map(Vec::len))
            .field("metrics_group", &self.metrics_group)
            .finish()
    }
}

/// Options that were checked.
pub(crate) struct Settings {
    /// The server, or the primaries of a quorum.
    pub(crate) targets: Vec<Target>,
    pub(crate) lease: LeaseDuration,
    /// Whether the watchdog renews the lease.
    pub(crate) renew: bool,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_interval: (Duration, Duration),
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "nobody announces anything there")
    )]
    pub(crate) address_map: Mapping,
    pub(crate) lazy: bool,
    pub(crate) breaker: Option<Breaker>,
    on_unavailable: OnUnavailable,
    /// The identity that the client reports, if it reports one.
    pub(crate) introduction: Option<Introduction>,
    /// The environment of the client.
    pub(crate) world: World,
    /// The level of the host's log. It can change at any time.
    pub(crate) log: LogLevel,
    pub(crate) observers: Observers,
    /// `None` if the client counts nothing.
    pub(crate) metrics: Option<Grouping>,
    /// The fair locks whose queues are counted: the name that the host gave, and the full name.
    pub(crate) queues: Vec<(Arc<str>, LockName)>,
    key_prefix: KeyPrefix,
}

const NO_BREAKER: &str = "on_unavailable is given and the client has no circuit breaker; give it on_unavailable or \
    breaker_failures, too";
const LOCAL_IS_NO_MAJORITY: &str = "on_unavailable is local and the client has several primaries, whose locks are never granted without a majority; \
    give fail or skip";
const URL_VARIABLE: &str = "STEADLOCK_URL";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DAY_MS: f64 = 86_400_000.0;

impl Settings {
    pub(crate) fn check(options: Options) -> Result<Self, Error> {
        let breaker = breaker(&options)?;
        let tls = TlsOptions::new(
            options.tls_ca_file,
            options.tls_cert_file,
            options.tls_key_file,
            options.tls_server_name,
        )?;
        let targets = targets(options.url, options.primaries.as_deref(), &tls)?;
        let address_map = Mapping::check(options.address_map)?;
        if address_map.is_given() && !targets.iter().any(Target::has_announcements) {
            return Err(invalid(
                "address_map is given but the URL is neither redis+cluster:// nor redis+sentinel://; only what servers announce is mapped",
            ));
        }
        let retry_interval = retry_interval(options.retry_interval_ms)?;
        let key_prefix = KeyPrefix::parse(&options.key_prefix.unwrap_or_default())?;
        let (several, local) = (targets.len() > 1, OnUnavailable::Local);
        if several && options.on_unavailable == Some(local) {
            return Err(invalid(LOCAL_IS_NO_MAJORITY));
        }
        Ok(Self {
            introduction: Introduction::check(
                options.client_info,
                options.client_label,
                options.program,
                options.language,
            )?,
            breaker,
            on_unavailable: options.on_unavailable.unwrap_or_default(),
            targets,
            lease: match options.lease_ms {
                None => LeaseDuration::DEFAULT,
                Some(ms) => LeaseDuration::watched(duration("the lease", ms, Operation::Connect)?)
                    .map_err(|error| invalid(error.message()))?,
            },
            renew: options.renew.unwrap_or(true),
            command_timeout: match options.command_timeout_ms {
                None => Config::COMMAND_TIMEOUT,
                Some(ms) => timeout("the command timeout", ms)?,
            },
            connect_timeout: match options.connect_timeout_ms {
                None => CONNECT_TIMEOUT,
                Some(ms) => timeout("the connect timeout", ms)?,
            },
            retry_interval,
            address_map,
            lazy: options.lazy,
            world: World::default(),
            log: LogLevel::new(options.log),
            observers: Observers::new(options.observers),
            queues: metrics::queues(&key_prefix, options.metrics && !several, options.metrics_queues)?,
            metrics: metrics::grouping(options.metrics, options.metrics_groups, options.metrics_group)?,
            key_prefix,
        })
    }

    /// Returns how an acquisition ends in an outage; `own` is the setting of the acquisition.
    pub(crate) fn on_unavailable(&self, own: Option<OnUnavailable>) -> Result<OnUnavailable, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        match own {
            None => Ok(self.on_unavailable),
            Some(_) if self.breaker.is_none() => refuse(NO_BREAKER),
            Some(OnUnavailable::Local) if self.targets.len() > 1 => refuse(LOCAL_IS_NO_MAJORITY),
            Some(own) => Ok(own),
        }
    }

    /// Whether a forked child has no server to connect to.
    pub(crate) const fn is_private(&self) -> bool {
        matches!(self.targets.as_slice(), [target] if target.is_private())
    }

    /// Returns the server as messages name it; all servers if there are several.
    pub(crate) fn server(&self) -> String {
        self.servers().join(", ")
    }

    /// Returns each server as messages name it.
    pub(crate) fn servers(&self) -> Vec<String> {
        self.targets.iter().map(ToString::to_string).collect()
    }

    /// Returns the lock's full name: the prefix, then the name.
    pub(crate) fn lock_name(&self, name: &str) -> Result<LockName, Error> {
        self.key_prefix.name(name)
    }

    /// Returns the identity that a client of this process reports, if it reports one.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.introduction.as_ref().map(|introduction| Identity {
            info: Arc::new(introduction.info(&self.world)),
            prefix: self.key_prefix.clone(),
        })
    }

    /// Returns the prefix of every key.
    #[cfg(feature = "native")]
    pub(crate) const fn key_prefix(&self) -> &KeyPrefix {
        &self.key_prefix
    }

    /// Returns keys and channels that belong to no lock, for testing rights, with and without a brace in their name.
    #[cfg(feature = "admin")]
    pub(crate) fn scratch(&self) -> (Scratch, Option<Scratch>) {
        let id = ClientId::random(&mut *self.world.entropy());
        (self.key_prefix.scratch(id), self.key_prefix.scratch_with_brace(id))
    }

    /// Returns a full lock name as the caller gave it.
    pub(crate) fn given_name(&self, name: &LockName) -> Arc<str> {
        self.key_prefix.given(name)
    }

    /// As `given_name`, for a name in an error.
    pub(crate) fn without_prefix<'a>(&self, name: &'a str) -> &'a str {
        self.key_prefix.strip(name)
    }
}

/// Returns the settings of the circuit breaker, if any option switches it on.
fn breaker(options: &Options) -> Result<Option<Breaker>, Error> {
    if options.breaker_failures.is_none() && options.breaker_pause_ms.is_none() && options.on_unavailable.is_none() {
        return Ok(None);
    }
    let failures = options.breaker_failures.unwrap_or(Breaker::DEFAULT.failures);
    if !(1..=1_000_000).contains(&failures) {
        return Err(invalid(format!(
            "the circuit breaker's failures are {failures}; give 1 to 1,000,000"
        )));
    }
    let pause = match options.breaker_pause_ms {
        None => Breaker::DEFAULT.pause,
        Some(ms) => timeout("the circuit breaker's pause", ms)?,
    };
    Ok(Some(Breaker { failures, pause }))
}

/// Returns the server of a URL, or the primaries of several URLs.
fn targets(url: Option<String>, primaries: Option<&[String]>, tls: &TlsOptions) -> Result<Vec<Target>, Error> {
    let Some(primaries) = primaries else {
        let url = url.map_or_else(url_of_the_environment, Ok)?;
        return Ok(vec![Target::parse(&url, tls)?]);
    };
    if url.is_some() {
        return Err(invalid(
            "one URL and several primaries are given; give the one or the others",
        ));
    }
    if !(3..=15).contains(&primaries.len()) || primaries.len().is_multiple_of(2) {
        return Err(invalid(format!(
            "{} primaries are given; a majority needs an odd number, 3 to 15",
            primaries.len()
        )));
    }
    let mut targets: Vec<Target> = Vec::new();
    for url in primaries {
        let target = Target::parse(url, tls)?;
        if target.is_private() {
            return Err(invalid("a private memory:// is no primary of others; give each a name"));
        }
        if targets.iter().any(|known| known.scheme == target.scheme) {
            return Err(misconfigured(format!(
                "the primary {target} is listed twice; a majority needs independent ones"
            )));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// Returns the URL in the environment. An empty variable counts as absent.
fn url_of_the_environment() -> Result<String, Error> {
    Err(misconfigured(match std::env::var(URL_VARIABLE) {
        Ok(url) if !url.trim().is_empty() => return Ok(url),
        Err(VarError::NotUnicode(_)) => format!("{URL_VARIABLE} is not UTF-8; percent-encode what is not ASCII"),
        _ => format!("no URL was given; pass one, or set {URL_VARIABLE}"),
    }))
}

/// Returns the shortest and the longest time after which a waiter asks again.
fn retry_interval(given: Option<(f64, f64)>) -> Result<(Duration, Duration), Error> {
    let Some((low, high)) = given else {
        return Ok(Config::RETRY_INTERVAL);
    };
    let bounds = (
        timeout("the retry interval's lower bound", low)?,
        timeout("the retry interval's upper bound", high)?,
    );
    if bounds.0 > bounds.1 {
        return Err(invalid(
            "the retry interval's lower bound is above its upper one; swap them",
        ));
    }
    Ok(bounds)
}

fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Operation::Connect, message)
}

/// Returns a number of milliseconds as a duration. Refuses infinity: a caller leaves the option out for "no bound".
pub(crate) fn duration(what: &str, ms: f64, operation: Operation) -> Result<Duration, Error> {
    if !ms.is_finite() || ms < 0.0 {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            operation,
            format!(
                "{what} is {} ms; give a number that is finite and not negative",
                Number(ms)
            ),
        ));
    }
    // A limit of a thousand years is as good as none, and keeps every sum in range.
    let seconds = (ms / 1_000.0).min(31_557_600_000.0);
    Ok(Duration::from_secs_f64(seconds))
}

fn timeout(what: &str, ms: f64) -> Result<Duration, Error> {
    if !(1.0..=DAY_MS).contains(&ms) {
        return Err(invalid(format!("{what} is {} ms; give 1 ms to 24 h", Number(ms))));
    }
    duration(what, ms, Operation::Connect)
}
