//! Users that lack one right at a time.

use std::collections::BTreeSet;

use steadlock_protocol::Reply;

use crate::report::Report;
use crate::support::Redis;
use crate::support::version::Version;

const SECURITY: &str = include_str!("../../../../SECURITY.md");
const PREFIX: &str = "tenant:";

/// Returns the words of a tenant's rule, as SECURITY.md prints it.
pub(crate) fn tenant() -> Vec<String> {
    let line = SECURITY
        .lines()
        .find_map(|line| line.strip_prefix("ACL SETUSER tenant "));
    let words = line.expect("the tenant's rule").split(' ');
    words.map(|word| word.replace("PASSWORD", "sesame")).collect()
}

/// Creates a user with these rules, and returns the URL with that user.
pub(crate) fn url_of(server: &Redis, user: &str, words: &[String]) -> String {
    let mut command = vec!["ACL", "SETUSER", user];
    command.extend(words.iter().map(String::as_str));
    server.run(&command);
    format!("redis://{user}:sesame@127.0.0.1:{}", server.port)
}

fn report(server: &Redis, user: &str, words: &[String]) -> Report {
    Report::of(&[&url_of(server, user, words)], &["--key-prefix", PREFIX])
}

fn keys(server: &Redis) -> Vec<Reply> {
    match server.run(&["KEYS", "*"]) {
        Reply::Array(keys) => keys,
        other => panic!("{other:?}"),
    }
}

fn has_no_missing_right(report: &Report) {
    for id in [
        "missing-command",
        "missing-keys",
        "missing-messages",
        "missing-channels",
        "missing-for-braces",
    ] {
        report.lacks(id);
    }
}

#[test]
fn the_rule_of_security_md_lacks_nothing_and_nothing_is_left_behind() {
    for version in Version::ALL {
        let server = Redis::start_version(version, &[], None);
        let report = report(&server, "tenant", &tenant());
        has_no_missing_right(&report);
        report.has("cannot-tell", "CONFIG GET is refused");
        assert_eq!(keys(&server), [], "{version}");
    }
}

#[test]
fn nothing_is_left_behind_by_a_user_that_can_neither_remove_nor_expire_keys() {
    let server = Redis::start_version(Version::System, &[], None);
    let mut words = tenant();
    words.retain(|word| !["+set", "+del", "+pexpire"].contains(&word.as_str()));
    let report = report(&server, "tenant", &words);
    report.has("missing-command", "+del");
    report.lacks("missing-keys");
    assert_eq!(keys(&server), []);
}

/// Returns the id of the finding that reports this missing right.
fn finding_of(right: &str) -> &'static str {
    let is_of_braced = right.contains("::") || right == "&redisson_lock__channel:tenant:*";
    match right {
        _ if is_of_braced => "missing-for-braces",
        "+publish" | "+subscribe" | "+unsubscribe" => "missing-messages",
        _ if right.starts_with('+') => "missing-command",
        _ if right.starts_with('~') => "missing-keys",
        _ => "missing-channels",
    }
}

#[test]
fn each_right_that_is_missing_is_named_and_no_other() {
    for version in [Version::Redis62, Version::Valkey91] {
        let server = Redis::start_version(version, &[], None);
        let rule = tenant();
        let rights: Vec<&String> = rule.iter().filter(|word| word.starts_with(['+', '~', '&'])).collect();
        assert!(rights.len() > 30, "{rights:?}");
        for (number, right) in rights.into_iter().enumerate() {
            let words: Vec<String> = rule.iter().filter(|word| *word != right).cloned().collect();
            let report = report(&server, &format!("tenant-{number}"), &words);
            report.has(finding_of(right), right);
            let missing: BTreeSet<&str> = report
                .warnings_and_errors()
                .into_iter()
                .filter(|id| id.starts_with("missing"))
                .collect();
            assert_eq!(missing, BTreeSet::from([finding_of(right)]), "without {right}");
        }
        assert_eq!(keys(&server), [], "{version}");
    }
}

#[test]
fn in_a_cluster_the_rights_for_clusters_are_tested_too() {
    for (version, sharded) in [
        (Version::Redis62, &[][..]),
        (Version::Valkey91, &["+ssubscribe", "+sunsubscribe", "+spublish"]),
    ] {
        let node = Redis::start_cluster(version, &[]);
        let mut rule = tenant();
        rule.extend(
            ["+cluster|slots", "+asking"]
                .iter()
                .chain(sharded)
                .map(|right| String::from(*right)),
        );
        let report = |user: &str, words: &[String]| {
            let url = url_of(&node, user, words).replace("redis://", "redis+cluster://");
            Report::of(&[&url], &["--key-prefix", PREFIX])
        };
        let all = report("tenant", &rule);
        assert!(
            all.warnings_and_errors().iter().all(|id| !id.starts_with("missing")),
            "{:#}",
            all.json
        );
        for (number, right) in ["+asking"].iter().chain(sharded).enumerate() {
            let words: Vec<String> = rule.iter().filter(|word| word != right).cloned().collect();
            let finding = if number == 0 {
                "missing-command"
            } else {
                "missing-messages"
            };
            report(&format!("tenant-{number}"), &words).has(finding, right);
        }
        assert_eq!(keys(&node), [], "{version}");
    }
}

