//! `steadlock manual`: for man.

use std::process::ExitCode;

use clap_mangen::Man;

use crate::exit::Exit;
use crate::output::print;

/// Print the page that man shows of this command, or of one of its commands.
///
/// steadlock manual > steadlock.1, and steadlock manual run > steadlock-run.1, in a folder man1 where
/// man looks.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Manual {
    /// The command that the page is of; the whole, without it.
    command: Option<String>,
}

impl Manual {
    /// Of `whole`, the whole command.
    pub(crate) fn run(&self, mut whole: clap::Command) -> Result<ExitCode, Exit> {
        // Names each command as its page is named.
        whole.build();
        let shown = match &self.command {
            None => whole,
            Some(name) => whole
                .get_subcommands()
                .find(|command| command.get_name() == name && !command.is_hide_set())
                .cloned()
                .ok_or_else(|| Exit::new(Exit::USAGE, "there is no such command; see steadlock --help"))?,
        };
        // The library leaves out what stands before the last words.
        let last = shown.get_arguments().find(|argument| argument.is_last_set());
        let last = last.map(|argument| format!("<\\fI{}\\fR>", argument.get_id().as_str().to_uppercase()));
        let mut page = Vec::new();
        Man::new(shown)
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
