//! The lines that `steadlock top` draws, and the terminal that shows them.

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use steadlock::admin::readable;

use super::format::{describe_holder, number_or_dash};
use super::list::notes;
use crate::exit::Exit;
use crate::output::{cut_to_width, duration, duration_or, print, table};
use crate::records::{Listing, Locked};

/// The numbers of columns and lines of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// The size that is used if the terminal does not report one.
const DEFAULT_SIZE: Size = Size { columns: 80, rows: 24 };

/// The alternate screen of the terminal. When it is dropped, the terminal shows its previous contents again.
#[derive(Debug)]
pub(super) struct Screen(());

impl Screen {
    /// Opens the alternate screen; `None` if the output is no terminal.
    pub(super) fn open() -> Result<Option<Self>, Exit> {
        if !stdout().is_terminal() {
            return Ok(None);
        }
        // Switch to the alternate screen, hide the cursor, and do not wrap long lines.
        print("\x1b[?1049h\x1b[?25l\x1b[?7l")?;
        Ok(Some(Self(())))
    }

    pub(super) fn size(&self) -> Size {
        let Ok(size) = tcgetwinsize(stdout()) else {
            return DEFAULT_SIZE;
        };
        match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => DEFAULT_SIZE,
            (columns, rows) => Size {
                columns: columns.into(),
                rows: rows.into(),
            },
        }
    }

    /// Shows the lines that fit on the screen, and nothing else.
    pub(super) fn show(&self, lines: &[String]) -> Result<(), Exit> {
        let size = self.size();
        // Go to the upper left corner. Clear the rest of each line, and everything below the last one.
        let mut text = String::from("\x1b[H");
        for (place, line) in lines.iter().take(size.rows).enumerate() {
            if place > 0 {
                text.push_str("\r\n");
            }
            text.push_str(cut_to_width(line, size.columns));
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        print(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print("\x1b[?7h\x1b[?25h\x1b[?1049l");
    }
}

/// Draws the locks as lines, sorted by the time that is left. If `max_lines` is given, leaves out the locks that do not
/// fit below the title, the notes and the head.
pub(super) fn draw(listing: &Listing, elapsed: Duration, time: &str, max_lines: Option<usize>) -> Vec<String> {
    let mut locks: Vec<&Locked> = listing.locks.iter().collect();
    locks.sort_by_key(|lock| (lock.left.unwrap_or(Duration::MAX), lock.name.clone()));
    let mut lines = vec![title(listing, elapsed, time)];
    lines.extend(notes(listing).iter().map(|note| readable(note)));
    lines.push(String::new());
    let head = ["LEFT", "HELD", "WAITERS", "KIND", "HOLDER", "NAME"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let rows_left = max_lines.map_or(usize::MAX, |max_lines| max_lines.saturating_sub(lines.len() + 2));
    rows.extend(locks.iter().take(rows_left).map(|lock| {
        vec![
            duration_or(lock.left, "no TTL"),
            duration_or(lock.held, "-"),
            number_or_dash(lock.waiters),
            lock.kind.into(),
            describe_holder(lock, lock.owner.describe_briefly()),
            readable(&lock.name),
        ]
    }));
    lines.extend(table(&rows, &[true, true, true, false, false, false]));
    if locks.len() > rows_left {
        lines.push(format!("… and {} more", locks.len() - rows_left));
    }
    lines
}

fn title(listing: &Listing, elapsed: Duration, time: &str) -> String {
    let waiters: u64 = listing.locks.iter().filter_map(|lock| lock.waiters).sum();
    let trip = |(server, trip): &(String, Duration)| format!("{server} {:.2} ms", trip.as_secs_f64() * 1_000.0);
    let trips: Vec<String> = listing.round_trips.iter().map(trip).collect();
    format!(
        "steadlock top  {time}  {} held, {waiters} in fair queues, listed in {}, round trip: {}",
        listing.locks.len(),
        duration(elapsed),
        trips.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Owner;

    fn locked(name: &str, left: Option<u64>) -> Locked {
        Locked {
            name: name.into(),
            kind: "lock",
            owner: Owner::new("1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:9007199254740993"),
            holders: 1,
            limit: None,
            left: left.map(Duration::from_millis),
            held: Some(Duration::from_secs(3)),
            token: Some(7),
            waiters: None,
            server: "h:1".into(),
            primaries: None,
        }
    }

    #[test]
    fn leases_that_end_first_come_first_and_locks_that_do_not_fit_are_counted() {
        let listing = Listing {
            locks: vec![
                locked("none", None),
                locked("late", Some(9_000)),
                locked("soon", Some(500)),
            ],
            round_trips: vec![("h:1".into(), Duration::from_micros(250))],
            ..Listing::default()
        };
        let all = draw(&listing, Duration::from_millis(3), "12:00:00", None);
        let names: Vec<&str> = all[3..].iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert_eq!(names, ["soon", "late", "none"], "{all:#?}");
        assert!(
            all[0].contains("3 held") && all[0].contains("h:1 0.25 ms"),
            "{}",
            all[0]
        );
        let some = draw(&listing, Duration::from_millis(3), "12:00:00", Some(5));
        assert_eq!(some.len(), 5);
        assert_eq!(some[4], "… and 2 more");
    }
}
