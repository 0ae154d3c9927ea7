//! The identity that a client reports to servers: which program it is, on which machine.

use steadlock_protocol::{ClientInfo, Error};

use crate::errors::invalid;
use crate::world::World;

/// The part of the identity that is known before a process uses the client. Each fork adds its own process id.
pub(crate) struct ClientIdentity {
    /// `None` if the options name no program.
    program: Option<String>,
    language: String,
    label: String,
}

impl ClientIdentity {
    /// Checks the options. Returns `None` if the client must report nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for a label that is too long or has several lines, and for a label of a client that reports
    /// nothing.
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

    /// Returns the identity of a client that starts now, in this process.
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

/// Returns the name of a client's connections in a server's `CLIENT LIST`.
#[cfg(feature = "native")]
pub(crate) fn connection_name(client_identity: Option<&ClientIdentity>, world: &World) -> String {
    let Some(client_identity) = client_identity else {
        return NAMELESS.into();
    };
    let name = match (client_identity.label.as_str(), &client_identity.program) {
        ("", Some(program)) => program.clone(),
        ("", None) => world.executable(),
        (label, _) => label.into(),
    };
    // Servers accept printable ASCII without spaces.
    let printable = |letter: char| if letter.is_ascii_graphic() { letter } else { '_' };
    let name: String = name.chars().take(LONGEST_NAME).map(printable).collect();
    if name.is_empty() {
        NAMELESS.into()
    } else {
        format!("{NAMELESS}:{name}")
    }
}

#[cfg(feature = "native")]
const NAMELESS: &str = "steadlock";
/// The limit in characters. A server shows the name on each line of its list.
#[cfg(feature = "native")]
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;

    fn label(label: &str) -> Result<Option<ClientIdentity>, Error> {
        ClientIdentity::check(None, Some(label.into()), None, None)
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
    fn a_connection_is_named_by_what_the_client_says_of_itself() {
        let name = |label: Option<&str>, program: &str| {
            let client_identity = ClientIdentity::check(None, label.map(Into::into), Some(program.into()), None);
            connection_name(client_identity.unwrap().as_ref(), &World::default())
        };
        assert_eq!(name(None, "worker.js"), "steadlock:worker.js");
        assert_eq!(name(Some("blue"), "worker.js"), "steadlock:blue");
        assert_eq!(name(Some("blau und grün"), "w"), "steadlock:blau_und_gr_n");
        assert_eq!(name(None, "a b\nc"), "steadlock:a_b_c");
        assert_eq!(name(Some(&"x".repeat(200)), "w").len(), "steadlock:".len() + 64);
        assert_eq!(connection_name(None, &World::default()), "steadlock");
    }

    #[test]
    fn labels_that_nobody_would_see_or_that_are_too_long_are_refused() {
        for odd in ["a\nb", "\u{1b}[2J", &"x".repeat(201)] {
            assert_eq!(label(odd).err().unwrap().kind(), ErrorKind::InvalidArgument, "{odd}");
        }
        assert!(label(&"ä".repeat(200)).unwrap().is_some());
        let unseen = ClientIdentity::check(Some(false), Some("x".into()), None, None);
        assert_eq!(unseen.err().unwrap().kind(), ErrorKind::InvalidArgument);
        assert!(ClientIdentity::check(Some(false), None, None, None).unwrap().is_none());
    }
}
