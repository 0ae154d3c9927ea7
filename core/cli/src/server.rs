//! The options of all commands that connect to servers: which servers, and how to connect to them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as _;
use steadlock::admin::{ServerUrl, Servers};
use steadlock::{AddressMap, Builder, Client};

use crate::exit::Exit;

/// The server to connect to, and the prefix of the names of locks.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The server")]
pub(crate) struct ServerOptions {
    /// The server's URL: redis://, redis+sentinel:// or redis+cluster://, each also as rediss…, or redis+unix://.
    /// valkey can replace redis. For RedLock give this option three times or more, an odd number, once for each
    /// independent primary. A password is safer in the environment variable STEADLOCK_URL, where spaces separate
    /// several URLs [default: STEADLOCK_URL].
    #[arg(long)]
    url: Vec<String>,
    /// The prefix that programs put before the name of each lock, like their option key_prefix [default: none].
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    key_prefix: String,
    /// A PEM file of the authorities to trust for rediss://, instead of the system's.
    #[arg(long, value_name = "FILE")]
    tls_ca_file: Option<PathBuf>,
    /// A PEM file of this program's certificate, for a server that demands one.
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// A PEM file of the private key of that certificate.
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// The name that the certificates of all servers must be for, instead of the host in the address: for nodes and
    /// sentinels that announce IP addresses.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// The address at which a server is reached, if a cluster's nodes or sentinels announce another one:
    /// 10.0.0.1:6379=localhost:7001, or host=host for any port. Can be given several times.
    #[arg(long, value_name = "ANNOUNCED=REACHED")]
    address_map: Vec<String>,
}

/// The environment variable for the URL, or for several URLs with spaces between them.
pub(crate) const URL_VARIABLE: &str = "STEADLOCK_URL";

impl ServerOptions {
    /// Returns the prefix that programs put before each name.
    pub(crate) fn key_prefix(&self) -> &str {
        &self.key_prefix
    }

    /// Returns the URLs of `--url`, or without that option those of `STEADLOCK_URL`.
    pub(crate) fn urls(&self) -> Vec<String> {
        if !self.url.is_empty() {
            return self.url.clone();
        }
        ServerUrl::split(&std::env::var(URL_VARIABLE).unwrap_or_default())
    }

    /// Returns the options of a client.
    pub(crate) fn builder(&self) -> Result<Builder, Exit> {
        Ok(self.with_address_map(self.builder_for(&self.urls())?))
    }

    /// Returns the options of a client of these URLs, without the address map.
    pub(crate) fn builder_for(&self, urls: &[String]) -> Result<Builder, Exit> {
        let mut builder = Client::builder().key_prefix(&self.key_prefix);
        for url in urls {
            if ServerUrl::parse(url)?.is_memory() {
                return Err(Exit::new(
                    Exit::CONFIG,
                    "memory:// excludes nobody outside this process; give the URL of a server, such as that of \
                     `steadlock serve`",
                ));
            }
        }
        builder = match urls {
            // The client itself reports that there is no URL.
            [] => builder,
            [url] => builder.url(url),
            urls => builder.primaries(urls),
        };
        if let Some(file) = &self.tls_ca_file {
            builder = builder.tls_ca_file(file);
        }
        if let Some(file) = &self.tls_cert_file {
            builder = builder.tls_cert_file(file);
        }
        if let Some(file) = &self.tls_key_file {
            builder = builder.tls_key_file(file);
        }
        if let Some(name) = &self.tls_server_name {
            builder = builder.tls_server_name(name);
        }
        Ok(builder)
    }

    /// Adds the address map to the options of a client.
    pub(crate) fn with_address_map(&self, builder: Builder) -> Builder {
        if self.address_map.is_empty() {
            return builder;
        }
        // Without a =, one side is empty, and is refused like any other invalid address.
        let entry = |given: &String| {
            let (from, to) = given.split_once('=').unwrap_or((given, ""));
            (from.to_owned(), to.to_owned())
        };
        builder.address_map(self.address_map.iter().map(entry).collect::<AddressMap>())
    }

    /// Opens connections to the servers, for commands that need no client.
    pub(crate) async fn open(&self) -> Result<Servers, Exit> {
        Ok(Servers::open(self.builder()?).await?)
    }
}

/// Replaces the client's names of options in a message by those of the command: `tls_ca_file` becomes `--tls-ca-file`.
pub(crate) fn with_flag_names(message: &str) -> String {
    let options = ServerOptions::augment_args(clap::Command::new(""));
    let flags: Vec<&str> = options.get_arguments().filter_map(clap::Arg::get_long).collect();
    let flag_of = |word: &str| {
        let is_option = word.contains('_');
        flags.iter().find(|flag| is_option && flag.replace('-', "_") == word)
    };
    // A word inside a path or a quoted name is not replaced.
    let is_word_end = |letter: char| !(letter.is_alphanumeric() || "_-./\\\"".contains(letter));
    let rewritten = message.split_inclusive(is_word_end).map(|part| {
        let word = part.trim_end_matches(is_word_end);
        match flag_of(word) {
            Some(flag) => format!("--{flag}{}", &part[word.len()..]),
            None => part.to_owned(),
        }
    });
    rewritten.collect()
}

/// Parses a time: a number with a unit (`500ms`, `30s`, `10m`, `2h`, `7d`), or a number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    let number: f64 = digits.parse().unwrap_or(f64::NAN);
    Duration::try_from_secs_f64(number * seconds)
        .map_err(|_| "it is not a time; give one such as 30s, 10m or 2h".into())
}

/// Parses a number of seconds, with or without a fraction.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let refuse = || "it is not a number of seconds; give one such as 30 or 0.5".to_owned();
    let number: f64 = text.parse().map_err(|_| refuse())?;
    Duration::try_from_secs_f64(number).map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, millis) in [
            ("30", 30_000),
            ("0.5", 500),
            ("500ms", 500),
            ("30s", 30_000),
            ("10m", 600_000),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "s", "-1s", "10 m", "10x", "1h30m", "NaN", "inf", "1e30d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_message_has_options_by_their_flags() {
        for (message, expected) in [
            (
                "tls_ca_file: there is no file /nope",
                "--tls-ca-file: there is no file /nope",
            ),
            (
                "tls_cert_file is given without tls_key_file; a",
                "--tls-cert-file is given without --tls-key-file; a",
            ),
            ("or give one as tls_server_name", "or give one as --tls-server-name"),
            (
                "no file /etc/tls_ca_file or tls_ca_file.pem",
                "no file /etc/tls_ca_file or tls_ca_file.pem",
            ),
            ("the lock \"key_prefix\" is held", "the lock \"key_prefix\" is held"),
            ("correct sentinel_user and the url", "correct sentinel_user and the url"),
        ] {
            assert_eq!(with_flag_names(message), expected);
        }
    }
}
