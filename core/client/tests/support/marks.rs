//! What Leasehold is known to get wrong on one version of a server. Here and nowhere else.
//!
//! A test named here must fail on that version. If it passes, it fails, until its mark is taken away.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::version::Version;

struct Mark {
    version: Version,
    /// A test's name, or a scenario of the behaviour suite as `"name" (kind)`.
    test: &'static str,
    reason: &'static str,
}

const MARKS: [Mark; 3] = [
    Mark {
        version: Version::Redis62,
        test: "a_full_server_is_unavailable_and_serves_again_when_it_has_room",
        reason: "Redis 6.2 wraps a script's error, `ERR Error running script …: -OOM …`, so that it is taken for a lasting one",
    },
    Mark {
        version: Version::Redis62,
        test: "a_key_that_holds_something_else_is_named_and_advice_given",
        reason: "Redis 6.2 wraps a script's error, `ERR Error running script …: WRONGTYPE …`, which is told as it came",
    },
    Mark {
        version: Version::Redis62,
        test: "a_primary_that_became_a_replica_is_unavailable",
        reason: "Redis 6.2 wraps a script's error, `ERR Error running script …: -READONLY …`, so that it is taken for a lasting one",
    },
];

/// Runs a test on the version of this run: it must pass, or fail if it is marked.
pub async fn unless_marked(test: &str, body: impl Future<Output = ()>) {
    let version = Version::chosen();
    let Some(mark) = MARKS.iter().find(|mark| mark.version == version && mark.test == test) else {
        return body.await;
    };
    let result = AssertUnwindSafe(body).catch_unwind().await;
    assert!(
        result.is_err(),
        "{test} passes on {version}: take its mark away ({})",
        mark.reason
    );
    eprintln!("{test} fails on {version}, as known: {}", mark.reason);
}

/// The scenarios of the behaviour suite that are marked on the version of this run.
pub fn marked_scenarios() -> Vec<&'static str> {
    let here = MARKS.iter().filter(|mark| mark.version == Version::chosen());
    here.map(|mark| mark.test).filter(|test| is_scenario(test)).collect()
}

/// The tests that are marked on any version.
pub fn marked_tests() -> impl Iterator<Item = &'static str> {
    MARKS.iter().map(|mark| mark.test).filter(|test| !is_scenario(test))
}

fn is_scenario(test: &str) -> bool {
    test.starts_with('"')
}
