//! `steadlock jobs`: shows the last runs of jobs.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use steadlock::admin::{LockKey, readable};
use steadlock::host::shown;
use steadlock::{ClientInfo, EndedRun, LastRun};
use tokio::time::timeout;

use super::leader::{client_as_json, time_since};
use super::release::CLOSE_TIMEOUT;
use crate::exit::Exit;
use crate::output::{duration, print, print_json, table};
use crate::records::{Filter, names};
use crate::server::{ServerOptions, parse_duration};

/// Show the last runs of jobs.
///
/// Finds the jobs that ran in the last 30 days by SCAN, as `steadlock list` finds locks, unless
/// names are given. A job whose last run is `crashed` was started, and nobody reported its end
/// before its lease was over.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Jobs {
    /// Show only these jobs, whether the server knows them or not.
    names: Vec<String>,
    /// Exit with status 1 if a job that is shown has had no success for this long, such as 26h.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    stale: Option<Duration>,
    /// Print one JSON object: jobs with name, state, started_ms, client, ended and succeeded_ms.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const EXIT_STATUSES: &str = "\
Exit status:
    0  done
    1  a job has had no success for as long as --stale
    2  wrong usage
   69  the server could not be reached, or stopped answering
   78  the URL or a name is not acceptable, or the server refused: SECURITY.md has the rights";

impl Jobs {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let names = match self.names.is_empty() {
            true => {
                let filter = Filter::new(self.server.key_prefix(), "");
                names(&mut self.server.open().await?, &filter, LockKey::History).await?
            }
            false => self.names.clone(),
        };
        let client = self.server.builder()?.connect().await?;
        let mut jobs = Vec::new();
        for name in names {
            let last_run = client.once(&name).last_run().await?;
            jobs.push((shown(&name).into_owned(), last_run));
        }
        let _ = timeout(CLOSE_TIMEOUT, client.close()).await;
        if self.json {
            let jobs: Vec<Value> = jobs
                .iter()
                .map(|(name, last_run)| as_json(name, last_run.as_ref()))
                .collect();
            print_json(&json!({ "jobs": jobs }))?;
        } else {
            print(&as_text(&jobs))?;
        }
        let is_stale = |last_run: &Option<LastRun>| {
            let succeeded = last_run.as_ref().and_then(|last_run| last_run.succeeded);
            let since = succeeded.map(time_since);
            self.stale.is_some_and(|stale| since.is_none_or(|since| since > stale))
        };
        let is_any_stale = jobs.iter().any(|(_, last_run)| is_stale(last_run));
        Ok(ExitCode::from(u8::from(is_any_stale)))
    }
}

fn as_text(jobs: &[(String, Option<LastRun>)]) -> String {
    if jobs.is_empty() {
        return "no job ran in the last 30 days\n".into();
    }
    let head = ["JOB", "STATE", "STARTED", "BY", "LAST END", "TOOK", "LAST SUCCESS"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(jobs.iter().map(|(name, last_run)| row(name, last_run.as_ref())));
    let mut lines = table(&rows, &[false, false, false, false, false, true, false]).join("\n");
    lines.push('\n');
    lines
}

fn row(name: &str, last_run: Option<&LastRun>) -> Vec<String> {
    let dash = || "-".to_owned();
    let ago = |moment: Option<u64>| moment.map_or_else(dash, |moment| format!("{} ago", duration(time_since(moment))));
    let ended = last_run.and_then(|last_run| last_run.ended.as_ref());
    let by = last_run.and_then(|last_run| last_run.client.as_deref());
    vec![
        readable(name),
        last_run.map_or_else(dash, |last_run| last_run.state.as_str().to_owned()),
        ago(last_run.and_then(|last_run| last_run.started)),
        by.map_or_else(dash, ClientInfo::to_string),
        ended.map_or_else(dash, |ended| {
            format!("{} {}", ended.outcome.as_str(), ago(Some(ended.at)))
        }),
        ended.map_or_else(dash, |ended| duration(ended.took)),
        ago(last_run.and_then(|last_run| last_run.succeeded)),
    ]
}

fn as_json(name: &str, last_run: Option<&LastRun>) -> Value {
    let client = |client: Option<&ClientInfo>| client.map(|client| client_as_json(Some(client), ""));
    let ended = |ended: &EndedRun| {
        json!({
            "at_ms": ended.at,
            "took_ms": u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX),
            "outcome": ended.outcome.as_str(),
            "client": client(ended.client.as_deref()),
        })
    };
    json!({
        "name": name,
        "state": last_run.map(|last_run| last_run.state.as_str()),
        "started_ms": last_run.and_then(|last_run| last_run.started),
        "client": client(last_run.and_then(|last_run| last_run.client.as_deref())),
        "ended": last_run.and_then(|last_run| last_run.ended.as_ref()).map(ended),
        "succeeded_ms": last_run.and_then(|last_run| last_run.succeeded),
    })
}
