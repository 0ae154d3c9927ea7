//! Maps addresses that servers announce for their own network.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
#[cfg(feature = "native")]
use std::hash::{DefaultHasher, Hasher as _};
#[cfg(feature = "native")]
use std::net::Ipv6Addr;
use std::sync::Arc;
#[cfg(feature = "native")]
use std::sync::atomic::{AtomicUsize, Ordering};

use steadlock_protocol::Error;

#[cfg(feature = "native")]
use super::parts::host_and_optional_port;
#[cfg(feature = "native")]
use crate::errors::invalid;
#[cfg(feature = "native")]
use crate::process::PerProcess;

/// A map from the addresses that cluster nodes and sentinels announce to addresses that this program can reach, for
/// example across NAT, through port forwarding, or from outside a Kubernetes cluster.
///
/// A table maps `host:port` to `host:port`, or a host alone to a host alone; the port then stays the same. An IPv6
/// address stands in brackets. An entry with the port takes precedence over one of the host alone. An address that is
/// not in the table is used as announced.
///
/// ```
/// use steadlock::Client;
///
/// let builder = Client::builder()
///     .url("redis+cluster://localhost:7001")
///     .address_map([("10.0.0.1:6379", "localhost:7001"), ("10.0.0.2:6379", "localhost:7002")]);
/// ```
#[derive(Clone)]
pub struct AddressMap(Source);

#[derive(Clone)]
enum Source {
    Table(Vec<(String, String)>),
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "no server announces addresses in this build")
    )]
    Function(Arc<Call>),
}

type Call = dyn Fn(&str) -> Result<Option<String>, String> + Send + Sync;

impl AddressMap {
    /// Makes a map of a function. Its argument is the announced `host:port` (an IPv6 address in brackets). The function
    /// returns the address to use, also as `host:port`, or `None` to use the announced one.
    ///
    /// The client calls the function before each attempt to connect to an announced server, on a thread for blocking
    /// work and never on the one that drives the engine. Several calls can run at a time. The function may block: its
    /// time counts towards the connect timeout. If the function panics, or returns something that is no address, that
    /// attempt to connect fails.
    pub fn by(function: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::by_fallible(move |announced| Ok(function(announced)))
    }

    /// Makes a map of a function that can fail. The attempt to connect then fails, and its error has the text that the
    /// function returned.
    pub fn by_fallible(function: impl Fn(&str) -> Result<Option<String>, String> + Send + Sync + 'static) -> Self {
        Self(Source::Function(Arc::new(function)))
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for AddressMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(from, to)| (from.into(), to.into()));
        Self(Source::Table(entries.collect()))
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for AddressMap {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Into<String>, V: Into<String>> From<Vec<(K, V)>> for AddressMap {
    fn from(entries: Vec<(K, V)>) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Into<String>, V: Into<String>> From<BTreeMap<K, V>> for AddressMap {
    fn from(entries: BTreeMap<K, V>) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Into<String>, V: Into<String>, S> From<HashMap<K, V, S>> for AddressMap {
    fn from(entries: HashMap<K, V, S>) -> Self {
        entries.into_iter().collect()
    }
}

impl fmt::Debug for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // The table can hold anything, even a URL that was passed in place of an address.
            Source::Table(entries) => write!(f, "AddressMap({} entries)", entries.len()),
            Source::Function(_) => f.write_str("AddressMap(a function)"),
        }
    }
}

/// A map that was checked.
#[derive(Clone, Default)]
pub(crate) enum Mapping {
    /// Every address is used as announced.
    #[default]
    None,
    #[cfg(feature = "native")]
    Table(Arc<Table>),
    #[cfg(feature = "native")]
    Function(Function),
    /// A map was given, but no server announces addresses in this build.
    #[cfg(not(feature = "native"))]
    Some,
}

/// The program's function.
#[derive(Clone)]
#[cfg(feature = "native")]
pub(crate) struct Function {
    call: Arc<Call>,
    /// The numbers of running calls, by the hash of the address. Several addresses can share a count.
    running: Arc<PerProcess<[AtomicUsize; COUNTERS]>>,
}

/// The limit of running calls for one address. A call that never returns keeps its thread, so a limit leaves threads
/// for other addresses. Each process has counts of its own, because the calls of a parent do not go on in its forks.
#[cfg(feature = "native")]
pub(crate) const MAX_CALLS_PER_ADDRESS: usize = 4;
/// The number of counts in `Function::running`.
#[cfg(feature = "native")]
const COUNTERS: usize = 16;

/// One call of the program's function, on any thread.
#[cfg(feature = "native")]
pub(crate) struct PendingCall {
    function: Function,
    announced: String,
}

#[cfg(feature = "native")]
impl Function {
    /// Returns a call, or `None` if too many calls for this address are still running.
    pub(crate) fn try_begin(&self, announced: String) -> Option<PendingCall> {
        let before = self.count(&announced).fetch_add(1, Ordering::Relaxed);
        let pending_call = PendingCall {
            function: self.clone(),
            announced,
        };
        (before < MAX_CALLS_PER_ADDRESS).then_some(pending_call)
    }

