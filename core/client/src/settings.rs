//! The options that a host sets, and the engine's settings that are made from them.

mod metrics;
mod number;
mod options;
#[cfg(test)]
mod tests;

use std::env::VarError;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{
    Breaker, Config, Error, ErrorKind, Identity, KeyPrefix, LeaseDuration, LockName, OnUnavailable, Operation,
};
#[cfg(feature = "admin")]
use steadlock_protocol::{ClientId, Scratch};

pub(crate) use self::metrics::CountedQueue;
use self::number::Number;
pub use self::options::{OptionKind, OptionSource, OptionValue, Options};
use crate::client_identity::{ClientIdentity, IdentityOptions};
use crate::errors::invalid;
use crate::observe::metrics::Grouping;
use crate::observe::{LogLevel, Observers};
use crate::target::{Mapping, Target};
use crate::tls::{TlsOptions, UncheckedTlsOptions};
use crate::world::World;

/// Options that were checked.
pub(crate) struct Settings {
    /// The server, or all primaries of a `redlock` client.
    pub(crate) targets: Vec<Target>,
    pub(crate) lease: LeaseDuration,
    /// Whether the watchdog renews the lease of an acquisition that sets no length.
    pub(crate) renew: bool,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retry_interval: RangeInclusive<Duration>,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "no server announces addresses in this build")
    )]
    pub(crate) address_map: Mapping,
    pub(crate) lazy: bool,
    pub(crate) breaker: Option<Breaker>,
    on_unavailable: OnUnavailable,
    /// The identity that the client reports, if it reports one.
    pub(crate) client_identity: Option<ClientIdentity>,
    /// The environment of the client.
    pub(crate) world: World,
    /// The level of the host's log. It can change at any time.
    pub(crate) log: LogLevel,
    pub(crate) observers: Observers,
    /// `None` if the client counts nothing.
    pub(crate) metrics: Option<Grouping>,
    /// The fair locks whose queues are counted.
    pub(crate) queues: Vec<CountedQueue>,
    key_prefix: KeyPrefix,
}

const NO_BREAKER: &str = "on_unavailable is given and the client has no circuit breaker; give it on_unavailable or \
    breaker_failures, too";
const LOCAL_HAS_NO_MAJORITY: &str = "on_unavailable is local and the client has several primaries, whose locks are never granted without a majority; \
    give fail or skip";
const URL_VARIABLE: &str = "STEADLOCK_URL";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DAY_MS: f64 = 86_400_000.0;

impl Settings {
    pub(crate) fn check(options: Options) -> Result<Self, Error> {
        let breaker = breaker(&options)?;
        let targets = targets(&options)?;
        let address_map = Mapping::check(options.address_map)?;
        if address_map.is_given() && !targets.iter().any(Target::has_announcements) {
            return Err(invalid(
                "address_map is given but the URL is neither redis+cluster:// nor redis+sentinel://; only what servers announce is mapped",
            ));
        }
        let retry_interval = retry_interval(options.retry_interval_ms)?;
        let key_prefix = KeyPrefix::parse(&options.key_prefix.unwrap_or_default())?;
        let has_several_primaries = targets.len() > 1;
        if has_several_primaries && options.on_unavailable == Some(OnUnavailable::Local) {
            return Err(invalid(LOCAL_HAS_NO_MAJORITY));
        }
        let counts_metrics = options.metrics == Some(true);
        Ok(Self {
            client_identity: ClientIdentity::check(IdentityOptions {
                client_info: options.client_info,
                label: options.client_label,
                program: options.program,
                language: options.language,
            })?,
            breaker,
            on_unavailable: options.on_unavailable.unwrap_or_default(),
            targets,
            lease: match options.lease_ms {
                None => LeaseDuration::DEFAULT,
                Some(ms) => LeaseDuration::auto_renewed(duration("the lease", ms, Operation::Connect)?)
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
            lazy: options.lazy.unwrap_or(false),
            world: World::default(),
            log: LogLevel::new(options.log),
            observers: Observers::new(options.observers),
            queues: metrics::queues(
                &key_prefix,
                counts_metrics && !has_several_primaries,
                options.metrics_queues,
            )?,
            metrics: metrics::grouping(counts_metrics, options.metrics_groups, options.metrics_group)?,
            key_prefix,
        })
    }

    /// Returns how an acquisition ends in an outage; `per_call` is the setting of the acquisition, or `None` for that
    /// of the client.
    pub(crate) fn on_unavailable(&self, per_call: Option<OnUnavailable>) -> Result<OnUnavailable, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        match per_call {
            None => Ok(self.on_unavailable),
            Some(_) if self.breaker.is_none() => refuse(NO_BREAKER),
            Some(OnUnavailable::Local) if self.targets.len() > 1 => refuse(LOCAL_HAS_NO_MAJORITY),
            Some(per_call) => Ok(per_call),
        }
    }

