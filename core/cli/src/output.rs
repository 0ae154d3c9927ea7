//! The output of commands: plain text, tables and JSON.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use steadlock::admin::is_harmful;
use unicode_width::UnicodeWidthStr as _;

use crate::exit::Exit;

/// Prints a text. If the reader has closed the pipe, the error is an [`Exit`] with status 0.
pub(crate) fn print(text: &str) -> Result<(), Exit> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Exit::silent_success()),
        Err(error) => Err(Exit::new(Exit::SOFTWARE, format!("cannot write the output: {error}"))),
    }
}

/// Prints a JSON value on one line.
pub(crate) fn print_json(value: &Value) -> Result<(), Exit> {
    print(&format!("{}\n", json_line(value)))
}

/// Formats a JSON value so that it is safe for a terminal and unchanged for a program. JSON itself escapes only C0
/// control characters, but others are harmful too, such as C1. Harmful characters can occur only in strings, where JSON
/// allows every character to be escaped.
pub(crate) fn json_line(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(is_harmful) {
        return text;
    }
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) {
            let _ = write!(line, "\\u{:04x}", u32::from(character));
        } else {
            line.push(character);
        }
    }
    line
}

/// Formats rows as columns, with two spaces between them. The first row is the head. `right` marks the columns that are
/// aligned to the right.
pub(crate) fn table(rows: &[Vec<String>], right: &[bool]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            // Widths are in columns of the terminal, not in characters: some characters take two columns, and combining
            // marks take none.
            let blanks = " ".repeat(widths[column] - cell.width());
            if right[column] {
                blanks + cell
            } else {
                format!("{cell}{blanks}")
            }
        });
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Returns the longest start of a line that fits into this many columns of a terminal.
pub(crate) fn cut_to_width(line: &str, columns: usize) -> &str {
    let ends = line
        .char_indices()
        .map(|(start, character)| start + character.len_utf8());
    let fitting = ends.take_while(|end| line[..*end].width() <= columns).last();
    &line[..fitting.unwrap_or(0)]
}

/// Formats a time for people: `850 ms`, `12.3 s`, `7 min 5 s`, `3 h 2 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..=119 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        120..=7_199 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Formats a time, or returns `default` if the time is not known.
pub(crate) fn duration_or(time: Option<Duration>, default: &str) -> String {
    time.map_or_else(|| default.to_owned(), duration)
}

/// Returns whole milliseconds, or null.
pub(crate) fn millis(time: Option<Duration>) -> Value {
    time.map_or(Value::Null, |time| {
        json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_for_characters_of_any_width() {
        let row = |name: &str, left: &str| vec![name.to_owned(), left.to_owned()];
        let rows = [
            row("name", "left"),
            row("voucher", "1 s"),
            row("\u{5238}\u{5238}:42", "10 s"),
            row("cafe\u{301}", "2 s"),
            row("\u{1f512}", "3 s"),
        ];
        let lines = table(&rows, &[false, true]);
        assert_eq!(
            lines,
            [
                "name     left",
                "voucher   1 s",
                "\u{5238}\u{5238}:42  10 s",
                "cafe\u{301}      2 s",
                "\u{1f512}        3 s",
            ]
        );
    }

    #[test]
    fn times_have_a_short_form() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (29_950, "29.9 s"),
            (125_000, "2 min 5 s"),
            (7_320_000, "2 h 2 min"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn json_is_safe_for_a_terminal_and_keeps_its_value() {
        let value = json!({ "name": "a\u{1b}[2J\u{9b}31m\u{7f}\u{202e}b\n\u{5238}", "left_ms": 1 });
        let line = json_line(&value);
        assert!(!line.contains(is_harmful) && line.contains('\u{5238}'), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        for (line, columns, start) in [
            ("voucher", 80, "voucher"),
            ("voucher", 3, "vou"),
            ("\u{5238}\u{5238}\u{5238}", 4, "\u{5238}\u{5238}"),
            ("\u{5238}\u{5238}\u{5238}", 5, "\u{5238}\u{5238}"),
            ("cafe\u{301}s", 4, "cafe\u{301}"),
            ("\u{1f512}", 1, ""),
            ("", 5, ""),
        ] {
            assert_eq!(cut_to_width(line, columns), start);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = [["NAME", "N"], ["ä", "12"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(table(&rows, &[false, true]), ["NAME   N", "ä     12"]);
    }
}
