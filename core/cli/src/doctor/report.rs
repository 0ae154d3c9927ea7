//! Writes the report: as text, and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use steadlock::admin::readable;
use steadlock::host::shown;

use super::catalogue::{Finding, Severity};
use super::facts::{Facts, Replica, Server};
use super::rights;
use super::tier::{self, Tier};

/// Everything that the doctor found.
pub(crate) struct Report<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) findings: &'a [Finding],
    pub(crate) tier: &'a Tier,
}

impl Report<'_> {
    /// Returns the exit status by the worst severity: 0 for none above info, 1 for warnings, 2 for errors.
    pub(crate) fn status(&self) -> u8 {
        let severities = self.findings.iter().map(|finding| finding.check.severity());
        match severities.max() {
            Some(Severity::Error) => 2,
            Some(Severity::Warning) => 1,
            Some(Severity::Info) | None => 0,
        }
    }

    /// Returns the line that gives the programs' user its rights.
    fn access(&self) -> String {
        let facts = self.facts;
        let version = facts.servers.first().and_then(|server| server.version.known().copied());
        rights::access_line(facts.layout, version, &facts.prefix, facts.database)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for server in &self.facts.servers {
            let _ = writeln!(text, "{}", safe_to_print(&describe_server(server)));
        }
        if let Some(sentinels) = &self.facts.sentinels {
            let names: Vec<&str> = sentinels.all.iter().map(|sentinel| sentinel.name.as_str()).collect();
            let _ = writeln!(text, "sentinels: {}", safe_to_print(&names.join(", ")));
        }
        text.push('\n');
        for finding in self.findings {
            let at = if finding.at.is_empty() {
                String::new()
            } else {
                format!(" ({})", finding.at.join(", "))
            };
            let _ = writeln!(
                text,
                "{:<8} {}{}: {}\n         → {}",
                finding.check.severity(),
                finding.check.id(),
                safe_to_print(&at),
                safe_to_print(&finding.says),
                safe_to_print(&finding.remedy)
            );
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "tier     {}", self.tier_text());
        let _ = writeln!(text, "         {}", tier::T4_NOTE);
        let _ = writeln!(
            text,
            "access   for the user of your programs, with a password of your own:"
        );
        let _ = writeln!(text, "{}", self.access());
        let _ = writeln!(text, "result   {}", self.counts());
        text
    }

    fn tier_text(&self) -> String {
        let mut text = self.tier.says.clone();
        if !self.tier.weakened_by.is_empty() {
            let _ = write!(text, "; see {}", self.tier.weakened_by.join(", "));
        }
        if !self.tier.unverified.is_empty() {
            let _ = write!(text, "; cannot tell whether {}", self.tier.unverified.join(", or "));
        }
        text
    }

    fn counts(&self) -> String {
        let count = |severity: Severity| {
            let all = self
                .findings
                .iter()
                .filter(|finding| finding.check.severity() == severity);
            all.count()
        };
        let counts = [
            (count(Severity::Error), "error"),
            (count(Severity::Warning), "warning"),
            (count(Severity::Info), "note"),
        ];
        let shown = counts.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
        shown.join(", ")
    }

    pub(crate) fn json(&self) -> Value {
        let finding = |finding: &Finding| {
            json!({
                "id": finding.check.id(),
                "severity": finding.check.severity().as_str(),
                "at": finding.at,
                "says": finding.says,
                "remedy": finding.remedy,
            })
        };
        json!({
            "layout": self.facts.layout.as_str(),
            "servers": self.facts.servers.iter().map(server_as_json).collect::<Vec<_>>(),
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "tier": {
                "name": self.tier.name,
                "says": self.tier.says,
                "because": self.tier.weakened_by,
                "cannot_tell": self.tier.unverified,
            },
            "access": self.access(),
            "status": self.status(),
        })
    }
}

/// Makes a text from elsewhere, such as a name or an error, safe to print. Removes the passwords of URLs, and replaces
/// characters that a terminal obeys.
fn safe_to_print(text: &str) -> String {
    readable(&shown(text))
}

/// Describes a server in one line.
fn describe_server(server: &Server) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(server.version.known().map(ToString::to_string));
    parts.extend(server.memory.known().map(|memory| match memory.limit {
        0 => format!("{}, no maxmemory", memory.policy),
        limit => format!("{}, {} of {} MB", memory.policy, memory.used >> 20, limit >> 20),
    }));
    parts.extend(server.persistence.known().map(|persistence| {
        let fsync = server
            .fsync
            .known()
            .map(|fsync| format!(", fsync {fsync}"))
            .unwrap_or_default();
        match (persistence.has_log, server.has_snapshots.is_known_and(|has| *has)) {
            (true, _) => format!("append-only file{fsync}"),
            (false, true) => "snapshots only".into(),
            (false, false) => "nothing on disk".into(),
        }
    }));
    parts.extend(server.replicas.known().map(|replicas| match &replicas[..] {
        [] => "no replica".into(),
        [one] => format!("1 replica, {} s behind", one.lag),
        several => {
            let lag = several.iter().map(|replica| replica.lag).max().unwrap_or(0);
            format!("{} replicas, {lag} s behind at most", several.len())
        }
    }));
    parts.extend(
        server
            .clock
            .known()
            .map(|clock| format!("clock {:+.1} ms", micros_to_ms(clock.ahead))),
    );
    parts.extend(
        server
            .round_trip
            .known()
            .map(|trip| format!("round trip {:.1} ms, worst {:.1} ms", ms(trip.median), ms(trip.worst))),
    );
    format!("{}: {}", server.name, parts.join("; "))
}

/// Describes a server as JSON. Unknown facts are null.
fn server_as_json(server: &Server) -> Value {
    let replica = |replica: &Replica| {
        json!({
            "address": replica.address,
            "linked": replica.is_linked,
            "lag_s": replica.lag,
            "clock_ahead_ms": replica.clock.known().map(|clock| micros_to_ms(clock.ahead)),
        })
    };
    let replicas = server.replicas.known();
    let memory = server.memory.known();
    let trip = server.round_trip.known();
    json!({
        "name": server.name,
        "version": server.version.known().map(ToString::to_string),
        "tls": server.is_encrypted,
        "maxmemory_policy": memory.map(|memory| &memory.policy),
        "maxmemory_bytes": memory.map(|memory| memory.limit),
        "used_memory_bytes": memory.map(|memory| memory.used),
        "appendonly": server.persistence.known().map(|persistence| persistence.has_log),
        "appendfsync": server.fsync.known(),
        "snapshots": server.has_snapshots.known(),
        "replicas": replicas.map(|replicas| replicas.iter().map(replica).collect::<Vec<_>>()),
        "min_replicas_to_write": server.min_replicas.known(),
        "idle_timeout_s": server.idle_timeout.known(),
        "clock_ahead_ms": server.clock.known().map(|clock| micros_to_ms(clock.ahead)),
        "round_trip_median_ms": trip.map(|trip| ms(trip.median)),
        "round_trip_worst_ms": trip.map(|trip| ms(trip.worst)),
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "a difference of clocks, shown with one digit")]
fn micros_to_ms(micros: i64) -> f64 {
    micros as f64 / 1_000.0
}
