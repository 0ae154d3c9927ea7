//! Parses the scheme of a URL, and removes or refuses the characters that an environment file, a secret manager or YAML
//! put around it.
//!
//! Whitespace around a URL is dropped. Quotes around it, and whitespace or control characters inside it, are refused
//! before they can be taken for part of a port or a database; the message says which character it is and where. No
//! message repeats the URL.

use steadlock_protocol::{Error, around};

use super::parts::URL_FORMS;
use crate::errors::invalid;

/// The meaning of a scheme. `valkey` means the same as `redis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocol {
    pub(super) family: Family,
    pub(super) has_tls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Server,
    Unix,
    Cluster,
    Sentinel,
    Memory,
    /// A server that the program reaches by a Redis client of its own.
    #[cfg(not(feature = "native"))]
    Host,
}

/// Returns the scheme of a URL, and the text after it.
pub(super) fn split_scheme(url: &str) -> Result<(Protocol, &str), Error> {
    let url = url.trim_matches(is_blank);
    if url.is_empty() {
        return Err(invalid(format!("the URL is empty; {URL_FORMS}")));
    }
    refuse_quotes(url)?;
    let Some((scheme, rest)) = url.split_once("://") else {
        refuse_blanks(url)?;
        return Err(invalid(format!("the URL has no scheme; {URL_FORMS}")));
    };
    let protocol = Protocol::of(&scheme.to_ascii_lowercase());
    #[cfg(not(feature = "native"))]
    if protocol.is_some_and(|protocol| protocol.family == Family::Host) {
        // The rest is a name for messages, and can have any characters.
        return Ok((HOST, rest));
    }
    refuse_blanks(url)?;
    Ok((protocol.ok_or_else(unknown_scheme)?, rest))
}

/// Splits a text at whitespace into its URLs. If a piece is no URL, the text is returned whole, so that
/// [`split_scheme`] can say where the whitespace is.
#[cfg(feature = "admin")]
pub(crate) fn split_urls(text: &str) -> Vec<String> {
    let pieces: Vec<&str> = text.split(is_blank).filter(|piece| !piece.is_empty()).collect();
    if pieces.iter().all(|piece| piece.contains("://")) {
        pieces.into_iter().map(str::to_owned).collect()
    } else {
        vec![text.to_owned()]
    }
}

impl Protocol {
    fn of(scheme: &str) -> Option<Self> {
        let plain = |family| Self { family, has_tls: false };
        match scheme {
            "unix" => return Some(plain(Family::Unix)),
            "memory" => return Some(plain(Family::Memory)),
            #[cfg(not(feature = "native"))]
            "host" => return Some(HOST),
            _ => {}
        }
        let (base, family) = scheme.split_once('+').unwrap_or((scheme, ""));
        let has_tls = match base {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return None,
        };
        let family = match family {
            "" if !scheme.contains('+') => Family::Server,
            "cluster" => Family::Cluster,
            "sentinel" => Family::Sentinel,
            "unix" if !has_tls => Family::Unix,
            _ => return None,
        };
        Some(Self { family, has_tls })
    }

    /// For a URL that could not be parsed: returns a refusal that names the character in its user or password that is
    /// not escaped. A `/`, `?` or `#` before the last `@`, or a `%` there that escapes nothing, most likely belongs to
    /// the user or the password. Returns `None` if there is no such character.
    pub(super) fn unescaped_error(self, rest: &str) -> Option<Error> {
        let (end, before) = match self.family {
            // The query can hold the password for the sentinels, which may contain an `@`.
            Family::Sentinel => ("@", around(rest, "?sentinel_").map_or(rest, |(before, _)| before)),
            Family::Unix => ("@/", rest),
            Family::Server | Family::Cluster => ("@", rest),
            _ => return None,
        };
        let (userinfo, _) = before.rsplit_once(end)?;
        // The path of a socket can contain an `@`.
        let userinfo = Some(userinfo).filter(|userinfo| !userinfo.starts_with('/'))?;
        let is_unescaped = |(at, letter): &(usize, char)| match letter {
            '/' | '?' | '#' => true,
            '%' => {
                let digits = userinfo.as_bytes().get(at + 1..at + 3);
                digits.is_none_or(|digits| !digits.iter().all(u8::is_ascii_hexdigit))
            }
            _ => false,
        };
        let (_, letter) = userinfo.char_indices().find(is_unescaped)?;
        Some(invalid(format!(
            "the URL's user or password seems to have a {letter} in it that is not escaped; write it as %{:02X}, and \
             likewise @ as %40, : as %3A, / as %2F, ? as %3F, # as %23 and % as %25",
            u32::from(letter)
        )))
    }
}

