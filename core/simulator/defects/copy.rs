//! The build script of all copies except that of the protocol. It copies a crate into the folder of the build, with the
//! known defects of that crate.

#[path = "patches.rs"]
#[allow(dead_code, reason = "only the list of defects needs their sentences")]
mod patches;

use std::process::ExitCode;

fn main() -> ExitCode {
    let original = env!("CARGO_PKG_NAME").replace("steadlock-defects-", "core/");
    patches::build(&original, &["src"], |_, _| Ok(()))
}
