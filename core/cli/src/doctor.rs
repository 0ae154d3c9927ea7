//! `leasehold doctor`: looks at the servers, and says what is wrong with them for locks.
//!
//! ```text
//!   gather    asks the servers ──► facts     plain data; what may not be read is unknown, with the reason
//!   findings  pure functions of facts ──► catalogue::Finding; tier: what the servers earn
//!   report    text, or JSON
//! ```

mod catalogue;
mod facts;
mod findings;
mod gather;
mod json;
mod report;
mod rights;
mod tier;
mod version;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::{AddressMap, Builder, Client};

use self::gather::Request;
use self::report::Report;
use crate::exit::Exit;

/// Look at the servers, and say what is wrong with them for locks.
///
/// Reads versions, settings, replicas, clocks and round trips, tries each right that locks
/// need on keys and channels of its own (with --key-prefix before their names; they are
/// removed, and end by themselves after 30 s), and prints what it found, what to change,
/// which of the tiers of docs/guarantees.md the servers earn, and the line that gives a
/// program's user its rights. Connect as the user of your programs, to see what that may
/// do; with +info and +config|get it can say the most.
///
/// It changes nothing on the servers. docs/operations.md explains each finding.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Doctor {
    /// The server: redis://, redis+sentinel:// or redis+cluster://, each also as rediss…, or
    /// redis+unix://. Given several times, the primaries of RedLock. Without it, the environment
    /// variable LEASEHOLD_URL, which is the better place for a password.
    #[arg(long)]
    url: Vec<String>,
    /// What the names of your locks begin with.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    key_prefix: String,
    /// The shortest lease of your programs, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    lease: Duration,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
    /// A PEM file of the authorities to trust for rediss://, instead of the system's.
    #[arg(long, value_name = "FILE")]
    tls_ca_file: Option<PathBuf>,
    /// A PEM file of this program's certificate, for a server that demands one.
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// A PEM file of the private key of that certificate.
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// What the certificates of all servers are to be for, instead of the host that is connected
    /// to: for nodes and sentinels that announce IP addresses.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Where a server is reached that a cluster's nodes or sentinels announce, if that is
    /// elsewhere: 10.0.0.1:6379=localhost:7001, or host=host for any port. May be given
    /// several times.
    #[arg(long, value_name = "ANNOUNCED=REACHED")]
    address_map: Vec<String>,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  nothing is wrong, or there are notes only
    1  there are warnings: locks work, and promise less than they could, or may fail one day
    2  there are errors: locks fail, or may be held by two; also wrong usage
   69  no server could be reached
   78  an option is not acceptable, or the server refuses the login";

impl Doctor {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let urls = match (&self.url[..], std::env::var("LEASEHOLD_URL")) {
            ([], Ok(url)) => vec![url],
            ([], Err(_)) => {
                return Err(Exit::new(
                    Exit::CONFIG,
                    "no URL was given; pass one by --url, or set LEASEHOLD_URL",
                ));
            }
            (given, _) => given.to_vec(),
        };
        let facts = gather::gather(&Request {
            urls: &urls,
            builder: &|url, is_whole| self.builder(url, is_whole),
            lease: self.lease,
            prefix: &self.key_prefix,
        })
        .await?;
        let findings = findings::judge(&facts);
        let report = Report {
            facts: &facts,
            findings: &findings,
            tier: &tier::earned(&facts, &findings),
        };
        let text = if self.json {
            format!("{}\n", report.json())
        } else {
            report.text()
        };
        // Nobody may be there to read it.
        let _ = std::io::stdout().write_all(text.as_bytes());
        Ok(ExitCode::from(report.status()))
    }

    /// The options for a URL; `is_whole` if it leads to servers that may announce others.
    fn builder(&self, url: &str, is_whole: bool) -> Builder {
        let mut builder = Client::builder().url(url).key_prefix(&self.key_prefix);
        if url.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("rediss")) || is_whole {
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
        }
        if is_whole && !self.address_map.is_empty() {
            // Without a =, one side is empty, and refused as any other that is no address.
            let entry = |given: &String| {
                let (from, to) = given.split_once('=').unwrap_or((given, ""));
                (from.to_owned(), to.to_owned())
            };
            builder = builder.address_map(self.address_map.iter().map(entry).collect::<AddressMap>());
        }
        builder
    }
}

/// Seconds, also with a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let refuse = || "it is not a number of seconds; give one such as 30 or 0.5".to_owned();
    let number: f64 = text.parse().map_err(|_| refuse())?;
    let seconds = Duration::try_from_secs_f64(number).map_err(|_| refuse())?;
    if seconds.is_zero() { Err(refuse()) } else { Ok(seconds) }
}
