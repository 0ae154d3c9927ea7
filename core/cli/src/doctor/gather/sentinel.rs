//! Asks the sentinels of a primary for the primary's address, their settings, and whether a failover is possible.

use std::time::Duration;

use steadlock::admin::{CallError, Reply, Server};

use super::asking::{ask, map, no_answer_reason, text};
use crate::doctor::facts::{Fact, Sentinel, Sentinels};

pub(super) async fn gather(servers: &mut [Server], service: &str) -> Sentinels {
    let none = || "no sentinel answers".to_owned();
    let mut found = Sentinels {
        all: Vec::new(),
        quorum: Fact::Unknown(none()),
        down_after: Fact::Unknown(none()),
        can_fail_over: Fact::Unknown(none()),
    };
    for server in servers {
        let primary = ask(server, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service]).await;
        let primary = primary.then(address, "who the primary is");
        if primary.known().is_some() {
            let fields_of_primary = ask(server, &["SENTINEL", "MASTER", service]).await;
            let fields_of_primary = fields_of_primary.then(|reply| Some(map(&reply)), "how it watches");
            let field = |name: &str| match &fields_of_primary {
                Fact::Known(fields) => match fields.get(name).and_then(|value| value.parse().ok()) {
                    Some(number) => Fact::Known(number),
                    None => Fact::Unknown(format!("a sentinel does not say its {name}")),
                },
                Fact::Unknown(why) => Fact::Unknown(why.clone()),
            };
            keep_first_known(&mut found.quorum, field("quorum"));
            let down_after = field("down-after-milliseconds");
            let down_after = down_after.then(|ms| Some(Duration::from_millis(ms)), "when a server counts as down");
            keep_first_known(&mut found.down_after, down_after);
            keep_worst(&mut found.can_fail_over, can_fail_over(server, service).await);
        }
        found.all.push(Sentinel {
            name: server.address().into(),
            primary,
        });
    }
    let answering = found
        .all
        .iter()
        .filter(|sentinel| sentinel.primary.known().is_some())
        .count();
    let is_majority = answering * 2 > found.all.len();
    let has_quorum = !found
        .quorum
        .is_known_and(|quorum| u64::try_from(answering).unwrap_or(0) < *quorum);
    if !is_majority || !has_quorum {
        let quorum = found.quorum.known().map(|quorum| format!(", the quorum is {quorum}"));
        found.can_fail_over = Fact::Known(Err(format!(
            "{answering} of {} answer{}",
            found.all.len(),
            quorum.unwrap_or_default()
        )));
    }
    found
}

/// Returns whether a sentinel reports that the sentinels could agree on a failover.
async fn can_fail_over(server: &mut Server, service: &str) -> Fact<Result<(), String>> {
    match server.ask(&["SENTINEL", "CKQUORUM", service]).await {
        Ok(Ok(_)) => Fact::Known(Ok(())),
        Ok(Err(CallError::Server { code, message })) if code == "NOQUORUM" => Fact::Known(Err(message)),
        Ok(Err(_)) => Fact::Unknown("SENTINEL CKQUORUM is refused".into()),
        Err(error) => Fact::Unknown(no_answer_reason(&error)),
    }
}

/// Keeps the first answer that is known.
fn keep_first_known<T>(known: &mut Fact<T>, other: Fact<T>) {
    if known.known().is_none() {
        *known = other;
    }
}

/// Keeps the first answer that is known, but lets a later answer that a failover is impossible replace it.
fn keep_worst(known: &mut Fact<Result<(), String>>, other: Fact<Result<(), String>>) {
    if known.known().is_none() || other.is_known_and(Result::is_err) {
        *known = other;
    }
}

/// Reads a host and a port.
fn address(reply: Reply) -> Option<String> {
    let Reply::Array(parts) = reply else { return None };
    let (host, port) = (text(parts.first()?)?, text(parts.get(1)?)?);
    Some(if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}
