//! The options of a client, in one table. Every language sets an option by its name in the table.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use steadlock_protocol::{Error, OnUnavailable, shown};

use crate::errors::invalid;
use crate::observe::{GroupBy, Level, Observer};
use crate::target::AddressMap;
use crate::tls::shown_path;

/// The value of an option, as a language binding passes it.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// Yes or no.
    Flag(bool),
    /// A number, or a duration in milliseconds.
    Number(f64),
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// The shortest and the longest duration, in milliseconds.
    Range(f64, f64),
    /// A map from one text to another.
    Table(HashMap<String, String>),
}

/// Which values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// [`OptionValue::Flag`].
    Flag,
    /// [`OptionValue::Number`].
    Number,
    /// [`OptionValue::Text`].
    Text,
    /// [`OptionValue::Texts`].
    Texts,
    /// [`OptionValue::Range`].
    Range,
    /// [`OptionValue::Table`].
    Table,
    /// The [`OptionValue::Text`] of an [`OnUnavailable`].
    OnUnavailable,
}

impl OptionKind {
    /// The name of the kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Number => "number",
            Self::Text => "text",
            Self::Texts => "texts",
            Self::Range => "range",
            Self::Table => "table",
            Self::OnUnavailable => "on_unavailable",
        }
    }
}

/// The Rust type of an option's values, how a value is taken from an [`OptionValue`] or read from an [`OptionSource`],
/// and how much of it a log may show.
trait Kind {
    const KIND: OptionKind;
    type Value;

    fn take(value: OptionValue) -> Option<Self::Value>;
    fn read(source: &impl OptionSource, name: &str) -> Option<Self::Value>;
    fn show(value: &Self::Value) -> impl fmt::Debug;
}

/// The options that a program gave to a binding, by their names in the core. Each method returns `None` for an option
/// that was not given.
pub trait OptionSource {
    /// Returns the value of an [`OptionKind::Flag`].
    fn flag(&self, name: &str) -> Option<bool>;
    /// Returns the value of an [`OptionKind::Number`].
    fn number(&self, name: &str) -> Option<f64>;
    /// Returns the value of an [`OptionKind::Text`] or an [`OptionKind::OnUnavailable`].
    fn text(&self, name: &str) -> Option<String>;
    /// Returns the value of an [`OptionKind::Texts`].
    fn texts(&self, name: &str) -> Option<Vec<String>>;
    /// Returns the value of an [`OptionKind::Range`].
    fn range(&self, name: &str) -> Option<(f64, f64)>;
}

/// Implements [`Kind`] for a new type.
macro_rules! kind {
    (
        $name:ident: $kind:ident, $type:ty;
        take $taken:pat => $value:expr;
        read |$source:ident, $key:ident| $read:expr;
        show |$shown:ident| $show:expr;
    ) => {
        struct $name;
        impl Kind for $name {
            const KIND: OptionKind = OptionKind::$kind;
            type Value = $type;
            fn take(value: OptionValue) -> Option<$type> {
                match value {
                    $taken => $value,
                    _ => None,
                }
            }
            fn read($source: &impl OptionSource, $key: &str) -> Option<$type> {
                $read
            }
            fn show($shown: &$type) -> impl fmt::Debug {
                $show
            }
        }
    };
}