#[cfg(not(feature = "native"))]
const HOST: Protocol = Protocol {
    family: Family::Host,
    has_tls: false,
};

/// The message does not repeat the scheme: it may be a password that was pasted in the wrong place.
fn unknown_scheme() -> Error {
    invalid(format!("the URL's scheme is not known; {URL_FORMS}"))
}

fn refuse_quotes(url: &str) -> Result<(), Error> {
    let begins = url.trim_start_matches('\\').starts_with(is_quote);
    let ends = url.ends_with(is_quote);
    let place = match (begins, ends) {
        (true, true) => "around it",
        (true, false) => "before it",
        (false, true) => "at its end",
        (false, false) if ESCAPED_LINE_ENDS.iter().any(|end| url.ends_with(end)) => {
            return Err(invalid(
                "the URL ends with a line end that is written as a backslash and a letter; leave it out",
            ));
        }
        (false, false) => return Ok(()),
    };
    Err(invalid(format!(
        "the URL has quotes {place}, which some environment files and secret managers keep; leave them out, and write \
         a quote in a password as %22 or %27"
    )))
}

fn refuse_blanks(url: &str) -> Result<(), Error> {
    let Some((index, (at, letter))) = url
        .char_indices()
        .enumerate()
        .find(|(_, (_, letter))| is_blank(*letter) || letter.is_control())
    else {
        return Ok(());
    };
    let what = match letter {
        ' ' => "a space".to_owned(),
        '\t' => "a tab".to_owned(),
        '\n' => "a line feed".to_owned(),
        '\r' => "a carriage return".to_owned(),
        '\u{feff}' => "a byte order mark".to_owned(),
        other => format!("the character U+{:04X}, which is not visible", u32::from(other)),
    };
    let what = format!("the URL has {what} in it, as character {}", index + 1);
    if url[..at].contains("://") && url[at..].contains("://") {
        return Err(invalid(format!(
            "{what}, and another URL after it; give one URL, or each of RedLock's primaries by itself"
        )));
    }
    Err(invalid(format!(
        "{what}; leave it out, or percent-encode it (a space is %20) if it is part of a password"
    )))
}

