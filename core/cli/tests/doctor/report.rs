//! Runs the doctor, and reads its report.

use std::process::{Command, Stdio};

use serde_json::Value;

/// The doctor's report as JSON, and its exit status.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) json: Value,
    pub(crate) status: i32,
}

/// Returns the command with these arguments, and without a URL from the environment.
pub(crate) fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadlock"));
    command
        .arg("doctor")
        .args(arguments)
        .env_remove("STEADLOCK_URL")
        .stdin(Stdio::null());
    command
}

impl Report {
    pub(crate) fn of(urls: &[&str], more: &[&str]) -> Self {
        let urls = urls.iter().flat_map(|url| ["--url", url]);
        let arguments: Vec<&str> = ["--json"].into_iter().chain(urls).chain(more.iter().copied()).collect();
        let output = doctor(&arguments).output().expect("the command runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
        Self {
            json,
            status: output.status.code().expect("it ends by itself"),
        }
    }

    fn findings(&self) -> &[Value] {
        self.json["findings"].as_array().expect("findings")
    }

    /// Returns the ids of the findings with one of these severities.
    pub(crate) fn ids(&self, severities: &[&str]) -> Vec<&str> {
        let has_severity = |one: &&Value| severities.iter().any(|severity| one["severity"] == *severity);
        let found = self.findings().iter().filter(has_severity);
        found.filter_map(|one| one["id"].as_str()).collect()
    }

    /// Returns the ids of the findings that are more than notes.
    pub(crate) fn warnings_and_errors(&self) -> Vec<&str> {
        self.ids(&["warning", "error"])
    }

    /// Asserts that the report has this finding, with `word` in its text or its remedy.
    pub(crate) fn has(&self, id: &str, word: &str) {
        let is_match = |one: &&Value| one["id"] == id && one.to_string().contains(word);
        assert!(
            self.findings().iter().any(|one| is_match(&one)),
            "no {id} with {word:?} in {:#}",
            self.json
        );
        let severity = self
            .findings()
            .iter()
            .find(is_match)
            .map(|one| one["severity"].as_str());
        let least = match severity.flatten() {
            Some("error") => 2,
            Some("warning") => 1,
            _ => 0,
        };
        assert!(self.status >= least, "{id} with status {}", self.status);
    }

    /// Asserts that the report does not have this finding.
    pub(crate) fn lacks(&self, id: &str) {
        assert!(
            self.findings().iter().all(|one| one["id"] != id),
            "{id} in {:#}",
            self.json
        );
    }

    pub(crate) fn tier(&self) -> &str {
        self.json["tier"]["name"].as_str().expect("a tier")
    }
}
