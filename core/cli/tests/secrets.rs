//! The command repeats no secret, wherever it was given by mistake. The tests pass each shape of
//! `ci/secrets/shapes.json` on the command line.

use std::process::{Command, Stdio};

use serde_json::Value;

const SHAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/secrets/shapes.json");

/// Returns what the command prints.
fn printed(arguments: &[&str], url: Option<&str>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadlock"));
    command.args(arguments).env_remove("STEADLOCK_URL").stdin(Stdio::null());
    if let Some(url) = url {
        command.env("STEADLOCK_URL", url);
    }
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn printed_for(place: &str, given: &str) -> String {
    let nowhere = Some("rediss://127.0.0.1:1");
    // The form with `=` makes a value that begins with a dash part of the option.
    let glued = |option: &str| format!("{option}={given}");
    let run = |more: &[&str]| printed(&[&["run"], more, &["name", "--", "true"]].concat(), nowhere);
    let release = |kind: &str| {
        printed(
            &["release", "--force", "--kind", kind, "--", given],
            Some("redis://127.0.0.1:1"),
        )
    };
    match place {
        "connect" => {
            printed(&["run", &glued("--url"), "name", "--", "true"], None)
                + &printed(&["inspect", &glued("--url"), "name"], None)
                + &printed(&["list", &glued("--url")], None)
                + &printed(&["doctor", &glued("--url")], None)
        }
        "connect by STEADLOCK_URL" => {
            printed(&["run", "name", "--", "true"], Some(given))
                + &printed(&["top"], Some(given))
                + &printed(&["wait", "name"], Some(given))
        }
        "redlock, one of the primaries" => {
            let others = ["--url=redis://127.0.0.1:1", "--url=redis://127.0.0.1:2"];
            printed(&["inspect", others[0], others[1], &glued("--url"), "name"], None)
                + &printed(&["doctor", others[0], others[1], &glued("--url")], None)
                + &printed(
                    &["list"],
                    Some(&format!("redis://127.0.0.1:1 {given} redis://127.0.0.1:2")),
                )
        }
        "prefix" => {
            run(&[&glued("--key-prefix")])
                + &printed(&["list", &glued("--key-prefix")], nowhere)
                + &printed(&["doctor", &glued("--key-prefix")], nowhere)
                + &printed(&["acl", "tenant", &glued("--prefix"), "--prefix="], None)
        }
        "a lock to take away" => printed(&["release", "--force", "--", given], nowhere) + &release("lock"),
        "name of a mutex" => release("mutex"),
        "name of a fair lock" => release("fair_lock"),
        "name of a read-write lock" => release("read_lock") + &release("write_lock"),
        "name of a semaphore" => release("semaphore"),
        "lease of a client" => run(&[&glued("--lease")]) + &printed(&["doctor", &glued("--lease")], nowhere),
        "wait" => {
            run(&[&glued("--wait")])
                + &printed(&["wait", "name", &glued("--timeout")], nowhere)
                + &printed(&["top", &glued("--interval")], nowhere)
        }
        "a file of authorities" | "a URL in a file's place" => run(&[&glued("--tls-ca-file")]),
        "a server's name" => run(&[&glued("--tls-server-name")]),
        "an address map" => {
            let cluster = |option: &str| {
                printed(
                    &["run", option, "name", "--", "true"],
                    Some("redis+cluster://127.0.0.1:1"),
                )
            };
            cluster(&glued("--address-map")) + &cluster(&format!("--address-map=h:1={given}"))
        }
        "a file of a certificate" => run(&[&glued("--tls-cert-file"), &format!("--tls-key-file={SHAPES}")]),
        "a file of a key" => run(&[&format!("--tls-cert-file={SHAPES}"), &glued("--tls-key-file")]),
        "name of a lock" => {
            printed(&["run", given, "--", "true"], Some("redis://127.0.0.1:1"))
                + &printed(&["inspect", "--", given], nowhere)
                + &printed(&["wait", "--", given], nowhere)
                + &printed(&["list", "--", given], nowhere)
        }
        "an argument that is not known" => {
            run(&[&glued("--password")])
                + &run(&["other", given])
                + &run(&[&format!("--{given}")])
                + &run(&["-p", given])
        }
        "command to run" => printed(&["run", "name", "--", given], Some("redis://127.0.0.1:1")),
        "a subcommand" => {
            printed(&[given], None) + &printed(&[given, "run"], None) + &printed(&["completions", "--", given], None)
        }
        "port to listen on" => {
            printed(&["serve", &glued("--port")], None)
                + &printed(&["serve", &glued("--bind")], None)
                + &printed(&["serve", &glued("--http")], None)
        }
        "a file of a password" => {
            let http = |option: &str| printed(&["serve", "--port=0", "--http=0", option], None);
            printed(&["serve", "--port=0", &glued("--password-file")], None)
                + &http(&glued("--http-token-file"))
                + &http(&glued("--http-root"))
                + &http(&glued("--http-origin").replace("://", ":"))
        }
        _ => panic!("shapes.json has the place {place:?}, which is not tried here"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{value} has no {key}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("there is no {key}"))
}

#[test]
fn no_secret_is_repeated_wherever_it_was_given() {
    let shapes: Value = serde_json::from_str(&std::fs::read_to_string(SHAPES).unwrap()).unwrap();
    let mut leaks = Vec::new();
    let mut try_one = |place: &str, given: &str, marks: &[Value]| {
        let text = printed_for(place, given);
        if marks.iter().filter_map(Value::as_str).any(|mark| text.contains(mark)) {
            leaks.push(format!("{place}: {given}\n{text}"));
        }
    };
    let marks = [Value::from("hunter2")];
    for place in list(&shapes, "places") {
        let name = text(place, "place");
        let (kind, field) = match text(place, "given") {
            _ if place["not in"]["cli"].is_string() => continue,
            "urls" => ("urls", "url"),
            "names" => ("names", "name"),
            _ => {
                for key in list(&shapes, "keys") {
                    try_one(name, text(key, "text"), &marks);
                }
                continue;
            }
        };
        let secrets = list(&shapes, "secrets");
        for (number, shape) in list(&shapes, kind).iter().enumerate() {
            // Each call starts a process. Where no URL is parsed, one secret for each shape is enough.
            let turn = number % secrets.len();
            let some = if name.starts_with("connect") {
                secrets
            } else {
                &secrets[turn..=turn]
            };
            for secret in some {
                let raw = text(secret, "raw");
                if shape["unless"].as_str().is_some_and(|letter| raw.contains(letter)) {
                    continue;
                }
                let given = text(shape, field)
                    .replace("{raw}", raw)
                    .replace("{encoded}", text(secret, "encoded"));
                try_one(name, &given, list(secret, "marks"));
            }
        }
    }
    assert!(leaks.is_empty(), "{} leaks, such as {}", leaks.len(), leaks[0]);
}

#[test]
fn a_command_that_cannot_be_run_is_named_without_userinfo() {
    let serve = Command::new(env!("CARGO_BIN_EXE_steadlock"))
        .args(["serve", "--port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut serve = Stopped(serve);
    let mut line = String::new();
    let output = serve.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    let url = line.split_whitespace().last().unwrap();
    let text = printed(&["run", "name", "--", "redis://:hunter2@nowhere"], Some(url));
    assert!(
        text.contains("redis://…@nowhere") && !text.contains("hunter2"),
        "{text}"
    );
}

struct Stopped(std::process::Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
