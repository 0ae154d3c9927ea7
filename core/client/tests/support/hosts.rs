//! Names that lead where a test says: `/etc/hosts` is a file of its own, in a mount namespace.

use std::path::PathBuf;
use std::process::Command;

/// Set in the process that has the names.
const FILE: &str = "STEADLOCK_TEST_HOSTS";

/// The names of this process.
pub struct Hosts {
    file: PathBuf,
}

impl Hosts {
    /// Runs this test once more, in a process with names of its own, which has this; `None` when it has passed there.
    pub fn of(test: &str) -> Option<Self> {
        if let Some(file) = std::env::var_os(FILE) {
            return Some(Self { file: file.into() });
        }
        let name = format!("steadlock-hosts-{}-{}", std::process::id(), test.replace("::", "-"));
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, "").expect("a file");
        let program = std::env::current_exe().expect("this program");
        let command = format!("mount --bind {} /etc/hosts && exec \"$0\" \"$@\"", file.display());
        let done = Command::new("unshare")
            .args([
                "--map-root-user",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                &command,
            ])
            .arg(program)
            .args(["--exact", test, "--nocapture", "--test-threads", "1"])
            .env(FILE, &file)
            .output()
            .expect("unshare");
        let _ = std::fs::remove_file(&file);
        let said = String::from_utf8_lossy(&done.stdout);
        let complained = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success() && said.contains("1 passed"),
            "{said}\n{complained}"
        );
        None
    }

    /// From now on the names lead there.
    pub fn lead(&self, names: &[(&str, &[&str])]) {
        let lines = names
            .iter()
            .flat_map(|(name, addresses)| addresses.iter().map(move |address| format!("{address} {name}\n")));
        // In place: the file that is mounted is this one.
        std::fs::write(&self.file, lines.collect::<String>()).expect("the file");
    }
}