    fn count(&self, announced: &str) -> &AtomicUsize {
        let mut hasher = DefaultHasher::new();
        hasher.write(announced.as_bytes());
        let index = hasher.finish() % COUNTERS as u64;
        &self.running[usize::try_from(index).unwrap_or_default()]
    }
}

#[cfg(feature = "native")]
impl PendingCall {
    pub(crate) fn call(self) -> Result<Option<String>, String> {
        (self.function.call)(&self.announced)
    }
}

#[cfg(feature = "native")]
impl Drop for PendingCall {
    fn drop(&mut self) {
        self.function.count(&self.announced).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The entries by host and optional port. The hosts of the keys are `normalized`.
#[cfg(feature = "native")]
type Table = BTreeMap<Entry, Entry>;
#[cfg(feature = "native")]
type Entry = (String, Option<u16>);

#[cfg(feature = "native")]
const ENTRY_FORMS: &str = "give host:port for both, or a host alone for both; an IPv6 address in brackets";

#[cfg(feature = "native")]
impl Mapping {
    /// Checks a map.
    ///
    /// # Errors
    /// `InvalidArgument` for an entry that does not map one address to another, and for two entries of one address. The
    /// message does not repeat the entry, which may be a URL with a password.
    pub(crate) fn check(map: Option<AddressMap>) -> Result<Self, Error> {
        let entries = match map.map(|map| map.0) {
            None => return Ok(Self::None),
            Some(Source::Function(call)) => {
                return Ok(Self::Function(Function {
                    call,
                    running: Arc::default(),
                }));
            }
            Some(Source::Table(entries)) => entries,
        };
        let mut table = Table::new();
        for (from, to) in &entries {
            let read = |side: &str, text: &str| {
                host_and_optional_port(text)
                    .map_err(|_| invalid(format!("address_map has a {side} that is no address; {ENTRY_FORMS}")))
            };
            let ((host, port), to) = (read("key", from)?, read("value", to)?);
            if port.is_some() != to.1.is_some() {
                return Err(invalid(format!(
                    "address_map has an entry with a port on one side only; {ENTRY_FORMS}"
                )));
            }
            if table.insert((normalized(&host), port), to).is_some() {
                return Err(invalid("address_map has two entries for one address; leave one out"));
            }
        }
        Ok(if table.is_empty() {
            Self::None
        } else {
            Self::Table(Arc::new(table))
        })
    }
}

impl Mapping {
    #[cfg(not(feature = "native"))]
    pub(crate) fn check(map: Option<AddressMap>) -> Result<Self, Error> {
        Ok(match map.map(|map| map.0) {
            None => Self::None,
            Some(Source::Table(entries)) if entries.is_empty() => Self::None,
            Some(_) => Self::Some,
        })
    }

    /// Whether a map was given.
    pub(crate) const fn is_given(&self) -> bool {
        !matches!(self, Self::None)
    }
}

#[cfg(feature = "native")]
impl Mapping {
    /// Returns the address that the table has for an announced one; `None` if there is no entry, or no table.
    pub(crate) fn lookup(&self, host: &str, port: u16) -> Option<(String, u16)> {
        let Self::Table(table) = self else { return None };
        let host = normalized(host);
        let exact_key = (host, Some(port));
        let (to, to_port) = table.get(&exact_key).or_else(|| table.get(&(exact_key.0, None)))?;
        Some((to.clone(), to_port.unwrap_or(port)))
    }

    /// Returns the program's function, if the map is one.
    pub(crate) const fn function(&self) -> Option<&Function> {
        match self {
            Self::Function(function) => Some(function),
            Self::None | Self::Table(_) => None,
        }
    }
}

/// Returns one spelling of a host: `CACHE` becomes `cache`, and `0:0::1` becomes `::1`.
#[cfg(feature = "native")]
fn normalized(host: &str) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;

    fn check<const N: usize>(entries: [(&str, &str); N]) -> Result<Mapping, Error> {
        Mapping::check(Some(entries.into()))
    }

    #[test]
    fn an_entry_with_the_port_takes_precedence_over_one_of_the_host() {
        let map = check([
            ("10.0.0.1:6379", "localhost:7001"),
            ("10.0.0.1", "near"),
            ("[0:0::1]:7000", "[::2]:1"),
            ("Node-1.Cache", "127.0.0.1"),
            ("[::7]", "h"),
        ])
        .unwrap();
        for (host, port, reached) in [
            ("10.0.0.1", 6379, Some(("localhost", 7001))),
            ("10.0.0.1", 6380, Some(("near", 6380))),
            ("::1", 7000, Some(("::2", 1))),
            ("::1", 7001, None),
            ("node-1.cache", 9, Some(("127.0.0.1", 9))),
            ("0::7", 9, Some(("h", 9))),
            ("10.0.0.2", 6379, None),
        ] {
            let reached = reached.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(map.lookup(host, port), reached, "{host} {port}");
        }
    }

    #[test]
    fn an_empty_table_is_none() {
        assert!(!check([]).unwrap().is_given());
        assert!(!Mapping::check(None).unwrap().is_given());
    }

    #[test]
    fn an_entry_that_is_no_pair_of_addresses_is_refused_and_not_repeated() {
        for (from, to) in [
            ("", "sesame:1"),
            ("sesame:1", ""),
            ("sesame", "sesame:1"),
            ("sesame:1", "sesame"),
            ("sesame:0", "h:1"),
            ("sesame:x", "h:1"),
            ("h:1", "sesame:99999"),
            ("::1", "h"),
            ("::1:7000", "h:7000"),
            ("[::1", "h"),
            ("[sesame]:1", "h:1"),
            ("redis://:sesame@h:1", "h:1"),
            ("h:1", "redis://:sesame@h:1"),
            ("sesame:1 ", "h:1"),
            ("h,sesame", "h"),
        ] {
            let error = check([(from, to)]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{from} {to}");
            assert!(error.message().contains("address_map"), "{error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
        }
        let duplicate = check([("H:1", "a:1"), ("h:1", "b:1")]).err().unwrap();
        assert!(duplicate.message().contains("two entries"), "{duplicate}");
    }

    #[test]
    #[cfg(feature = "native")]
    fn calls_that_never_return_are_limited_for_each_address() {
        let map = Mapping::check(Some(AddressMap::by(|_| None))).unwrap();
        let function = map.function().unwrap();
        let try_begin = |announced: &str| function.try_begin(announced.to_owned());
        let mut unfinished: Vec<PendingCall> = (0..MAX_CALLS_PER_ADDRESS).map(|_| try_begin("h:1").unwrap()).collect();
        for _ in 0..3 {
            assert!(try_begin("h:1").is_none());
        }
        assert!(try_begin("another:1").is_some(), "calls for another address run");
        assert_eq!(unfinished.remove(0).call(), Ok(None));
        assert!(try_begin("h:1").is_some());
    }

    #[test]
    fn no_entry_is_shown() {
        let map = AddressMap::from([("redis://:sesame@h", "b:1")]);
        assert_eq!(format!("{map:?}"), "AddressMap(1 entries)");
    }
}
