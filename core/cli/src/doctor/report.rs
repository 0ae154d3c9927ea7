//! What is printed: for people, and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use leasehold::host::shown;

use super::catalogue::{Finding, Severity};
use super::facts::{Fact, Facts, Server};
use super::json::Json;
use super::rights;
use super::tier::{self, Tier};

/// All that there is to say.
pub(crate) struct Report<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) findings: &'a [Finding],
    pub(crate) tier: &'a Tier,
}

impl Report<'_> {
    /// The worst severity there is: 0 for none above info, 1 for warnings, 2 for errors.
    pub(crate) fn status(&self) -> u8 {
        let severities = self.findings.iter().map(|finding| finding.check.severity());
        match severities.max() {
            Some(Severity::Error) => 2,
            Some(Severity::Warning) => 1,
            Some(Severity::Info) | None => 0,
        }
    }

    /// The line to give the programs' user its rights by.
    fn access(&self) -> String {
        let facts = self.facts;
        let version = match facts.servers.first() {
            Some(server) => server.version.clone(),
            None => Fact::Unknown("no server answers".into()),
        };
        rights::access_line(facts.layout, &version, &facts.prefix, facts.database)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for server in &self.facts.servers {
            let _ = writeln!(text, "{}", line(server));
        }
        if let Some(sentinels) = &self.facts.sentinels {
            let names: Vec<&str> = sentinels.all.iter().map(|sentinel| sentinel.name.as_str()).collect();
            let _ = writeln!(text, "sentinels: {}", names.join(", "));
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
                "{:<8} {}{at}: {}\n         → {}",
                finding.check.severity(),
                finding.check.id(),
                finding.says,
                finding.remedy
            );
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "tier     {}", self.tier_text());
        let _ = writeln!(text, "         {}", tier::BEYOND);
        let _ = writeln!(
            text,
            "access   for the user of your programs, with a password of your own:"
        );
        let _ = writeln!(text, "{}", self.access());
        let _ = writeln!(text, "result   {}", self.counts());
        // Names and errors come from elsewhere.
        shown(&text).into_owned()
    }

    fn tier_text(&self) -> String {
        let mut text = self.tier.says.clone();
        if !self.tier.because.is_empty() {
            let _ = write!(text, "; see {}", self.tier.because.join(", "));
        }
        if !self.tier.unless.is_empty() {
            let _ = write!(text, "; cannot tell whether {}", self.tier.unless.join(", or "));
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

    pub(crate) fn json(&self) -> Json {
        let findings = self.findings.iter().map(|finding| {
            Json::Object(vec![
                ("id", Json::text(finding.check.id())),
                ("severity", Json::text(finding.check.severity().as_str())),
                ("at", Json::texts(&finding.at)),
                ("says", Json::text(finding.says.clone())),
                ("remedy", Json::text(finding.remedy.clone())),
            ])
        });
        Json::Object(vec![
            ("layout", Json::text(self.facts.layout.as_str())),
            ("servers", Json::List(self.facts.servers.iter().map(facts_of).collect())),
            ("findings", Json::List(findings.collect())),
            (
                "tier",
                Json::Object(vec![
                    ("name", Json::text(self.tier.name)),
                    ("says", Json::text(self.tier.says.clone())),
                    ("because", Json::texts(&self.tier.because)),
                    ("cannot_tell", Json::texts(&self.tier.unless)),
                ]),
            ),
            ("access", Json::text(self.access())),
            ("status", Json::count(self.status().into())),
        ])
    }
}

/// One server in one line.
fn line(server: &Server) -> String {
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
        match (persistence.has_log, server.has_snapshots.is(|has| *has)) {
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
            .map(|clock| format!("clock {:+.1} ms", ms_of(clock.ahead))),
    );
    parts.extend(
        server
            .round_trip
            .known()
            .map(|trip| format!("round trip {:.1} ms, worst {:.1} ms", ms(trip.median), ms(trip.worst))),
    );
    format!("{}: {}", server.name, parts.join("; "))
}

fn facts_of(server: &Server) -> Json {
    let text = |fact: &Fact<String>| fact.known().map_or(Json::Null, |text| Json::text(text.clone()));
    let count = |fact: &Fact<u64>| fact.known().map_or(Json::Null, |number| Json::count(*number));
    let memory = server.memory.known();
    let replicas = server.replicas.known().map(|replicas| {
        let one = |replica: &super::facts::Replica| {
            Json::Object(vec![
                ("address", Json::text(replica.address.clone())),
                ("linked", Json::Flag(replica.is_linked)),
                ("lag_s", Json::count(replica.lag)),
            ])
        };
        Json::List(replicas.iter().map(one).collect())
    });
    let trip = server.round_trip.known();
    Json::Object(vec![
        ("name", Json::text(server.name.clone())),
        (
            "version",
            server
                .version
                .known()
                .map_or(Json::Null, |version| Json::text(version.to_string())),
        ),
        ("tls", Json::Flag(server.is_encrypted)),
        (
            "maxmemory_policy",
            memory.map_or(Json::Null, |memory| Json::text(memory.policy.clone())),
        ),
        (
            "maxmemory_bytes",
            memory.map_or(Json::Null, |memory| Json::count(memory.limit)),
        ),
        (
            "used_memory_bytes",
            memory.map_or(Json::Null, |memory| Json::count(memory.used)),
        ),
        (
            "appendonly",
            server
                .persistence
                .known()
                .map_or(Json::Null, |one| Json::Flag(one.has_log)),
        ),
        ("appendfsync", text(&server.fsync)),
        (
            "snapshots",
            server.has_snapshots.known().map_or(Json::Null, |has| Json::Flag(*has)),
        ),
        ("replicas", replicas.unwrap_or(Json::Null)),
        ("min_replicas_to_write", count(&server.min_replicas)),
        ("idle_timeout_s", count(&server.idle_timeout)),
        (
            "clock_ahead_ms",
            server
                .clock
                .known()
                .map_or(Json::Null, |clock| Json::Number(ms_of(clock.ahead))),
        ),
        (
            "round_trip_median_ms",
            trip.map_or(Json::Null, |trip| Json::Number(ms(trip.median))),
        ),
        (
            "round_trip_worst_ms",
            trip.map_or(Json::Null, |trip| Json::Number(ms(trip.worst))),
        ),
    ])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "a difference of clocks, shown with one digit")]
fn ms_of(micros: i64) -> f64 {
    micros as f64 / 1_000.0
}