    /// Whether the client's store is a private `memory://`, which a forked child cannot reach.
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
        self.client_identity.as_ref().map(|client_identity| Identity {
            info: Arc::new(client_identity.info(&self.world)),
            prefix: self.key_prefix.clone(),
        })
    }

    /// Returns the prefix of every key.
    #[cfg(feature = "native")]
    pub(crate) const fn key_prefix(&self) -> &KeyPrefix {
        &self.key_prefix
    }

    /// Returns two sets of keys and channels that belong to no lock, for testing rights. The second comes from a name
    /// with a brace; it is `None` if the prefix has a brace.
    #[cfg(feature = "admin")]
    pub(crate) fn test_keys(&self) -> (Scratch, Option<Scratch>) {
        let id = ClientId::random(&mut *self.world.entropy());
        (self.key_prefix.scratch(id), self.key_prefix.scratch_with_brace(id))
    }

    /// Returns a full lock name as the caller gave it.
    pub(crate) fn name_without_prefix(&self, name: &LockName) -> Arc<str> {
        self.key_prefix.given(name)
    }

    /// As `name_without_prefix`, but copies nothing.
    pub(crate) fn without_prefix<'a>(&self, name: &'a str) -> &'a str {
        self.key_prefix.strip(name)
    }
}

/// Returns the settings of the circuit breaker, if any option switches it on.
fn breaker(options: &Options) -> Result<Option<Breaker>, Error> {
    if options.breaker_failures.is_none() && options.breaker_pause_ms.is_none() && options.on_unavailable.is_none() {
        return Ok(None);
    }
    let failures = match options.breaker_failures {
        None => Breaker::DEFAULT.failures,
        Some(number) => whole_number(number, 1_000_000).ok_or_else(|| {
            invalid(format!(
                "the circuit breaker's failures are {}; give a whole number from 1 to 1,000,000",
                Number(number)
            ))
        })?,
    };
    let pause = match options.breaker_pause_ms {
        None => Breaker::DEFAULT.pause,
        Some(ms) => timeout("the circuit breaker's pause", ms)?,
    };
    Ok(Some(Breaker { failures, pause }))
}

/// Returns the server that the URL names, or the primaries that several URLs name.
fn targets(options: &Options) -> Result<Vec<Target>, Error> {
    let tls = TlsOptions::check(UncheckedTlsOptions {
        ca: options.tls_ca_file.clone(),
        cert: options.tls_cert_file.clone(),
        key: options.tls_key_file.clone(),
        server_name: options.tls_server_name.clone(),
    })?;
    let Some(primaries) = &options.primaries else {
        let url = options.url.clone().map_or_else(url_from_environment, Ok)?;
        return Ok(vec![Target::parse(&url, &tls)?]);
    };
    if options.url.is_some() {
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
        let target = Target::parse(url, &tls)?;
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
fn url_from_environment() -> Result<String, Error> {
    Err(misconfigured(match std::env::var(URL_VARIABLE) {
        Ok(url) if !url.trim().is_empty() => return Ok(url),
        Err(VarError::NotUnicode(_)) => format!("{URL_VARIABLE} is not UTF-8; percent-encode what is not ASCII"),
        _ => format!("no URL was given; pass one, or set {URL_VARIABLE}"),
    }))
}

/// Returns the shortest and the longest time after which a waiter asks again.
fn retry_interval(interval: Option<(f64, f64)>) -> Result<RangeInclusive<Duration>, Error> {
    let Some((low, high)) = interval else {
        return Ok(Config::RETRY_INTERVAL);
    };
    let low = timeout("the retry interval's lower bound", low)?;
    let high = timeout("the retry interval's upper bound", high)?;
    if low > high {
        return Err(invalid(
            "the retry interval's lower bound is above its upper one; swap them",
        ));
    }
    Ok(low..=high)
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

/// Returns the number if it is whole and from 1 to `most`.
fn whole_number(number: f64, most: u32) -> Option<u32> {
    let is_whole = number.fract() == 0.0 && (1.0..=f64::from(most)).contains(&number);
    is_whole.then_some(number as u32)
}
