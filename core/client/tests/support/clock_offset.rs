//! A server whose wall clock is wrong. The tests compile `ci/support/clock_offset.c` with `cc`, which Rust needs anyway
//! as its linker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The milliseconds by which a program's wall clock is ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockOffset(pub i64);

impl ClockOffset {
    /// Gives this clock to the program that the command starts.
    pub fn apply(self, command: &mut Command) {
        if self.0 != 0 {
            command
                .env("LD_PRELOAD", library())
                .env("CLOCK_OFFSET_MS", self.0.to_string());
        }
    }
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/support/clock_offset.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (library, own) = (
            folder.join("clock_offset.so"),
            folder.join(format!("clock_offset-{}.so", std::process::id())),
        );
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&own, &source])
            .status();
        assert!(
            built.expect("a C compiler").success(),
            "{} does not build",
            source.display()
        );
        // Renaming is atomic: other tests may build the library at the same moment.
        std::fs::rename(own, &library).expect("a place for the library");
        library
    })
}
