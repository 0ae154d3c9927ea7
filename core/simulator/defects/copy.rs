//! Copies `core/client` into the folder of the build, with the known defects.

#[path = "../patches.rs"]
#[allow(dead_code, reason = "only the list of defects needs their sentences")]
mod patches;

use std::process::ExitCode;

fn main() -> ExitCode {
    patches::build("core/client", &["src"], |_, _| Ok(()))
}
