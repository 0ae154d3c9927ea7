//! Copies `core/protocol` into the folder of the build, with the known defects, and lists all defects for `defects.rs`.

#[path = "../patches.rs"]
mod patches;

use std::process::ExitCode;

fn main() -> ExitCode {
    patches::build("core/protocol", &["src", "lua"], |all, to| {
        let rows = all
            .iter()
            .map(|patch| format!("    /// {}\n    {},\n", patch.what, patch.name));
        let list = format!("defects! {{\n{}}}\n", rows.collect::<String>());
        patches::save(&to.join("list.rs"), &list)
    })
}
