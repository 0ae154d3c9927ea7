//! The options of a client: one table, by whose names every language sets them.

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
    /// From one text to another.
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

/// What the values of an option are in Rust, and how much of one a log may show.
trait Kind {
    const KIND: OptionKind;
    type Value;

    fn take(value: OptionValue) -> Option<Self::Value>;
    fn show(value: &Self::Value) -> impl fmt::Debug;
}

/// Implements [`Kind`]: the type of the values, which of them are taken, and how one is shown.
macro_rules! kind {
    ($name:ident: $kind:ident, $type:ty, $taken:pat => $value:expr, |$shown:ident| $show:expr) => {
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
            fn show($shown: &$type) -> impl fmt::Debug {
                $show
            }
        }
    };
}

kind!(Flag: Flag, bool, OptionValue::Flag(flag) => Some(flag), |flag| *flag);
kind!(Number: Number, f64, OptionValue::Number(number) => Some(number), |number| *number);
kind!(Range: Range, (f64, f64), OptionValue::Range(low, high) => Some((low, high)), |range| *range);
kind!(Text: Text, String, OptionValue::Text(text) => Some(text), |text| shown(text).into_owned());
// It can hold a password, as a URL does.
kind!(Secret: Text, String, OptionValue::Text(text) => Some(text), |_text| "..");
kind!(File: Text, String, OptionValue::Text(text) => Some(text), |path| shown_path(path).to_string());
kind!(Texts: Texts, Vec<String>, OptionValue::Texts(texts) => Some(texts), |texts| texts.len());
kind!(Table: Table, AddressMap, OptionValue::Table(table) => Some(table.into()), |map| map.clone());
kind!(Policy: OnUnavailable, OnUnavailable, OptionValue::Text(word) => OnUnavailable::parse(&word), |policy| *policy);
kind!(LogLines: Text, Level, OptionValue::Text(word) => Level::parse(&word), |level| *level);

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty as $kind:ident,)*) => {
        /// What a client is configured with. `None` stands for the default.
        #[derive(Clone, Default)]
        pub struct Options {
            $($(#[$doc])* pub $name: Option<$type>,)*
            /// Who else is told what happens, on the engine's thread. Default: nobody.
            pub observers: Vec<Arc<dyn Observer>>,
            /// Which group a lock counts for. Default: what stands before the first `:` of its name. Only with
            /// `metrics`.
            pub metrics_group: Option<GroupBy>,
        }

        impl Options {
            /// The options that [`Options::set`] knows, with what each takes.
            pub const ALL: &[(&str, OptionKind)] = &[$((stringify!($name), $kind::KIND),)*];

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
    /// Where the server is: `redis://[user:password@]host[:port][/db]`,
    /// `redis+sentinel://[user:password@]host[:port],host/service[/db]`,
    /// `redis+cluster://[user:password@]host[:port],host`, each with TLS as
    /// `rediss…`; `redis+unix:///path[?db=n]`, `memory://` or `memory://name`. `valkey` may stand for
    /// `redis`. Blanks around it are dropped; blanks inside and quotes around it are refused.
    /// Default: the environment variable `STEADLOCK_URL`.
    url: String as Secret,
    /// Where several independent primaries are, an odd number from 3 to 15: then
    /// every lock is a RedLock, held by a majority of them, and `url` is not given.
    primaries: Vec<String> as Texts,
    /// The lease of an acquisition that gives none, 300 ms to 24 h. Default 30,000.
    lease_ms: f64 as Number,
    /// The watchdog renews that lease. Default: yes.
    renew: bool as Flag,
    /// How long an answer may take. Default 3,000.
    command_timeout_ms: f64 as Number,
    /// How long connecting may take. Default 5,000.
    connect_timeout_ms: f64 as Number,
    /// A waiter asks again after a time between these two. Default (500, 750).
    retry_interval_ms: (f64, f64) as Range,
    /// Put before every lock's name, as it stands, before the name is checked; see
    /// [`KeyPrefix::parse`]. Default: nothing.
    key_prefix: String as Text,
    /// A PEM file of the certificate authorities to trust instead of the system's.
    tls_ca_file: String as File,
    /// A PEM file of the client's certificate, for a server that demands one; the
    /// certificates that lead to its authority may follow. Together with `tls_key_file`.
    tls_cert_file: String as File,
    /// A PEM file of that certificate's private key, not encrypted.
    tls_key_file: String as File,
    /// What the certificates of all servers are to be for, also as SNI, instead of the host that
    /// is connected to: for nodes that announce IP addresses which no certificate names. A name of a host
    /// or an IP address, without a port; with TLS only.
    tls_server_name: String as Secret,
    /// Where the servers are reached that a cluster's nodes and sentinels announce. Those of the
    /// URL are reached as they stand there. Default: as they are announced.
    address_map: AddressMap as Table,
    /// Connect at the first use, not before: see [`Host::open`](crate::host::Host::open). Default: no.
    lazy: bool as Flag,
    /// A circuit breaker for each primary opens after so many failures in a row: 1 to 1,000,000.
    /// Default: none, or 5 if one of the next two is given.
    breaker_failures: f64 as Number,
    /// The time between two probes while it is open. Default 10,000, if there is one.
    breaker_pause_ms: f64 as Number,
    /// What becomes of an acquisition while it is open; each may have it otherwise. Default:
    /// [`OnUnavailable::Fail`].
    on_unavailable: OnUnavailable as Policy,
    /// Tell the servers which program on which machine this client is, and ask them which one holds a lock: a call
    /// at the first use, then one in 30 s while it is in use. Default: yes, where the program is a process.
    client_info: bool as Flag,
    /// What else it says of itself, up to 200 characters of one line. Default: nothing. Not without `client_info`.
    client_label: String as Text,
    /// The program's name, as the host's language knows it. Default: that of the executable.
    program: String as Text,
    /// The host's language, and its version. Default: `rust`.
    language: String as Text,
    /// Lines of this level and above come as [`Event::Observed`](crate::host::Event::Observed), for
    /// the host's log; with `Debug` each grant and release too, which costs time. Default: none.
    /// [`Host::set_log`](crate::host::Host::set_log) changes it.
    log: Level as LogLines,
    /// Count what [`Host::metrics`](crate::host::Host::metrics) gives. Default: no, at no cost.
    metrics: bool as Flag,
    /// How many groups of locks are told apart in the metrics, 1 to 10,000; further ones count as
    /// `other`. Default 100. Only with `metrics`.
    metrics_groups: f64 as Number,
    /// Fair locks whose queues on the server are counted, up to 100: each is asked for every 15 s. Default: none. Only
    /// with `metrics`, and not with `primaries`.
    metrics_queues: Vec<String> as Texts,
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;

    #[test]
    fn each_option_is_set_by_its_name_and_takes_its_own_kind_only() {
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
    fn no_log_shows_a_url_or_what_can_be_one() {
        let options = Options {
            url: Some("redis://:hunter2@localhost".into()),
            tls_server_name: Some("redis://:hunter2@localhost".into()),
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
