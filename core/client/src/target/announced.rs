//! Where servers are reached that announce addresses of their own network.

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

/// From the addresses that cluster nodes and sentinels announce to those where they are reached
/// from here, as behind NAT, a port forwarding, or out of a Kubernetes cluster.
///
/// A table has entries from `host:port` to `host:port`, or from a host alone to a host alone: any
/// port of it stays as it is. An IPv6 address stands in brackets. Of two entries the one with
/// the port counts. What is not in the table is reached as announced.
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
        expect(dead_code, reason = "nobody announces anything there")
    )]
    Function(Arc<Call>),
}

type Call = dyn Fn(&str) -> Result<Option<String>, String> + Send + Sync;

impl AddressMap {
    /// A function in place of a table. It is given the announced `host:port` (an IPv6 address in
    /// brackets) and says where that is, also as `host:port`, or `None` for "as it is announced".
    ///
    /// It is called before each connection, on a thread that is there for such calls, never on
    /// the one that keeps the locks; several calls may run at a time. It may block: the time
    /// counts to the connection's. One that panics, or says no address, makes that try to
    /// connect fail.
    pub fn by(function: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::by_fallible(move |announced| Ok(function(announced)))
    }

    /// The same of a function that may fail, and then says why.
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
            // It may hold anything, also a URL that was passed in an address's place.
            Source::Table(entries) => write!(f, "AddressMap({} entries)", entries.len()),
            Source::Function(_) => f.write_str("AddressMap(a function)"),
        }
    }
}

/// A map that was checked.
#[derive(Clone, Default)]
pub(crate) enum Mapping {
    /// Everything is where it is announced.
    #[default]
    None,
    #[cfg(feature = "native")]
    Table(Arc<Table>),
    #[cfg(feature = "native")]
    Function(Function),
    /// Something, but nobody announces anything in this build.
    #[cfg(not(feature = "native"))]
    Some,
}

/// A program's function.
#[derive(Clone)]
#[cfg(feature = "native")]
pub(crate) struct Function {
    call: Arc<Call>,
    /// Calls that have not come back, by what they are asked about.
    running: Arc<[AtomicUsize; PLACES]>,
}

/// So many calls about one address may run at a time: one that never comes back keeps its thread, and must
/// not keep others from being asked about. Without a mutex, which a fork might leave locked.
#[cfg(feature = "native")]
pub(crate) const CALLS: usize = 4;
/// The addresses share so many counts.
#[cfg(feature = "native")]
const PLACES: usize = 16;

/// A call of a program's function, on whatever thread.
#[cfg(feature = "native")]
pub(crate) struct Calling {
    function: Function,
    announced: String,
}

#[cfg(feature = "native")]
impl Function {
    /// `None` if too many about this address have not come back.
    pub(crate) fn begin(&self, announced: String) -> Option<Calling> {
        let before = self.count(&announced).fetch_add(1, Ordering::Relaxed);
        let calling = Calling {
            function: self.clone(),
            announced,
        };
        (before < CALLS).then_some(calling)
    }

    fn count(&self, announced: &str) -> &AtomicUsize {
        let mut hasher = DefaultHasher::new();
        hasher.write(announced.as_bytes());
        let place = hasher.finish() % PLACES as u64;
        &self.running[usize::try_from(place).unwrap_or_default()]
    }
}

#[cfg(feature = "native")]
impl Calling {
    pub(crate) fn call(self) -> Result<Option<String>, String> {
        (self.function.call)(&self.announced)
    }
}

#[cfg(feature = "native")]
impl Drop for Calling {
    fn drop(&mut self) {
        self.function.count(&self.announced).fetch_sub(1, Ordering::Relaxed);
    }
}

/// By host and, with or without it, port; hosts in one spelling.
#[cfg(feature = "native")]
type Table = BTreeMap<Entry, Entry>;
#[cfg(feature = "native")]
type Entry = (String, Option<u16>);

#[cfg(feature = "native")]
const FORM: &str = "give host:port for both, or a host alone for both; an IPv6 address in brackets";

#[cfg(feature = "native")]
impl Mapping {
    /// # Errors
    /// `InvalidArgument` for an entry that is not from one address to another. It is not
    /// repeated: it may be a URL with a password.
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
                    .map_err(|_| invalid(format!("address_map has a {side} that is no address; {FORM}")))
            };
            let ((host, port), to) = (read("key", from)?, read("value", to)?);
            if port.is_some() != to.1.is_some() {
                return Err(invalid(format!(
                    "address_map has an entry with a port on one side only; {FORM}"
                )));
            }
            if table.insert((one_spelling(&host), port), to).is_some() {
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

    /// Whether there is anything in it.
    pub(crate) const fn is_given(&self) -> bool {
        !matches!(self, Self::None)
    }
}

#[cfg(feature = "native")]
impl Mapping {
    /// Where a table says that an announced address is reached.
    pub(crate) fn listed(&self, host: &str, port: u16) -> Option<(String, u16)> {
        let Self::Table(table) = self else { return None };
        let host = one_spelling(host);
        let exact = (host, Some(port));
        let (to, to_port) = table.get(&exact).or_else(|| table.get(&(exact.0, None)))?;
        Some((to.clone(), to_port.unwrap_or(port)))
    }

    /// What the program's function says of an announced address.
    pub(crate) const fn function(&self) -> Option<&Function> {
        match self {
            Self::Function(function) => Some(function),
            Self::None | Self::Table(_) => None,
        }
    }
}

/// `CACHE` is `cache`, and `0:0::1` is `::1`.
#[cfg(feature = "native")]
fn one_spelling(host: &str) -> String {
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
    fn an_entry_with_the_port_counts_before_one_of_the_host() {
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
            assert_eq!(map.listed(host, port), reached, "{host} {port}");
        }
    }

    #[test]
    fn an_empty_table_is_none() {
        assert!(!check([]).unwrap().is_given());
        assert!(!Mapping::check(None).unwrap().is_given());
    }

    #[test]
    fn what_maps_no_address_to_another_is_refused_and_not_repeated() {
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
        let twice = check([("H:1", "a:1"), ("h:1", "b:1")]).err().unwrap();
        assert!(twice.message().contains("two entries"), "{twice}");
    }

    #[test]
    #[cfg(feature = "native")]
    fn calls_that_do_not_come_back_are_not_joined_by_ever_more() {
        let map = Mapping::check(Some(AddressMap::by(|_| None))).unwrap();
        let function = map.function().unwrap();
        let begin = |announced: &str| function.begin(announced.to_owned());
        let mut stuck: Vec<Calling> = (0..CALLS).map(|_| begin("h:1").unwrap()).collect();
        for _ in 0..3 {
            assert!(begin("h:1").is_none());
        }
        assert!(begin("another:1").is_some(), "others are asked about");
        assert_eq!(stuck.remove(0).call(), Ok(None));
        assert!(begin("h:1").is_some());
    }

    #[test]
    fn no_entry_is_shown() {
        let map = AddressMap::from([("redis://:sesame@h", "b:1")]);
        assert_eq!(format!("{map:?}"), "AddressMap(1 entries)");
    }
}
