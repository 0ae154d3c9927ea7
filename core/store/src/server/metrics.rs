//! The server's metrics for Prometheus. `ci/api/metrics.json` has the same names, for the documents.

use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::Shared;
use crate::store::Stats;

/// The metrics of a server. They contain no names of keys, channels or clients.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Shared>);

/// A metric.
struct Family {
    name: &'static str,
    kind: &'static str,
    meaning: &'static str,
}

const UPTIME: Family = Family {
    name: "steadlock_server_uptime_seconds",
    kind: "gauge",
    meaning: "How long the server has been running.",
};

const KEYS: Family = Family {
    name: "steadlock_server_keys",
    kind: "gauge",
    meaning: "Keys that exist.",
};

const EXPIRING: Family = Family {
    name: "steadlock_server_expiring_keys",
    kind: "gauge",
    meaning: "Keys that have a TTL.",
};

const DATA: Family = Family {
    name: "steadlock_server_data_bytes",
    kind: "gauge",
    meaning: "What keys and values take.",
};

const DATA_LIMIT: Family = Family {
    name: "steadlock_server_data_limit_bytes",
    kind: "gauge",
    meaning: "What they may take; beyond it, commands that add are refused.",
};

const BUFFERS: Family = Family {
    name: "steadlock_server_buffer_bytes",
    kind: "gauge",
    meaning: "Requests, replies and messages that connections have under way.",
};

const SCRIPTS: Family = Family {
    name: "steadlock_server_scripts",
    kind: "gauge",
    meaning: "Scripts that are kept for EVALSHA.",
};

const CLIENTS: Family = Family {
    name: "steadlock_server_clients",
    kind: "gauge",
    meaning: "Clients that are connected.",
};

const CONNECTIONS: Family = Family {
    name: "steadlock_server_connections_total",
    kind: "counter",
    meaning: "Connections that were accepted.",
};

const COMMANDS: Family = Family {
    name: "steadlock_server_commands_total",
    kind: "counter",
    meaning: "Commands that were carried out, also those of scripts. CONFIG RESETSTAT begins anew.",
};

const ERRORS: Family = Family {
    name: "steadlock_server_command_errors_total",
    kind: "counter",
    meaning: "Commands that failed, or were called wrongly.",
};

impl Metrics {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Returns the metrics in Prometheus' text format, version 0.0.4.
    #[must_use]
    pub fn text(&self) -> String {
        let stats = self.0.store.with_store(|store, now| store.stats(now));
        let accepted = self.0.next_id.load(Ordering::Relaxed).saturating_sub(1);
        let mut text = Text(String::new());
        text.number(&UPTIME, stats.uptime.as_secs_f64());
        text.number(&KEYS, stats.keys);
        text.number(&EXPIRING, stats.expiring);
        text.number(&DATA, stats.bytes);
        text.number(&DATA_LIMIT, stats.data_limit);
        text.number(&BUFFERS, self.0.connections.memory().load(Ordering::Relaxed));
        text.number(&SCRIPTS, stats.scripts);
        text.number(&CLIENTS, self.0.clients.load(Ordering::Relaxed));
        text.number(&CONNECTIONS, accepted);
        text.commands(&stats);
        text.0
    }
}

struct Text(String);

/// Appends a line. Writing to a `String` cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = writeln!($text.0, $($format)*);
    }};
}

impl Text {
    fn head(&mut self, family: &Family) {
        line!(self, "# HELP {} {}", family.name, family.meaning);
        line!(self, "# TYPE {} {}", family.name, family.kind);
    }

    fn number(&mut self, family: &Family, number: impl Display) {
        self.head(family);
        line!(self, "{} {number}", family.name);
    }

    fn commands(&mut self, stats: &Stats) {
        self.head(&COMMANDS);
        for (command, count) in &stats.commands {
            line!(self, "{}{{command=\"{command}\"}} {}", COMMANDS.name, count.calls);
        }
        self.head(&ERRORS);
        for (command, count) in &stats.commands {
            let errors = count.failed + count.rejected;
            line!(self, "{}{{command=\"{command}\"}} {errors}", ERRORS.name);
        }
    }
}
