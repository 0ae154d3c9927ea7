//! `steadlock manual`: prints pages for man.

use std::process::ExitCode;

use clap_mangen::Man;

use crate::exit::Exit;
use crate::output::print;

/// Print the manual page of this command, or of one of its subcommands.
///
/// Write the pages into a folder man1 where man looks: steadlock manual > steadlock.1, and
/// steadlock manual run > steadlock-run.1.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Manual {
    /// The subcommand to describe. Without it, the page describes the whole command.
    command: Option<String>,
}

impl Manual {
    /// Prints the page. `root` is the command with all its subcommands.
    pub(crate) fn run(&self, mut root: clap::Command) -> Result<ExitCode, Exit> {
        // `build` gives each subcommand the name of its page.
        root.build();
        let described = match &self.command {
            None => root,
            Some(name) => root
                .get_subcommands()
                .find(|command| command.get_name() == name && !command.is_hide_set())
                .cloned()
                .ok_or_else(|| Exit::new(Exit::USAGE, "there is no such command; see steadlock --help"))?,
        };
        // clap_mangen omits the `--` before the last arguments.
        let last = described.get_arguments().find(|argument| argument.is_last_set());
        let last = last.map(|argument| format!("<\\fI{}\\fR>", argument.get_id().as_str().to_uppercase()));
        let mut page = Vec::new();
        Man::new(described)
            .render(&mut page)
            .map_err(|error| Exit::new(Exit::SOFTWARE, format!("the page cannot be made: {error}")))?;
        let mut page = String::from_utf8_lossy(&page).into_owned();
        if let Some(last) = last {
            page = page.replacen(&last, &format!("\\-\\- {last}..."), 1);
        }
        print(&page)?;
        Ok(ExitCode::SUCCESS)
    }
}
