//! The text of `INFO`.

use std::fmt::Write as _;

use crate::data::Data;

/// The version that clients see. The store offers a subset of its commands.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// Returns the requested sections, or all of them if none is named.
pub(crate) fn text(data: &Data, sections: &[&[u8]]) -> String {
    let wanted = |name: &str| {
        sections.is_empty()
            || sections.iter().any(|section| {
                [name, "all", "everything", "default"]
                    .iter()
                    .any(|word| section.eq_ignore_ascii_case(word.as_bytes()))
            })
    };
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if wanted(name) {
            if !text.is_empty() {
                text += "\r\n";
            }
            write(data, &mut text);
        }
    }
    text
}

type Section = fn(&Data, &mut String);

const SECTIONS: [(&str, Section); 8] = [
    ("server", server),
    ("clients", clients),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("commandstats", commandstats),
    ("cluster", cluster),
    ("keyspace", keyspace),
];

fn lines(text: &mut String, title: &str, lines: &[(&str, String)]) {
    // Writing to a `String` cannot fail.
    let _ = write!(text, "# {title}\r\n");
    for (name, value) in lines {
        let _ = write!(text, "{name}:{value}\r\n");
    }
}

fn server(data: &Data, text: &mut String) {
    lines(
        text,
        "Server",
        &[
            ("redis_version", REDIS_VERSION.into()),
            ("redis_mode", "standalone".into()),
            ("steadlock_version", env!("CARGO_PKG_VERSION").into()),
            ("os", std::env::consts::OS.into()),
            ("arch_bits", usize::BITS.to_string()),
            ("process_id", std::process::id().to_string()),
            ("run_id", data.run_id().into()),
            ("tcp_port", data.port_info().port.to_string()),
            ("server_time_usec", data.now().as_micros().to_string()),
            ("uptime_in_seconds", data.uptime().as_secs().to_string()),
        ],
    );
}

fn clients(data: &Data, text: &mut String) {
    lines(
        text,
        "Clients",
        &[("connected_clients", data.port_info().clients.to_string())],
    );
}

fn persistence(_data: &Data, text: &mut String) {
    lines(text, "Persistence", &[("loading", "0".into())]);
}

fn stats(data: &Data, text: &mut String) {
    let total: u64 = data.counts().iter().map(|(_, count)| count.calls).sum();
    lines(text, "Stats", &[("total_commands_processed", total.to_string())]);
}

fn replication(data: &Data, text: &mut String) {
    lines(
        text,
        "Replication",
        &[
            ("role", "master".into()),
            ("connected_slaves", "0".into()),
            ("master_replid", data.run_id().into()),
            ("master_repl_offset", "0".into()),
        ],
    );
}

fn commandstats(data: &Data, text: &mut String) {
    lines(text, "Commandstats", &[]);
    for (command, count) in data.counts().iter() {
        if count.is_used() {
            // Durations are not measured: the store reads no clock, and its caller gives it one time for each request.
            let _ = write!(
                text,
                "cmdstat_{command}:calls={},usec=0,usec_per_call=0.00,rejected_calls={},failed_calls={}\r\n",
                count.calls, count.rejected, count.failed
            );
        }
    }
}

fn cluster(_data: &Data, text: &mut String) {
    lines(text, "Cluster", &[("cluster_enabled", "0".into())]);
}

fn keyspace(data: &Data, text: &mut String) {
    lines(text, "Keyspace", &[]);
    let (keys, expiring) = data.key_counts();
    if keys > 0 {
        let _ = write!(text, "db0:keys={keys},expires={expiring},avg_ttl=0\r\n");
    }
}
