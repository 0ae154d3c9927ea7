//! The identity that a client reports to servers: which program it is, on which machine.

use steadlock_protocol::{ClientInfo, Error};

use crate::errors::invalid;
use crate::world::World;

/// The part of the identity that is known before a process uses the client. Each process adds the rest, such as its id.
pub(crate) struct ClientIdentity {
    /// `None` if the options name no program.
    program: Option<String>,
    language: String,
    label: String,
}

/// The options that concern the identity.
#[derive(Default)]
pub(crate) struct IdentityOptions {
    /// Whether the client reports its identity; `None` for the default: yes with the feature `native`, else no.
    pub(crate) client_info: Option<bool>,
    pub(crate) label: Option<String>,
    pub(crate) program: Option<String>,
    pub(crate) language: Option<String>,
}

impl ClientIdentity {
    /// Checks the options. Returns `None` if the client reports nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for a label that is too long or has line breaks or control characters, and for a label of a
    /// client that reports nothing.
    pub(crate) fn check(options: IdentityOptions) -> Result<Option<Self>, Error> {
        let IdentityOptions {
            client_info,
            label,
            program,
            language,
        } = options;
        let is_reported = client_info.unwrap_or(cfg!(feature = "native"));
        if label.is_some() && !is_reported {
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
        Ok(is_reported.then(|| Self {
            program,
            language: language.unwrap_or_else(|| "rust".into()),
            label,
        }))
    }

    /// Returns the identity of a client that starts now, in this process.
    pub(crate) fn info(&self, world: &World) -> ClientInfo {
        let mut info = ClientInfo::default();
        info.host = world.host_name();
        info.pid = world.process_id();
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
        return DEFAULT_NAME.into();
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
        DEFAULT_NAME.into()
    } else {
        format!("{DEFAULT_NAME}:{name}")
    }
}

#[cfg(feature = "native")]
const DEFAULT_NAME: &str = "steadlock";
/// The limit of the part after `steadlock:`, in characters. A server shows the name on each line of its list.
#[cfg(feature = "native")]
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;

    fn label(label: &str) -> Result<Option<ClientIdentity>, Error> {
        ClientIdentity::check(IdentityOptions {
            label: Some(label.into()),
            ..IdentityOptions::default()
        })
    }

    #[test]
    fn the_identity_names_the_process_and_the_machine() {
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
    fn the_name_of_a_connection_is_the_label_or_the_program() {
        let name = |label: Option<&str>, program: &str| {
            let client_identity = ClientIdentity::check(IdentityOptions {
                label: label.map(Into::into),
                program: Some(program.into()),
                ..IdentityOptions::default()
            });
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
    fn labels_that_are_not_reported_or_too_long_are_refused() {
        for odd in ["a\nb", "\u{1b}[2J", &"x".repeat(201)] {
            assert_eq!(label(odd).err().unwrap().kind(), ErrorKind::InvalidArgument, "{odd}");
        }
        assert!(label(&"ä".repeat(200)).unwrap().is_some());
        let without_info = |label: Option<&str>| {
            ClientIdentity::check(IdentityOptions {
                client_info: Some(false),
                label: label.map(Into::into),
                ..IdentityOptions::default()
            })
        };
        assert_eq!(
            without_info(Some("x")).err().unwrap().kind(),
            ErrorKind::InvalidArgument
        );
        assert!(without_info(None).unwrap().is_none());
    }
}