kind! {
    Flag: Flag, bool;
    take OptionValue::Flag(flag) => Some(flag);
    read |source, name| source.flag(name);
    show |flag| *flag;
}
kind! {
    Number: Number, f64;
    take OptionValue::Number(number) => Some(number);
    read |source, name| source.number(name);
    show |number| *number;
}
kind! {
    Range: Range, (f64, f64);
    take OptionValue::Range(low, high) => Some((low, high));
    read |source, name| source.range(name);
    show |range| *range;
}
kind! {
    Text: Text, String;
    take OptionValue::Text(text) => Some(text);
    read |source, name| source.text(name);
    show |text| shown(text).into_owned();
}
// The value can be a URL with a password.
kind! {
    Secret: Text, String;
    take OptionValue::Text(text) => Some(text);
    read |source, name| source.text(name);
    show |_text| "..";
}
kind! {
    File: Text, String;
    take OptionValue::Text(text) => Some(text);
    read |_source, _name| None;
    show |path| shown_path(path).to_string();
}
kind! {
    Texts: Texts, Vec<String>;
    take OptionValue::Texts(texts) => Some(texts);
    read |source, name| source.texts(name);
    show |texts| texts.len();
}
kind! {
    Table: Table, AddressMap;
    take OptionValue::Table(table) => Some(table.into());
    read |_source, _name| None;
    show |map| map.clone();
}
kind! {
    Policy: OnUnavailable, OnUnavailable;
    take OptionValue::Text(word) => OnUnavailable::parse(&word);
    read |source, name| OnUnavailable::parse(&source.text(name)?);
    show |policy| *policy;
}
kind! {
    LogLines: Text, Level;
    take OptionValue::Text(word) => Level::parse(&word);
    read |_source, _name| None;
    show |level| *level;
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty as $kind:ident,)*) => {
        /// The options of a client. `None` stands for the default.
        #[derive(Clone, Default)]
        pub struct Options {
            $($(#[$doc])* pub $name: Option<$type>,)*
            /// Observers to call on the thread that drives the engine. Default: none.
            pub observers: Vec<Arc<dyn Observer>>,
            /// The function that returns the group of a lock. Default: the part of the name before the first `:`. Only
            /// with `metrics`.
            pub metrics_group: Option<GroupBy>,
        }

        impl Options {
            /// The options that [`Options::set`] knows, with what each takes.
            pub const ALL: &[(&str, OptionKind)] = &[$((stringify!($name), $kind::KIND),)*];

            /// Reads the options that a client on WebAssembly can have: all but files, tables and the level of the log.
            /// [`Options::set`] would add three kilobytes to the code that a browser loads.
            pub fn read(source: &impl OptionSource) -> Self {
                Self {
                    $($name: $kind::read(source, stringify!($name)),)*
                    ..Self::default()
                }
            }

            /// Sets the option of this name.
            ///
            /// # Errors
            /// `InvalidArgument` if there is no such option, or it takes no such value.
            pub fn set(&mut self, name: &str, value: OptionValue) -> Result<(), Error> {
                match name {
                    $(stringify!($name) => {
                        let value = $kind::take(value).ok_or_else(|| wrong_kind(name, $kind::KIND))?;
                        self.$name = Some(value);
                    })*
                    _ => return Err(invalid(format!("there is no option {}", shown(name)))),
                }
                Ok(())
            }
        }

        impl fmt::Debug for Options {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Options")
                    $(.field(stringify!($name), &self.$name.as_ref().map($kind::show)))*
                    .field("observers", &self.observers.len())
                    .field("metrics_group", &self.metrics_group)
                    .finish()
            }
        }
    };
}

fn wrong_kind(name: &str, kind: OptionKind) -> Error {
    invalid(format!(
        "the option {name} takes no such value, but a {}",
        kind.as_str()
    ))
}

