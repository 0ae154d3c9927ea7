//! Host names whose addresses a test chooses: the test has its own `/etc/hosts` in a mount namespace.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::getuid;

/// The environment variable with the path of the test's hosts file. Only the process in the namespace has it.
const FILE: &str = "STEADLOCK_TEST_HOSTS";
/// The length of the file in bytes; no list of names may be longer.
const LENGTH: usize = 1_000;

/// The host names of this process.
pub struct Hosts {
    file: PathBuf,
}

impl Hosts {
    /// Runs this test once more in a process with its own host names. In that process this returns the names. In the
    /// first process it returns `None` once the test has passed in the other one.
    pub fn of(test: &str) -> Option<Self> {
        if let Some(file) = std::env::var_os(FILE) {
            return Some(Self { file: file.into() });
        }
        let name = format!("steadlock-hosts-{}-{}", std::process::id(), test.replace("::", "-"));
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, "").expect("a file");
        let program = std::env::current_exe().expect("this program");
        let command = format!("mount --bind {} /etc/hosts && exec \"$0\" \"$@\"", file.display());
        // Root may mount without a user namespace. In one, no process could switch to another user.
        let root = if getuid().is_root() {
            None
        } else {
            Some("--map-root-user")
        };
        let done = Command::new("unshare")
            .args(root)
            .args(["--mount", "--propagation", "private", "sh", "-c", &command])
            .arg(program)
            .args(["--exact", test, "--nocapture", "--test-threads", "1"])
            .env(FILE, &file)
            .output()
            .expect("unshare");
        let _ = std::fs::remove_file(&file);
        let output = String::from_utf8_lossy(&done.stdout);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success() && output.contains("1 passed"),
            "{output}\n{errors}"
        );
        print!("{output}");
        None
    }

    /// Gives the names these addresses from now on. The file keeps its length and one write replaces all of it, so no
    /// lookup sees half of the change.
    pub fn lead(&self, names: &[(&str, &[&str])]) {
        let lines = names
            .iter()
            .flat_map(|(name, addresses)| addresses.iter().map(move |address| format!("{address} {name}\n")));
        let text = format!("{:LENGTH$}\n", lines.collect::<String>());
        // The file is written in place: the mount shows this file, not another one with its name.
        let file = File::options().write(true).open(&self.file);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("the file");
    }
}
