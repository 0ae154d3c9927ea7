//! Runs every command of `docs/tools.md` unchanged.

use std::os::unix::fs::symlink;
use std::process::Command;

use steadlock::Client;

use crate::support::{Served, errors, status, text};

const DOCUMENT: &str = include_str!("../../../../docs/tools.md");

/// Returns the document's blocks of shell commands.
fn blocks() -> Vec<&'static str> {
    let rest = DOCUMENT.split("```sh\n").skip(1);
    rest.map(|rest| rest.split("```").next().unwrap()).collect()
}

#[tokio::test]
async fn every_command_of_the_document_does_what_it_says() {
    let server = Served::start();
    let client = Client::connect(&*server.url).await.unwrap();
    let folder = std::env::temp_dir().join(format!("steadlock-tools-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    symlink(env!("CARGO_BIN_EXE_steadlock"), folder.join("steadlock")).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let leases = [
        client.lock("stock:42").acquire().await.unwrap(),
        client.semaphore("pool", 3).acquire(2).await.unwrap(),
    ];
    let blocks = blocks();
    assert_eq!(blocks.len(), 5);
    let mut printed = Vec::new();
    for block in blocks {
        let output = Command::new("sh")
            .args(["-e", "-c", block])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("STEADLOCK_URL", &server.url)
            .output()
            .unwrap();
        assert_eq!(status(&output), 0, "{block}\n{}", errors(&output));
        printed.push(text(&output));
    }
    assert_eq!(printed[0].matches("stock:42").count(), 4, "{}", printed[0]);
    assert_eq!(printed[1], "free\n");
    assert_eq!(printed[2].matches("was taken from").count(), 2, "{}", printed[2]);
    assert_eq!(printed[3].lines().count(), 4, "{}", printed[3]);
    for file in ["steadlock.bash", "_steadlock", "steadlock.fish"] {
        assert!(std::fs::metadata(folder.join(file)).unwrap().len() > 1_000, "{file}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    drop(leases);
}

#[test]
fn the_help_of_each_command_lists_its_exit_statuses() {
    for command in ["inspect", "list", "top", "wait", "release"] {
        let output = crate::support::run("", &[command, "--help"]);
        let help = text(&output);
        assert!(
            help.contains("Exit status:") && help.contains("69  ") && help.contains("78  "),
            "{help}"
        );
        assert!(DOCUMENT.contains(&format!("| `{command}")), "{command}");
    }
}
