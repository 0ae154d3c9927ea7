//! A server whose wall clock is wrong: `ci/support/clock_offset.c`, built by the compiler that Rust links with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// By how many milliseconds a program's wall clock is ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockOffset(pub i64);

impl ClockOffset {
    /// Makes a program that is started by this command have the clock.
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
        // Other tests may do the same at this moment.
        std::fs::rename(own, &library).expect("a place for the library");
        library
    })
}
