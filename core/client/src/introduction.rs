//! What a client says of itself: which program it is, on which machine.

use leasehold_protocol::{ClientInfo, Error, ErrorKind, Operation};

/// A label is no longer than this.
const MOST_CHARACTERS: usize = 200;

/// What is known of it before there is a process that uses it: each fork has a number of its own.
pub(crate) struct Introduction {
    program: String,
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
        let refuse = |why: &str| Err(Error::new(ErrorKind::InvalidArgument, Operation::Connect, why));
        if let Some(label) = &label {
            if !is_wanted {
                return refuse("client_label is given and client_info is off; leave one of them out");
            }
            if label.chars().count() > MOST_CHARACTERS || label.chars().any(char::is_control) {
                return refuse("client_label has at most 200 characters, without line breaks and control characters");
            }
        }
        Ok(is_wanted.then(|| Self {
            program: program.unwrap_or_else(executable),
            language: language.unwrap_or_else(|| "rust".into()),
            label: label.unwrap_or_default(),
        }))
    }

    /// What a client that is made now, in this process, says.
    pub(crate) fn info(&self) -> ClientInfo {
        let mut info = ClientInfo::default();
        info.host = host();
        info.pid = pid();
        info.program.clone_from(&self.program);
        info.language.clone_from(&self.language);
        info.version = env!("CARGO_PKG_VERSION").into();
        info.since = seconds();
        info.label.clone_from(&self.label);
        info
    }
}

#[cfg(feature = "native")]
fn host() -> String {
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    if host.is_empty() { "localhost".into() } else { host }
}

#[cfg(feature = "native")]
fn executable() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(feature = "native")]
fn pid() -> u32 {
    std::process::id()
}

#[cfg(feature = "native")]
fn seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

// Without a machine of its own a client is known by what the program says.

#[cfg(not(feature = "native"))]
fn host() -> String {
    "unknown host".into()
}

#[cfg(not(feature = "native"))]
const fn executable() -> String {
    String::new()
}

#[cfg(not(feature = "native"))]
const fn pid() -> u32 {
    0
}

#[cfg(not(feature = "native"))]
const fn seconds() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(label: &str) -> Result<Option<Introduction>, Error> {
        Introduction::check(None, Some(label.into()), None, None)
    }

    #[test]
    fn a_client_says_which_process_on_which_machine_it_is() {
        let info = label("blue").unwrap().unwrap().info();
        assert_eq!(info.pid, std::process::id());
        assert_eq!(info.label, "blue");
        assert_eq!(info.language, "rust");
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        assert!(
            !info.host.is_empty() && info.program.starts_with("leasehold"),
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