/// Whether a character is whitespace or invisible, such as a byte order mark or a mark of zero width or of direction.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace()
        || matches!(letter, '\u{ad}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// Whether a character is a quote, including the quotes that word processors insert.
fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`' | '«' | '»' | '\u{2018}'..='\u{201f}')
}

const ESCAPED_LINE_ENDS: [&str; 2] = ["\\n", "\\r"];

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;
    use crate::target::Target;
    use crate::tls::TlsOptions;

    fn refusal(url: &str) -> Error {
        let error = Target::parse(url, &TlsOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url:?}");
        error
    }

    #[test]
    fn a_password_that_is_not_escaped_is_named_by_its_characters_and_not_repeated() {
        for scheme in [
            "redis://",
            "rediss://",
            "valkey://",
            "redis+cluster://",
            "redis+sentinel://",
        ] {
            let rest = if scheme.contains("sentinel") { "h/shop" } else { "h" };
            for (userinfo, character, escape) in [
                (":pa/sesame", "/", "%2F"),
                ("user:pa/sesame", "/", "%2F"),
                ("us/er:sesame", "/", "%2F"),
                (":1/sesame", "/", "%2F"),
                (":12/3/sesame", "/", "%2F"),
                (":pa?sesame", "?", "%3F"),
                ("user:p?sesame", "?", "%3F"),
                (":pa#sesame", "#", "%23"),
                (":pa@sesame#1", "#", "%23"),
                (":pa%zzsesame", "%", "%25"),
                (":sesame%", "%", "%25"),
                (":sesame%f", "%", "%25"),
                (":pa?q/sesame", "?", "%3F"),
            ] {
                let url = format!("{scheme}{userinfo}@{rest}");
                let error = refusal(&url);
                let text = format!(
                    "the URL's user or password seems to have a {character} in it that is not escaped; write it as {escape}"
                );
                assert!(error.message().starts_with(&text), "{url}: {error}");
                assert!(!format!("{error} {error:?}").contains("sesame"), "{url}: {error}");
            }
        }
        let error = refusal("redis+unix://:pa?sesame@/tmp/a.sock");
        assert!(error.message().contains("not escaped; write it as %3F"), "{error}");
    }

    #[test]
    fn an_at_sign_in_a_password_is_read_as_one() {
        for url in [
            "redis://:pa@ss@h",
            "redis+cluster://:pa@ss@h",
            "redis+sentinel://:pa@ss@h/shop",
        ] {
            let target = Target::parse(url, &TlsOptions::default()).unwrap();
            assert_eq!(target.password.as_deref(), Some("pa@ss"), "{url}");
        }
    }

    #[test]
    fn text_without_an_at_sign_after_it_is_not_taken_for_a_password() {
        for (url, text) in [
            ("redis://h/x", "database is not a number"),
            ("redis://h?x=1", "?part that is not known"),
            ("redis://h#x", "#fragment"),
            ("redis://h/1/2", "database is not a number"),
            ("redis://:p%C3%A9@h/x", "database is not a number"),
            ("redis+unix:///tmp/a@b?x=1", "?part that is not known"),
            ("redis+sentinel://a/sh!op?sentinel_password=p@q", "service may have"),
        ] {
            let error = refusal(url);
            assert!(error.message().contains(text), "{url}: {error}");
        }
    }

    #[test]
    fn blanks_around_a_url_are_dropped() {
        const PLAIN: &str = "redis://:word@example:7000/3";
        for (before, after) in [
            ("", "\n"),
            ("", "\r\n"),
            (" ", " "),
            ("\t", "\t\n\n"),
            ("\u{feff}", ""),
            ("\u{feff}  ", "\u{a0}"),
            ("\u{200b}", "\u{200b}\r"),
            ("\u{b}", "\u{c}"),
        ] {
            let target = Target::parse(&format!("{before}{PLAIN}{after}"), &TlsOptions::default()).unwrap();
            assert_eq!((target.to_string().as_str(), target.database), ("example:7000", 3));
            assert_eq!(target.password.as_deref(), Some("word"));
        }
    }

    #[test]
    fn quotes_are_named_and_not_taken_for_a_port_or_a_database() {
        for scheme in [
            "redis://:sesame@h",
            "redis://:sesame@h/0",
            "redis://:sesame@h:6379",
            "redis+sentinel://a,b/shop?sentinel_password=sesame",
            "redis+cluster://:sesame@a,b",
            "redis+unix:///sesame",
            "memory://sesame",
        ] {
            for (before, after, place) in [
                ("\"", "\"", "around it"),
                ("'", "'", "around it"),
                ("`", "`", "around it"),
                ("\u{201c}", "\u{201d}", "around it"),
                ("\"\"", "\"\"", "around it"),
                ("\"'", "'\"", "around it"),
                ("\\\"", "\\\"", "around it"),
                (" \"", "\"\n", "around it"),
                ("\" ", " \"", "around it"),
                ("\"", "", "before it"),
                ("", "'", "at its end"),
            ] {
                let url = format!("{before}{scheme}{after}");
                let error = refusal(&url);
                let text = format!("the URL has quotes {place}");
                assert!(error.message().contains(&text), "{url}: {error}");
                assert!(!format!("{error} {error:?}").contains("sesame"), "{url}: {error}");
            }
            let error = refusal(&format!("{scheme}\\n"));
            assert!(error.message().contains("line end"), "{error}");
        }
    }

    #[test]
    fn a_blank_inside_a_url_is_reported_with_its_position() {
        for (url, text) in [
            ("redis://:ses ame@h", "a space in it, as character 13;"),
            ("\n redis://:ses\tame@h", "a tab in it, as character 13;"),
            ("redis://:sésame\n@h", "a line feed in it, as character 16;"),
            ("redis://h\r\n:6379", "a carriage return in it, as character 10;"),
            ("redis://h:63 79", "a space in it, as character 13;"),
            ("redis ://h", "a space in it, as character 6;"),
            ("sesame h", "a space in it, as character 7;"),
            ("redis://h/\u{feff}1", "a byte order mark in it, as character 11;"),
            (
                "redis://h\u{200b}/1",
                "U+200B, which is not visible in it, as character 10;",
            ),
            (
                "redis://:sesame\u{0}@h",
                "U+0000, which is not visible in it, as character 16;",
            ),
            ("redis://h\u{1b}[0m", "U+001B"),
            ("redis+cluster://a, b", "a space in it, as character 19;"),
            ("redis+unix:///a b", "a space in it, as character 16;"),
            (
                "redis://:sesame@a redis://b",
                "as character 18, and another URL after it",
            ),
        ] {
            let error = refusal(url);
            assert!(error.message().contains(text), "{url:?}: {error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{url:?}: {error}");
        }
        for url in ["", " ", "\n", "\u{feff}"] {
            assert!(refusal(url).message().contains("the URL is empty"), "{url:?}");
        }
    }

    #[test]
    fn valkey_means_what_redis_means() {
        for (scheme, twin) in [
            ("redis", "valkey"),
            ("rediss", "valkeys"),
            ("redis+cluster", "valkey+cluster"),
            ("rediss+cluster", "valkeys+cluster"),
            ("redis+sentinel", "valkey+sentinel"),
            ("rediss+sentinel", "valkeys+sentinel"),
            ("redis+unix", "valkey+unix"),
        ] {
            let url = |scheme: &str| format!("{scheme}://h/x");
            let (theirs, ours) = (url(twin), url(scheme));
            assert_eq!(split_scheme(&theirs).unwrap(), split_scheme(&ours).unwrap(), "{twin}");
            assert_eq!(
                split_scheme(&theirs.to_uppercase()).unwrap().0,
                split_scheme(&ours).unwrap().0,
                "{twin}"
            );
            let has_tls = scheme.starts_with("rediss");
            assert_eq!(split_scheme(&theirs).unwrap().0.has_tls, has_tls, "{twin}");
        }
        for scheme in [
            "rediss+unix",
            "valkeys+unix",
            "redis+",
            "valkey+",
            "+cluster",
            "valkeyss",
            "redis+tls",
            "memory+cluster",
        ] {
            let error = refusal(&format!("{scheme}://h"));
            assert!(error.message().contains("scheme is not known"), "{scheme}: {error}");
        }
    }

    #[test]
    #[cfg(feature = "admin")]
    fn a_text_may_have_several_urls() {
        for (text, urls) in [
            ("", vec![]),
            ("\n", vec![]),
            ("redis://a\n", vec!["redis://a"]),
            (
                " redis://a \t redis://b\r\nvalkey://c ",
                vec!["redis://a", "redis://b", "valkey://c"],
            ),
            ("\u{feff}redis://a redis://b", vec!["redis://a", "redis://b"]),
            ("redis://:my word@h", vec!["redis://:my word@h"]),
            ("redis+cluster://a, b", vec!["redis+cluster://a, b"]),
        ] {
            assert_eq!(split_urls(text), urls, "{text:?}");
        }
    }
}