#[test]
fn the_printed_line_is_accepted_and_sufficient() {
    for version in Version::ALL {
        let server = Redis::start_version(version, &[], None);
        for (user, prefix) in [("tenant", PREFIX), ("locks", "")] {
            let options = ["--key-prefix", prefix];
            let before = Report::of(&[&server.url()], &options);
            let line = before.json["access"].as_str().unwrap();
            let words = line.strip_prefix(&format!("ACL SETUSER {user} ")).unwrap().split(' ');
            let words: Vec<String> = words.map(|word| word.replace("PASSWORD", "sesame")).collect();
            let after = Report::of(&[&url_of(&server, user, &words)], &options);
            for id in [
                "missing-command",
                "missing-keys",
                "missing-messages",
                "missing-for-braces",
                "missing-optional",
            ] {
                after.lacks(id);
            }
        }
    }
}

#[test]
fn the_pattern_for_all_keys_is_recommended_alone() {
    let server = Redis::start();
    let words = ["reset", "on", ">sesame", "~other:*", "allchannels", "+@all"].map(String::from);
    let report = Report::of(&[&url_of(&server, "weak", &words)], &[]);
    report.has("missing-keys", "may not use keys of ~*:");
}

#[test]
fn no_secret_is_repeated() {
    let server = Redis::start();
    let url = url_of(&server, "tenant", &tenant());
    for arguments in [&["--url", &url][..], &["--json", "--url", &url]] {
        let output = crate::report::doctor(arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains("missing-keys"), "{printed}");
        assert!(!printed.contains("sesame"), "{printed}");
    }
}

/// Since Redis 7.0 a user can have selectors, each with its own keys and commands. A command is allowed only if one
/// selector allows all that it needs.
#[tokio::test]
async fn rights_in_different_selectors_are_reported_and_one_selector_with_all_is_enough() {
    const KEYS: &str = "~tenant:* ~steadlock:{tenant:* ~steadlock::tenant:*";
    const CHANNELS: &str = "resetchannels &redisson_lock__channel:{tenant:* &redisson_lock__channel:tenant:* \
        &steadlock:{tenant:* &steadlock::tenant:*";
    let places = [
        // Everything in one selector of a user who has no other rights.
        ("one", format!("({KEYS} {CHANNELS} +@all)"), None),
        // A selector for other keys does no harm.
        ("beside", format!("{KEYS} {CHANNELS} +@all (~app:* +get)"), None),
        // Each form of key in a separate selector, so no script may use two of them.
        (
            "keys",
            format!("{CHANNELS} +@all (~tenant:* +@all) (~steadlock:{{tenant:* ~steadlock::tenant:* +@all)"),
            Some(("missing-keys", "+evalsha and keys of ~tenant:* ~steadlock:{tenant:*")),
        ),
        // Some commands are allowed on the names only.
        (
            "commands",
            format!("{CHANNELS} ~steadlock:{{tenant:* ~steadlock::tenant:* +@all ({KEYS} +@all -hset -hexists)"),
            Some(("missing-keys", "+hexists +hset and keys of ~tenant:*")),
        ),
        (
            "braced",
            format!("{CHANNELS} ~tenant:* ~steadlock:{{tenant:* +@all ({KEYS} +@all -zadd)"),
            Some(("missing-for-braces", "+zadd and keys of ~steadlock::tenant:*")),
        ),
    ];
    for version in Version::ALL.into_iter().filter(|version| *version != Version::Redis62) {
        let server = Redis::start_version(version, &[], None);
        for (user, rule, finding) in &places {
            let mut words = vec!["reset".to_owned(), "on".into(), ">sesame".into()];
            let mut open = false;
            for word in rule.split(' ') {
                match words.last_mut() {
                    Some(selector) if open => *selector = format!("{selector} {word}"),
                    _ => words.push(word.into()),
                }
                open = (open || word.starts_with('(')) && !word.ends_with(')');
            }
            let url = url_of(&server, user, &words);
            let report = Report::of(&[&url], &["--key-prefix", PREFIX]);
            match finding {
                Some((id, word)) => report.has(id, word),
                None => has_no_missing_right(&report),
            }
            assert_eq!(keys(&server), [], "{version} {user}");
            // A program has the same result, except for this fault: without waiters no lock needs ZADD.
            if *user == "braced" {
                continue;
            }
            let client = steadlock::Client::builder().url(url).key_prefix(PREFIX);
            let client = client.connect().await.unwrap();
            let acquired = client.lock("a").acquire().await;
            let refused = acquired.map(drop).map_err(|error| error.kind());
            let expected = finding.map_or(Ok(()), |_| Err(steadlock::ErrorKind::Misconfigured));
            assert_eq!(refused, expected, "{version} {user}");
            client.close().await;
            server.run(&["FLUSHALL"]);
        }
    }
}
