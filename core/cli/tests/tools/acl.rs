//! `acl` prints the rules of SECURITY.md, and rules for other prefixes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Rig, errors, run, status, text};

const SECURITY: &str = include_str!("../../../../SECURITY.md");

fn acl(arguments: &[&str]) -> String {
    let output = run("", &[&["acl"], arguments].concat());
    assert_eq!(status(&output), 0, "{arguments:?}: {}", errors(&output));
    text(&output).trim_end().to_owned()
}

/// Returns the line of this user in SECURITY.md.
fn printed(user: &str) -> &'static str {
    let start = format!("ACL SETUSER {user} ");
    let mut lines = SECURITY.lines().filter(|line| line.starts_with(&start));
    lines.next().unwrap_or_else(|| panic!("SECURITY.md has no {start}"))
}

#[test]
fn each_role_has_the_rule_that_is_printed() {
    for (user, role, prefix) in [
        ("locks", "application", "orders:"),
        ("tenant", "tenant", "tenant:"),
        ("operator", "operator", "orders:"),
        ("watcher", "watcher", "orders:"),
    ] {
        assert_eq!(acl(&[role, "--prefix", prefix]), printed(user));
    }
}

#[test]
fn the_added_rights_are_those_of_the_table() {
    let line = acl(&[
        "application",
        "--prefix",
        "a:",
        "--cluster",
        "--redlock",
        "--database",
        "--client-info",
    ]);
    let bare = acl(&["application", "--prefix", "a:"]);
    let added: Vec<&str> = line.strip_prefix(&bare).unwrap().split_whitespace().collect();
    let tools = acl(&["watcher", "--prefix", "a:", "--tools"]);
    let bare = acl(&["watcher", "--prefix", "a:"]);
    let tools: Vec<&str> = tools.strip_prefix(&bare).unwrap().split_whitespace().collect();
    // In the table, | is written as \|.
    let table = SECURITY.lines().filter(|line| line.starts_with("| `+"));
    let cells: Vec<String> = table
        .map(|line| line.replace("\\|", "/").split('|').nth(1).unwrap().replace('/', "|"))
        .collect();
    let of_table: BTreeSet<&str> = cells
        .iter()
        .flat_map(|cell| cell.split('`'))
        .filter(|word| word.starts_with('+'))
        .collect();
    assert_eq!(added.into_iter().chain(tools).collect::<BTreeSet<_>>(), of_table);
}

#[test]
fn servers_accept_every_rule() {
    let server = Rig::start("standalone");
    let node = &server.nodes[0];
    for (number, arguments) in [
        &[
            "application",
            "--prefix",
            "a:",
            "--prefix",
            "b:",
            "--redlock",
            "--database",
        ][..],
        &["tenant", "--prefix", "t:", "--redlock"],
        &["operator", "--prefix", "a:", "--confined", "--tools"],
        &["watcher", "--prefix", "a:", "--prefix", "b:", "--tools"],
        &["watcher", "--prefix", "a:", "--confined", "--cluster"],
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("user-{number}");
        let line = acl(&[arguments, &["--user", &user]].concat());
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(node.text(&words), "OK", "{line}");
        let file = acl(&[arguments, &["--user", &user, "--acl-file"]].concat());
        assert_eq!(file.strip_prefix("user "), line.strip_prefix("ACL SETUSER "));
        let json: Value = serde_json::from_str(&acl(&[arguments, &["--user", &user, "--json"]].concat())).unwrap();
        assert_eq!((&json["user"], &json["line"]), (&user.into(), &line.into()));
    }
    let sentinel = acl(&["sentinel"]);
    assert!(
        sentinel.contains("&+switch-master") && sentinel.contains("+sentinel|get-master-addr-by-name"),
        "{sentinel}"
    );
}

#[test]
fn a_prefix_that_would_admit_others_is_refused() {
    for arguments in [
        &["application"][..],
        &["tenant", "--prefix", "a:", "--prefix", "b:"],
        &["watcher", "--prefix", "a:", "--prefix", "b:", "--confined"],
        &["tenant", "--prefix", "*"],
        &["tenant", "--prefix", "a: +@all"],
        &["tenant", "--prefix", "{a"],
        &["tenant", "--prefix", "{a}:"],
        &["tenant", "--prefix", "stead"],
        &["tenant", "--prefix", ""],
        &["tenant", "--prefix", "a:", "--user", "x ~*"],
        &["sentinel", "--prefix", "a:"],
        &["admin", "--prefix", "a:"],
    ] {
        let output = run("", &[&["acl"], arguments].concat());
        assert_eq!(status(&output), 2, "{arguments:?}: {output:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{arguments:?}: {output:?}"
        );
    }
    let output = run("", &["acl", "application", "--prefix", "a:", "--confined"]);
    assert!(errors(&output).contains("only an operator or a watcher"), "{output:?}");
}

#[test]
fn completions_are_scripts_that_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run("", &["completions", shell]);
        assert_eq!(status(&output), 0);
        let script = text(&output);
        for word in [
            "inspect",
            "list",
            "top",
            "wait",
            "release",
            "lead",
            "leader",
            "jobs",
            "acl",
            "--at-least",
            "--stale",
            "--key-prefix",
        ] {
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(script.contains(word), "{shell} has no {word}");
        }
        assert!(
            !script.contains("supervise"),
            "{shell}: users must not see a hidden command"
        );
    }
    let script = text(&run("", &["completions", "bash"]));
    let checked = std::process::Command::new("bash")
        .args(["-n", "-c", &script])
        .status()
        .unwrap();
    assert!(checked.success(), "bash refuses the script");
}

#[test]
fn the_command_and_each_subcommand_have_a_page_for_man() {
    let whole = text(&run("", &["manual"]));
    assert!(whole.contains(".TH steadlock 1"), "{whole}");
    for command in [
        "serve", "run", "lead", "doctor", "inspect", "list", "jobs", "leader", "top", "wait", "release", "acl",
        "manual",
    ] {
        assert!(
            whole.contains(&format!("steadlock\\-{command}(1)")),
            "{command}: {whole}"
        );
        let page = text(&run("", &["manual", command]));
        assert!(page.contains(&format!(".TH steadlock-{command} 1")), "{page}");
        assert!(page.contains(&format!("\\fBsteadlock {command}\\fR")), "{page}");
    }
    let page = text(&run("", &["manual", "run"]));
    assert!(page.contains(r"<\fINAME\fR> \-\- <\fICOMMAND\fR>..."), "{page}");
    for hidden in ["supervise", "hunter2"] {
        assert!(!whole.contains(hidden), "users must not see a hidden command");
        let output = run("", &["manual", hidden]);
        assert_eq!(status(&output), 2);
        assert!(output.stdout.is_empty() && !String::from_utf8_lossy(&output.stderr).contains(hidden));
    }
}
