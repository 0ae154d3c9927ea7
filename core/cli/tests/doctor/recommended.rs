//! Servers with the settings that docs/operations.md recommends.

use std::time::Duration;

use steadlock_protocol::Reply;

use crate::certificates::Authority;
use crate::permissions::{tenant, url_of};
use crate::report::Report;
use crate::support::version::Version;
use crate::support::{Redis, eventually, free_port};

const SETTINGS: &[&str] = &[
    "--appendonly",
    "yes",
    "--maxmemory",
    "100mb",
    "--maxmemory-policy",
    "noeviction",
    "--min-replicas-to-write",
    "1",
];

/// Starts a primary with a replica. The primary requires a password.
fn pair() -> (Redis, Redis) {
    let version = Version::Valkey91;
    let primary = Redis::start_version(version, SETTINGS, Some("operator"));
    let of = format!("127.0.0.1 {}", primary.port);
    let replica = Redis::start_version(version, &["--replicaof", &of, "--masterauth", "operator"], None);
    let is_linked = || match primary.run(&["INFO", "replication"]) {
        Reply::Bytes(text) => String::from_utf8_lossy(&text).contains("state=online"),
        _ => false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(eventually("the replica is linked", Duration::from_secs(30), is_linked));
    (primary, replica)
}

#[test]
fn a_good_server_has_its_tier_and_no_finding_above_info() {
    let (primary, replica) = pair();
    let mut rule = tenant();
    rule.extend(["+info", "+config|get", "+client|setinfo"].map(Into::into));
    // A replica has its own users, and this one needs its rights there after a failover.
    url_of(&replica, "tenant", &rule);
    let report = Report::of(&[&url_of(&primary, "tenant", &rule)], &["--key-prefix", "tenant:"]);
    assert_eq!(report.warnings_and_errors(), Vec::<&str>::new(), "{:#}", report.json);
    assert_eq!(report.ids(&["info"]), ["last-second"], "{:#}", report.json);
    assert_eq!((report.tier(), report.status), ("T1", 0));
    assert_eq!(report.json["tier"]["cannot_tell"], serde_json::json!([]));
}

#[test]
fn a_report_for_the_user_of_security_md_has_no_fault_and_says_what_it_cannot_tell() {
    let (primary, _replica) = pair();
    let report = Report::of(&[&url_of(&primary, "tenant", &tenant())], &["--key-prefix", "tenant:"]);
    assert_eq!(report.warnings_and_errors(), Vec::<&str>::new(), "{:#}", report.json);
    assert_eq!(report.status, 0);
    assert!(report.ids(&["info"]).contains(&"cannot-tell"));
    assert_ne!(report.json["tier"]["cannot_tell"], serde_json::json!([]));
}

#[test]
fn a_server_with_tls_is_recognized() {
    let authority = Authority::new();
    let certificate = authority.here();
    let port = free_port();
    let server = Redis::start_version(
        Version::System,
        &[
            SETTINGS,
            &["--min-replicas-to-write", "0", "--tls-auth-clients", "no"],
            &["--tls-port", &port.to_string()],
            &["--tls-cert-file", certificate.cert.to_str().unwrap()],
            &["--tls-key-file", certificate.key.to_str().unwrap()],
        ]
        .concat(),
        None,
    );
    url_of(&server, "tenant", &tenant());
    let ca = authority.file();
    for scheme in ["rediss", "valkeys"] {
        let report = Report::of(
            &[&format!("{scheme}://tenant:sesame@localhost:{port}")],
            &["--key-prefix", "tenant:", "--tls-ca-file", ca.to_str().unwrap()],
        );
        let warnings_and_errors: Vec<&str> = report
            .warnings_and_errors()
            .into_iter()
            .filter(|id| *id != "advisory")
            .collect();
        assert_eq!(warnings_and_errors, Vec::<&str>::new(), "{scheme}: {:#}", report.json);
        assert_eq!(report.json["servers"][0]["tls"], true, "{scheme}");
        report.lacks("plaintext");
        report.has("no-password", "default user");
    }
}

#[test]
fn the_text_has_findings_tier_and_access_line() {
    let server = Redis::start_with(&["--timeout", "5"], None);
    let output = crate::report::doctor(&[])
        .env("STEADLOCK_URL", server.url())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "warning  idle-timeout (127.0.0.1:",
        "\n         → CONFIG SET timeout 0",
        "\ntier     T0: ",
        "\nACL SETUSER locks reset",
        "\nresult   0 errors, ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert_eq!(output.status.code(), Some(1));
}
