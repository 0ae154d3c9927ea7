//! `steadlock jobs`: shows the last runs of jobs.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use steadlock::admin::{LockKey, readable};
use steadlock::host::shown;
use steadlock::{ClientInfo, EndedRun};

use crate::exit::Exit;
use crate::output::{duration, millis, print, print_json, table};
use crate::records::{Filter, SeenJob, jobs, names};
use crate::server::{ServerOptions, parse_duration};

/// Show the last runs of jobs.
///
/// Finds the jobs that ran in the last 30 days by SCAN, as `steadlock list` finds locks, unless
/// names are given. A job whose last run is `crashed` was started, and nobody reported its end
/// before its lease was over. Times are those of the server's clock.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUSES, verbatim_doc_comment)]
pub(crate) struct Jobs {
    /// Show only these jobs, whether the server knows them or not.
    names: Vec<String>,
    /// Exit with status 1 if a job that is shown had no success within this time, such as 26h. One line for each such job
    /// is printed to standard error.
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
    1  a job had no success within --stale
    2  wrong usage
   69  the server could not be reached, or stopped answering
   78  the URL or a name is not acceptable, or the server refused: SECURITY.md has the rights";

impl Jobs {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let mut servers = self.server.open().await?;
        let names = match self.names.is_empty() {
            true => {
                let filter = Filter::new(self.server.key_prefix(), "");
                names(&mut servers, &filter, LockKey::History).await?
            }
            false => self.names,
        };
        let jobs = jobs(&mut servers, names).await?;
        if self.json {
            let jobs: Vec<Value> = jobs.iter().map(as_json).collect();
            print_json(&json!({ "jobs": jobs }))?;
        } else {
            print(&as_text(&jobs))?;
        }
        let Some(longest) = self.stale else {
            return Ok(ExitCode::SUCCESS);
        };
        let mut status = ExitCode::SUCCESS;
        for job in jobs.iter().filter(|job| job.is_stale(longest)) {
            let name = readable(&shown(&job.name));
            eprintln!("steadlock: {name}: no success within {}", duration(longest));
            status = ExitCode::from(STALE);
        }
        Ok(status)
    }
}

/// The exit status if a job is stale.
const STALE: u8 = 1;

fn as_text(jobs: &[SeenJob]) -> String {
    if jobs.is_empty() {
        return "no job ran in the last 30 days\n".into();
    }
    let head = ["JOB", "STATE", "STARTED", "BY", "LAST END", "TOOK", "LAST SUCCESS"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(jobs.iter().map(row));
    let mut lines = table(&rows, &[false, false, false, false, false, true, false]).join("\n");
    lines.push('\n');
    lines
}

fn row(job: &SeenJob) -> Vec<String> {
    let dash = || "-".to_owned();
    let ago = |moment: Option<u64>| moment.map_or_else(dash, |at| format!("{} ago", duration(job.time_since(at))));
    let last_run = job.last_run.as_ref();
    let ended = last_run.and_then(|last_run| last_run.ended.as_ref());
    let by = last_run.and_then(|last_run| last_run.client.as_deref());
    vec![
        readable(&shown(&job.name)),
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

fn as_json(job: &SeenJob) -> Value {
    let last_run = job.last_run.as_ref();
    let client = |client: Option<&ClientInfo>| {
        client.map(|client| {
            json!({
                "host": client.host,
                "pid": client.pid,
                "program": client.program,
                "label": client.label,
            })
        })
    };
    let ended = |ended: &EndedRun| {
        json!({
            "at_ms": ended.at,
            "took_ms": millis(Some(ended.took)),
            "outcome": ended.outcome.as_str(),
            "client": client(ended.client.as_deref()),
        })
    };
    json!({
        "name": shown(&job.name),
        "state": last_run.map(|last_run| last_run.state.as_str()),
        "started_ms": last_run.and_then(|last_run| last_run.started),
        "client": client(last_run.and_then(|last_run| last_run.client.as_deref())),
        "ended": last_run.and_then(|last_run| last_run.ended.as_ref()).map(ended),
        "succeeded_ms": last_run.and_then(|last_run| last_run.succeeded),
    })
}
