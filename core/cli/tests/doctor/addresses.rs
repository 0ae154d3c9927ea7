//! A host name that leads to several servers.

use std::process::Command;

use crate::report::Report;
use crate::support::hosts::Hosts;
use crate::support::two_servers::{FIRST, NAME, SECOND, TwoServers, UNUSED};

#[test]
fn the_primary_is_checked_and_not_the_replica() {
    let Some(hosts) = Hosts::of("addresses::the_primary_is_checked_and_not_the_replica") else {
        return;
    };
    let two = TwoServers::start();
    two.make_first_a_replica();
    for addresses in [[FIRST, SECOND], [SECOND, FIRST]] {
        hosts.lead(&[(NAME, &addresses)]);
        let report = Report::of(&[&two.url()], &[]);
        report.lacks("writes-refused");
        report.lacks("several-servers");
    }
    hosts.lead(&[(NAME, &[FIRST, UNUSED])]);
    Report::of(&[&two.url()], &[]).has("writes-refused", "READONLY");
}

#[test]
fn two_primaries_of_one_name_are_named_and_one_is_checked() {
    let Some(hosts) = Hosts::of("addresses::two_primaries_of_one_name_are_named_and_one_is_checked") else {
        return;
    };
    let two = TwoServers::start();
    hosts.lead(&[(NAME, &[FIRST, SECOND])]);
    let report = Report::of(&[&two.url()], &[]);
    report.has("several-servers", "primaries of their own");
    report.has("no-persistence", "appendonly");
    report.has("no-password", "requirepass");
    assert_eq!(report.status, 2);
    assert_eq!(report.tier(), "none");
    two.grant_all_except(&["info", "set"]);
    let report = Report::of(&[&two.url_of_user()], &[]);
    report.has("several-servers", "cannot be told");
    report.has("missing-command", "set");
    // Other commands refuse the name, as programs do.
    for arguments in [&["inspect", "a"][..], &["list"], &["top", "--once"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_steadlock"))
            .args(arguments)
            .env("STEADLOCK_URL", two.url())
            .output()
            .expect("the command runs");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{arguments:?}: {printed}");
        assert!(printed.contains("several servers"), "{arguments:?}: {printed}");
    }
}
