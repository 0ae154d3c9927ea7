//! What a client says of itself: which program it is, on which machine.

use steadlock_protocol::{ClientInfo, Error};

use crate::errors::invalid;
use crate::world::World;

/// What is known of it before there is a process that uses it: each fork has a number of its own.
pub(crate) struct Introduction {
    /// `None` if nobody said it.
    program: Option<String>,
    language: String,
    label: String,
}

impl Introduction {
    /// `None` if the client says nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for a label that is too long, or of several lines, or that nobody would see.
    pub(crate) fn check(
        is_wanted: Option<bool>,
        label: Option<String>,
        program: Option<String>,
        language: Option<String>,
    ) -> Result<Option<Self>, Error> {
        let is_wanted = is_wanted.unwrap_or(cfg!(feature = "native"));
        if label.is_some() && !is_wanted {
            return Err(invalid(
                "client_label is given and client_info is off; leave one of them out",
            ));
        }
        let label = label.unwrap_or_default();
        if !ClientInfo::is_read_whole(&label) {
            return Err(invalid(format!(
                "client_label has at most {} characters, without line breaks and control characters",
                ClientInfo::MOST_CHARACTERS
            )));
        }
        Ok(is_wanted.then(|| Self {
            program,
            language: language.unwrap_or_else(|| "rust".into()),
            label,
        }))
    }

    /// What a client that is made now, in this process, says.
    pub(crate) fn info(&self, world: &World) -> ClientInfo {
        let mut info = ClientInfo::default();
        (info.host, info.pid) = world.machine();
        info.program = self.program.clone().unwrap_or_else(|| world.executable());
        info.language.clone_from(&self.language);
        info.version = env!("CARGO_PKG_VERSION").into();
        info.since = world.seconds();
        info.label.clone_from(&self.label);
        info
    }
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;

    fn label(label: &str) -> Result<Option<Introduction>, Error> {
        Introduction::check(None, Some(label.into()), None, None)
    }

    #[test]
    fn a_client_says_which_process_on_which_machine_it_is() {
        let info = label("blue").unwrap().unwrap().info(&World::default());
        assert_eq!(info.pid, std::process::id());
        assert_eq!(info.label, "blue");
        assert_eq!(info.language, "rust");
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        assert!(
            !info.host.is_empty() && info.program.starts_with("steadlock"),
            "{info:?}"
        );
        assert!(info.since > 1_700_000_000);
    }

    #[test]
    fn labels_that_nobody_would_see_or_that_are_too_long_are_refused() {
        for odd in ["a\nb", "\u{1b}[2J", &"x".repeat(201)] {
            assert_eq!(label(odd).err().unwrap().kind(), ErrorKind::InvalidArgument, "{odd}");
        }
        assert!(label(&"ä".repeat(200)).unwrap().is_some());
        let unseen = Introduction::check(Some(false), Some("x".into()), None, None);
        assert_eq!(unseen.err().unwrap().kind(), ErrorKind::InvalidArgument);
        assert!(Introduction::check(Some(false), None, None, None).unwrap().is_none());
    }
}
