//! The information that a client gives about itself: which program on which machine it is.

use std::borrow::Cow;
use std::fmt;

use crate::foreign::{is_harmful, readable};
use crate::shown::shown;

/// The length of the longest accepted text, in bytes. Steadlock never writes a longer one.
const MOST_BYTES: usize = 8_192;

/// The program and the machine of a client, as the client itself says. For people only: nothing verifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The name of the machine.
    pub host: String,
    /// The process id on that machine.
    pub pid: u32,
    /// The name of the program, without its folder.
    pub program: String,
    /// The language from which the program uses Steadlock, with its version: `python 3.11.7`.
    pub language: String,
    /// The version of Steadlock.
    pub version: String,
    /// When the client was made, in seconds since 1970.
    pub since: u64,
    /// A label that the program chooses; empty for none.
    pub label: String,
}

impl ClientInfo {
    /// The maximum number of characters of a text; the rest is cut.
    pub const MOST_CHARACTERS: usize = 200;

    /// Whether other clients show a text whole: it has one line, is not too long, and cannot harm a terminal. They hide
    /// the userinfo of a URL all the same.
    #[must_use]
    pub fn is_read_whole(text: &str) -> bool {
        text.chars().count() <= Self::MOST_CHARACTERS && !text.chars().any(is_harmful)
    }

    /// Returns the text for the server: a line `key=value` for each part.
    pub(crate) fn text(&self) -> String {
        let (pid, since) = (self.pid.to_string(), self.since.to_string());
        let parts = [
            ("host", clean(&self.host)),
            ("pid", pid.into()),
            ("program", clean(&self.program)),
            ("language", clean(&self.language)),
            ("version", clean(&self.version)),
            ("since", since.into()),
            ("label", clean(&self.label)),
        ];
        let lines = parts.iter().map(|(key, value)| format!("{key}={value}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Parses the text of a server; `None` if the text has another form. Unknown parts are ignored, so that later
    /// versions can have more.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= MOST_BYTES)?;
        let mut info = Self::default();
        for line in text.split('\n') {
            let (key, value) = line.split_once('=')?;
            let value = clean(value);
            match key {
                "host" => info.host = value.into(),
                "pid" => info.pid = value.parse().ok()?,
                "program" => info.program = value.into(),
                "language" => info.language = value.into(),
                "version" => info.version = value.into(),
                "since" => info.since = value.parse().ok()?,
                "label" => info.label = value.into(),
                _ => {}
            }
        }
        (!info.host.is_empty()).then_some(info)
    }
}

/// Writes one short phrase: `orders.py (blue), pid 4121 on worker-7`.
impl fmt::Display for ClientInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.program.is_empty() {
            write!(f, "{}", self.program)?;
            if !self.label.is_empty() {
                write!(f, " ({})", self.label)?;
            }
            f.write_str(", ")?;
        }
        write!(f, "pid {} on {}", self.pid, self.host)
    }
}

/// Returns a text that terminals and logs can show: short, in one line, with control characters escaped, and without
/// the userinfo of a URL.
fn clean(text: &str) -> Cow<'_, str> {
    if ClientInfo::is_read_whole(text) {
        return shown(text);
    }
    let start: String = text.chars().take(ClientInfo::MOST_CHARACTERS).collect();
    shown(&readable(start.as_bytes(), start.len())).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ClientInfo {
        ClientInfo {
            host: "worker-7".into(),
            pid: 4_121,
            program: "orders.py".into(),
            language: "python 3.11.7".into(),
            version: "0.1.0".into(),
            since: 1_795_600_000,
            label: "a=b".into(),
        }
    }

    #[test]
    fn client_info_is_read_as_it_was_written() {
        assert_eq!(ClientInfo::parse(info().text().as_bytes()), Some(info()));
        assert_eq!(info().to_string(), "orders.py (a=b), pid 4121 on worker-7");
        let nameless = ClientInfo {
            program: String::new(),
            ..info()
        };
        assert_eq!(nameless.to_string(), "pid 4121 on worker-7");
    }

    #[test]
    fn unknown_parts_of_a_later_version_are_ignored() {
        let text = format!("{}\nzone=eu-1", info().text());
        assert_eq!(ClientInfo::parse(text.as_bytes()), Some(info()));
    }

    #[test]
    fn foreign_text_is_no_client_info() {
        let long = format!("{}\nnote={}", info().text(), "x".repeat(MOST_BYTES));
        for text in [
            "",
            "host=",
            "pid=x\nhost=a",
            "pid=1",
            "host=a\nnonsense",
            "host=a\npid=-1",
            &long,
        ] {
            assert_eq!(ClientInfo::parse(text.as_bytes()), None, "{text:.40}");
        }
        assert_eq!(ClientInfo::parse(b"host=\xff"), None);
    }

    #[test]
    fn client_info_cannot_harm_a_terminal_or_begin_a_line() {
        let odd = ClientInfo {
            host: "a\npid=1\u{1b}[2J".into(),
            program: "redis://user:secret@host".into(),
            label: "ä".repeat(1_000),
            ..info()
        };
        let read = ClientInfo::parse(odd.text().as_bytes()).unwrap();
        assert_eq!(read.host, "a\\npid=1\\u{1b}[2J");
        assert_eq!(read.program, "redis://…@host");
        assert_eq!(read.label, "ä".repeat(ClientInfo::MOST_CHARACTERS));
        let info = ClientInfo::parse("host=a\u{9b}\r\u{7}".as_bytes()).unwrap();
        assert_eq!(info.host, "a\\u{9b}\\r\\u{7}");
    }
}
