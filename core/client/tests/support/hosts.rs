//! Names that lead where a test says: `/etc/hosts` is a file of its own, in a mount namespace.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::getuid;

/// Set in the process that has the names.
const FILE: &str = "STEADLOCK_TEST_HOSTS";
/// No list of names is longer.
const LENGTH: usize = 1_000;

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
        // Root needs no user namespace, in which there would be nobody else.
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
        let said = String::from_utf8_lossy(&done.stdout);
        let complained = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success() && said.contains("1 passed"),
            "{said}\n{complained}"
        );
        print!("{said}");
        None
    }

    /// From now on the names lead there. No lookup finds half of it: the file keeps its length, and is written at once.
    pub fn lead(&self, names: &[(&str, &[&str])]) {
        let lines = names
            .iter()
            .flat_map(|(name, addresses)| addresses.iter().map(move |address| format!("{address} {name}\n")));
        let text = format!("{:LENGTH$}\n", lines.collect::<String>());
        // In place: the file that is mounted is this one.
        let file = File::options().write(true).open(&self.file);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("the file");
    }
}
