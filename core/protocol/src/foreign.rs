//! Text of other programs, made safe for people to read.
//!
//! Every user that may write to a server can choose the text of a record, a channel or an error. Such text is made safe
//! here, once, where it enters the client: no terminal and no log can mistake a part of the text for a command or for a
//! line of its own, and the length of the text is limited.

/// The maximum length of a shown owner, in bytes. An owner id of Steadlock has at most 57 bytes.
const MOST_OWNER: usize = 200;
/// The maximum length of a shown error of a server, in bytes.
const MOST_SAID: usize = 1_000;

/// Returns a holder's owner for people to read. An owner id of Steadlock or of Redisson is unchanged.
#[must_use]
pub fn shown_owner(bytes: &[u8]) -> String {
    readable(bytes, MOST_OWNER)
}

/// Returns the text of a server, or of a proxy before it, for people to read.
#[must_use]
pub fn shown_words(bytes: &[u8]) -> String {
    readable(bytes, MOST_SAID)
}

/// Returns a text with escapes for control characters and for characters that change the direction of writing: `\n`,
/// `\u{1b}`. Bytes that are not UTF-8 become `\xff`. If there are more bytes than `most`, an ellipsis replaces the
/// rest.
#[must_use]
pub fn readable(bytes: &[u8], most: usize) -> String {
    let (bytes, is_cut) = match bytes.get(..most) {
        Some(start) if bytes.len() > most => (whole_characters(start), true),
        _ => (bytes, false),
    };
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_harmful(character) {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    if is_cut {
        text.push('…');
    }
    text
}

/// Returns the text before the first occurrence of a mark, and the text after it. The standard library's search is
/// optimised for long texts, and would add 3 kB to the module that a page loads.
#[must_use]
pub fn around<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let at = places(text, mark).position(|part| part == mark.as_bytes())?;
    split(text, mark, at)
}

/// Returns the text before the last occurrence of a mark, and the text after it.
pub(crate) fn around_last<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let at = places(text, mark).rposition(|part| part == mark.as_bytes())?;
    split(text, mark, at)
}

fn places<'a>(text: &'a str, mark: &str) -> std::slice::Windows<'a, u8> {
    text.as_bytes().windows(mark.len().max(1))
}

fn split<'a>(text: &'a str, mark: &str, at: usize) -> Option<(&'a str, &'a str)> {
    let (before, rest) = text.split_at_checked(at)?;
    Some((before, rest.get(mark.len()..)?))
}

/// Whether a terminal or a log can treat a character as more than a letter: control characters (C0, DEL, C1), line and
/// paragraph separators, and all characters that change the direction of writing.
#[must_use]
pub const fn is_harmful(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Removes an incomplete character from the end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    // A character has at most four bytes, and all but the first begin with the bits 10.
    let back = bytes
        .iter()
        .rev()
        .take(3)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    let Some((start, rest)) = bytes
        .len()
        .checked_sub(back.saturating_add(1))
        .and_then(|first| bytes.split_at_checked(first))
    else {
        return bytes;
    };
    if std::str::from_utf8(rest).is_ok_and(|rest| !rest.is_empty()) || rest.first().is_none_or(|byte| *byte < 0xc0) {
        bytes
    } else {
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_a_mark() {
        for (text, mark, first, last) in [
            ("a: b: c", ": ", Some(("a", "b: c")), Some(("a: b", "c"))),
            ("aaa", "aa", Some(("", "a")), Some(("a", ""))),
            ("é: ü", ": ", Some(("é", "ü")), Some(("é", "ü"))),
            ("a", "ab", None, None),
            ("", "a", None, None),
            ("a", "", None, None),
        ] {
            assert_eq!(
                (around(text, mark), around_last(text, mark)),
                (first, last),
                "{text} {mark}"
            );
        }
    }

    #[test]
    fn an_owner_id_stays_as_it_is() {
        for owner in ["1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:9223372036854775807", "zoë 世界"] {
            assert_eq!(shown_owner(owner.as_bytes()), owner);
        }
    }

    #[test]
    fn foreign_text_contains_no_command_and_no_new_line() {
        for (written, shown) in [
            ("a\nb", "a\\nb"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\r\0\u{7f}", "a\\r\\u{0}\\u{7f}"),
            ("\u{9b}1m", "\\u{9b}1m"),
            ("\u{202e}cba\u{2066}\u{2028}", "\\u{202e}cba\\u{2066}\\u{2028}"),
        ] {
            assert_eq!(shown_words(written.as_bytes()), shown);
            assert_eq!(shown_words(shown.as_bytes()), shown, "an escaped text stays as it is");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped() {
        assert_eq!(shown_owner(b"\xff\xfe"), "\\xff\\xfe");
        assert_eq!(shown_owner(b"a\xc3b"), "a\\xc3b");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(readable("äöü".as_bytes(), 6), "äöü");
        assert_eq!(readable("äöü".as_bytes(), 5), "äö…");
        assert_eq!(readable("äöü".as_bytes(), 4), "äö…");
        assert_eq!(readable("a世b".as_bytes(), 3), "a…");
        assert_eq!(readable("a世b".as_bytes(), 4), "a世…");
        assert_eq!(readable("𝄞𝄞".as_bytes(), 7), "𝄞…");
        assert_eq!(readable(b"\x80\x80\x80\x80\x80", 4), "\\x80\\x80\\x80\\x80…");
        assert_eq!(readable(b"abc", 0), "…");
        let long = shown_owner("x".repeat(65_000_000).as_bytes());
        assert_eq!(long, format!("{}…", "x".repeat(MOST_OWNER)));
    }
}
