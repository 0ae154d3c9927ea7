//! `steadlock leader`: shows who leads.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use steadlock::admin::readable;
use steadlock::host::shown;
use steadlock::{Candidate, ClientInfo, Leadership};
use tokio::time::timeout;

use super::format::NOT_HELD;
use super::release::CLOSE_TIMEOUT;
use crate::exit::Exit;
use crate::output::{duration, millis, print, print_json};
use crate::server::ServerOptions;

/// Show who leads, since when and in which term, and who would lead next.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Leader {
    /// The name of what is led.
    name: String,
    /// Print one JSON object: name, term, since_ms, leader, left_ms, candidates.
    #[arg(long)]
    json: bool,
    /// Go on, and print each change, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  somebody leads
    1  nobody does
    2  wrong usage
   69  the server could not be reached, or stopped answering
   78  the URL or the name is not acceptable, or the server refused: SECURITY.md has the rights";

impl Leader {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let client = self.server.builder()?.connect().await?;
        let mut observer = client.leader(&self.name).observe();
        let result = loop {
            match observer.next().await {
                Ok(leadership) => {
                    self.print(&leadership)?;
                    if !self.watch {
                        break Ok(ExitCode::from(if leadership.term.is_some() { 0 } else { NOT_HELD }));
                    }
                }
                Err(error) => break Err(error.into()),
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, client.close()).await;
        result
    }

    fn print(&self, leadership: &Leadership) -> Result<(), Exit> {
        let name = shown(&self.name);
        if self.json {
            return print_json(&as_json(&name, leadership));
        }
        print(&as_text(&readable(&name), leadership))
    }
}

fn as_text(name: &str, leadership: &Leadership) -> String {
    let mut text = match &leadership.term {
        None => format!("{name}: nobody leads\n"),
        Some(term) => {
            let leader = program(term.holder.client.as_deref(), &term.holder.owner);
            let since = ago(term.since);
            format!("{name}: {leader} leads in term {}, {since}\n", term.number)
        }
    };
    for (place, candidate) in leadership.candidates.iter().enumerate() {
        let candidate = program(candidate.client.as_deref(), &candidate.owner);
        text.push_str(&format!("  {}. {candidate}\n", place + 1));
    }
    text
}

/// Returns how to call a program: by what it says about itself, or by its owner id.
fn program(client: Option<&ClientInfo>, owner: &str) -> String {
    client.map_or_else(|| readable(owner), ToString::to_string)
}

/// Returns how long ago a time was, in milliseconds since 1970: `since 3.0 s`.
fn ago(since: u64) -> String {
    format!("since {}", duration(time_since(since)))
}

/// Returns the time since a moment, in milliseconds since 1970, by the clock of this machine.
fn time_since(moment: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(moment))
}

fn as_json(name: &str, leadership: &Leadership) -> Value {
    let term = leadership.term.as_ref();
    let candidate = |candidate: &Candidate| client_as_json(candidate.client.as_deref(), &candidate.owner);
    json!({
        "name": name,
        "term": term.map(|term| term.number),
        "since_ms": term.map(|term| term.since),
        "leader": term.map(|term| client_as_json(term.holder.client.as_deref(), &term.holder.owner)),
        "left_ms": term.map_or(Value::Null, |term| millis(term.holder.remaining)),
        "candidates": leadership.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}

/// Returns a program as JSON.
fn client_as_json(client: Option<&ClientInfo>, owner: &str) -> Value {
    json!({
        "owner": owner,
        "host": client.map(|client| &client.host),
        "pid": client.map(|client| client.pid),
        "program": client.map(|client| &client.program),
        "label": client.map(|client| &client.label),
    })
}
