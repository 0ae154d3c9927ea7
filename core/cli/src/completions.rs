//! `steadlock completions`: prints scripts for the completion of arguments in shells.

use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::{Shell, generate};

use crate::exit::Exit;
use crate::output::print;

/// Print the script that completes this command's arguments in a shell.
///
/// bash: put eval "$(steadlock completions bash)" into ~/.bashrc. zsh: write the script to a file
/// _steadlock in a folder of $fpath. fish: write it to ~/.config/fish/completions/steadlock.fish.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Completions {
    shell: SupportedShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SupportedShell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    /// Prints the script for `root`, the command with all its subcommands.
    pub(crate) fn run(&self, root: &clap::Command) -> Result<ExitCode, Exit> {
        // Hidden subcommands are not meant for users.
        let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
        let mut command = clap::Command::new("steadlock").version(env!("CARGO_PKG_VERSION"));
        command = command.subcommands(visible.cloned());
        let shell = match self.shell {
            SupportedShell::Bash => Shell::Bash,
            SupportedShell::Zsh => Shell::Zsh,
            SupportedShell::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        generate(shell, &mut command, "steadlock", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