options! {
    /// The server's URL: `redis://[user:password@]host[:port][/db]`,
    /// `redis+sentinel://[user:password@]host[:port],host/service[/db]`,
    /// `redis+cluster://[user:password@]host[:port],host`, each with TLS as `rediss…`; `redis+unix:///path[?db=n]`,
    /// `memory://` or `memory://name`. `valkey` is accepted in place of `redis`. Whitespace around the URL is dropped;
    /// whitespace inside and quotes around the URL are refused. Default: the environment variable `STEADLOCK_URL`.
    url: String as Secret,
    /// The URLs of several independent primaries, an odd number from 3 to 15. Every lock then is a RedLock, with a
    /// record on a majority of them, and `url` must not be given.
    primaries: Vec<String> as Texts,
    /// The lease length of an acquisition that sets none, 300 ms to 24 h. Default 30,000.
    lease_ms: f64 as Number,
    /// Whether the watchdog renews the lease of an acquisition that sets no length. Default: yes.
    renew: bool as Flag,
    /// How long the client waits for an answer. Default 3,000.
    command_timeout_ms: f64 as Number,
    /// How long connecting can take. Default 5,000.
    connect_timeout_ms: f64 as Number,
    /// The shortest and the longest time after which a waiter asks again; each time is random. Default (500, 750).
    retry_interval_ms: (f64, f64) as Range,
    /// A prefix for every lock's name, without any of `*?[]\`. The rules for names hold for the prefix and for the
    /// prefixed name. Default: no prefix.
    key_prefix: String as Text,
    /// A PEM file of the certificate authorities to trust instead of the system's.
    tls_ca_file: String as File,
    /// A PEM file of the client's certificate, for a server that demands one; intermediate certificates can follow in
    /// the file. Requires `tls_key_file`.
    tls_cert_file: String as File,
    /// A PEM file of the private key of the certificate in `tls_cert_file`. The key must not be encrypted.
    tls_key_file: String as File,
    /// The name that the certificate of every server must have, in place of the host that the client connects to: a
    /// host name, which is also sent as SNI, or an IP address, without a port. Use it for nodes that announce IP
    /// addresses which no certificate names. Only with TLS.
    tls_server_name: String as Secret,
    /// Maps the addresses that cluster nodes and sentinels announce to addresses that the program can reach. Addresses
    /// of the URL are not mapped. Default: addresses are used as announced.
    address_map: AddressMap as Table,
    /// Whether to connect only at the first use: see [`Host::open`](crate::host::Host::open). Default: no.
    lazy: bool as Flag,
    /// The number of failures in a row that open the circuit breaker of a primary: 1 to 1,000,000. Default: no circuit
    /// breaker, or 5 if `breaker_pause_ms` or `on_unavailable` is given.
    breaker_failures: f64 as Number,
    /// The time between two probes while a breaker is open. Default 10,000, if there are breakers.
    breaker_pause_ms: f64 as Number,
    /// How an acquisition ends while the breaker is open; an acquisition can have its own setting. Default:
    /// [`OnUnavailable::Fail`].
    on_unavailable: OnUnavailable as Policy,
    /// Whether to tell the servers which program this client is and on which machine, and to ask them which program
    /// holds a lock. Costs a call at the first use, one every 30 s while the client is in use, and one every 60 s for
    /// each other client that was found to hold a lock. Default: yes with the feature `native`, else no.
    client_info: bool as Flag,
    /// A label in the client's identity, up to 200 characters on one line. Default: no label. Not allowed if
    /// `client_info` is off.
    client_label: String as Text,
    /// The program's name, as the host's language knows it. Default: the name of the executable.
    program: String as Text,
    /// The host's language, and the version of the language. Default: `rust`.
    language: String as Text,
    /// The lowest level of the lines that arrive as [`Event::Observed`](crate::host::Event::Observed), for the host's
    /// log. `Debug` includes each grant and release, which costs time. Default: no lines.
    /// [`Host::set_log`](crate::host::Host::set_log) changes it.
    log: Level as LogLines,
    /// Whether to count for [`Host::metrics`](crate::host::Host::metrics). Default: no, at no cost.
    metrics: bool as Flag,
    /// The maximum number of groups of locks in the metrics, 1 to 10,000; further groups count as `other`. Default 100.
    /// Only with `metrics`.
    metrics_groups: f64 as Number,
    /// The fair locks whose queues on the server are counted, up to 100. The client asks for each queue every 15 s.
    /// Default: none. Only with `metrics`, and not with `primaries`.
    metrics_queues: Vec<String> as Texts,
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;

    #[test]
    fn each_option_is_set_by_its_name_and_takes_only_its_own_kind() {
        let values = [
            (OptionKind::Flag, OptionValue::Flag(true)),
            (OptionKind::Number, OptionValue::Number(1.0)),
            (OptionKind::Texts, OptionValue::Texts(vec!["one".into()])),
            (OptionKind::Range, OptionValue::Range(1.0, 2.0)),
            (OptionKind::Table, OptionValue::Table(HashMap::new())),
            (OptionKind::OnUnavailable, OptionValue::Text("skip".into())),
            (OptionKind::Text, OptionValue::Text("info".into())),
        ];
        for (name, kind) in Options::ALL {
            let mut options = Options::default();
            for (other, value) in &values {
                let is_text = matches!(value, OptionValue::Text(_));
                let is_taken = kind == other || (*kind == OptionKind::Text && is_text);
                if *kind == OptionKind::OnUnavailable && is_text && !is_taken {
                    continue;
                }
                let set = options.set(name, value.clone());
                let is_log = *name == "log" && *other == OptionKind::OnUnavailable;
                assert_eq!(set.is_ok(), is_taken && !is_log, "{name}: {value:?}");
            }
            assert!(format!("{options:?}").contains(&format!("{name}: Some")), "{name}");
        }
    }

    #[test]
    fn another_name_is_refused() {
        let error = Options::default().set("leaseMs", OptionValue::Number(1.0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("there is no option leaseMs"), "{error}");
    }

    #[test]
    fn no_log_shows_a_url_or_a_value_that_can_be_one() {
        let options = Options {
            url: Some("redis://:hunter2@localhost".into()),
            tls_server_name: Some("redis://:hunter2@localhost".into()),
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
