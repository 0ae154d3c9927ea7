//! `steadlock doctor`: looks at the servers, and reports what is wrong with them for locks.
//!
//! ```text
//!   gather    asks the servers for the facts: plain data; a fact that cannot be read is unknown, with the reason
//!   findings  judges the facts: pure functions
//!   tier      finds the tier that the servers reach: a pure function, too
//!   report    writes the findings and the tier as text or JSON
//! ```
//!
//! Only this file reads the options of the command, and prints. The modules below it use one other module of this
//! crate: the access rules.

mod catalogue;
mod facts;
mod findings;
mod gather;
mod layout;
mod report;
mod rights;
mod tier;
mod version;

use std::process::ExitCode;
use std::time::Duration;

use steadlock::Builder;

use self::gather::Request;
use self::report::Report;
use crate::exit::Exit;
use crate::output::{print, print_json};
use crate::server::{ServerOptions, parse_seconds};

/// Look at the servers, and report what is wrong with them for locks.
///
/// Reads versions, settings, replicas, clocks and round trips. Tries each right that locks need
/// on keys and channels of its own: their names begin with --key-prefix, and the keys are removed
/// or expire after 30 s. Prints the findings and their remedies, the tier of docs/guarantees.md
/// that the servers reach, and the line that gives a program's user its rights. Connect as the
/// user of your programs to learn what that user may do. With +info and +config|get the report
/// is more complete.
///
/// Apart from these keys, the command changes nothing on the servers. docs/operations.md explains
/// each finding.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Doctor {
    /// The shortest lease of your programs, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_lease, default_value = "30")]
    lease: Duration,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  nothing is wrong, or there are notes only
    1  there are warnings: locks work, and promise less than they could, or may fail one day
    2  there are errors: locks fail, or may be held by two; also wrong usage
   69  the server, or each node or sentinel of the URL, could not be reached
   78  an option is not acceptable, or the server refuses the login";

impl Doctor {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let urls = self.server.urls();
        if urls.is_empty() {
            return Err(Exit::new(
                Exit::CONFIG,
                "no URL was given; pass one by --url, or set STEADLOCK_URL",
            ));
        }
        let facts = gather::gather(&Request {
            urls: &urls,
            client: &|url| self.client_for(url),
            client_of_reached: &|url| self.server.builder_for(&[url.into()]).ok(),
            key_prefix: self.server.key_prefix(),
            lease: self.lease,
        })
        .await?;
        let findings = findings::check(&facts);
        let report = Report {
            facts: &facts,
            findings: &findings,
            tier: &tier::reached(&facts, &findings),
        };
        if self.json {
            print_json(&report.json())?;
        } else {
            print(&report.text())?;
        }
        Ok(ExitCode::from(report.status()))
    }

    /// Returns the options of a client for one URL.
    fn client_for(&self, url: &str) -> Result<Builder, Exit> {
        let builder = self.server.builder_for(&[url.into()])?;
        Ok(self.server.with_address_map(builder))
    }
}

/// Parses the length of a lease.
fn parse_lease(text: &str) -> Result<Duration, String> {
    let lease = parse_seconds(text)?;
    if lease.is_zero() {
        return Err("a lease is longer than 0 seconds".into());
    }
    Ok(lease)
}
