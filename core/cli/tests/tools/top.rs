//! `top`, on a terminal and elsewhere.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use steadlock::Client;

use crate::support::{Rig, Served, command, errors, eventually, run, status, text};

/// A terminal with only the features that the command uses.
struct Terminal {
    controller: Arc<OwnedFd>,
    screen: Arc<Mutex<Screen>>,
}

#[derive(Default)]
struct Screen {
    /// All bytes that have arrived.
    bytes: Vec<u8>,
    lines: Vec<String>,
    is_alternate: bool,
    is_cursor_hidden: bool,
    is_clipping: bool,
}

impl Screen {
    /// Draws the screen anew from all bytes.
    fn draw(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let (mut row, mut column) = (0, 0);
        let mut lines: Vec<Vec<char>> = vec![Vec::new()];
        let mut letters = text.chars().peekable();
        (self.is_alternate, self.is_cursor_hidden, self.is_clipping) = (false, false, false);
        while let Some(letter) = letters.next() {
            match letter {
                '\u{1b}' => {
                    let mut code = String::new();
                    for letter in letters.by_ref() {
                        code.push(letter);
                        if letter.is_ascii_alphabetic() {
                            break;
                        }
                    }
                    match code.as_str() {
                        "[?1049h" => self.is_alternate = true,
                        "[?1049l" => self.is_alternate = false,
                        "[?25l" => self.is_cursor_hidden = true,
                        "[?25h" => self.is_cursor_hidden = false,
                        "[?7l" => self.is_clipping = true,
                        "[?7h" => self.is_clipping = false,
                        "[H" => (row, column) = (0, 0),
                        "[K" => lines[row].truncate(column),
                        "[J" => lines.truncate(row + 1),
                        other => panic!("the terminal does not know {other:?}"),
                    }
                }
                '\r' => column = 0,
                '\n' => {
                    row += 1;
                    if row == lines.len() {
                        lines.push(Vec::new());
                    }
                }
                letter => {
                    let length = lines[row].len().max(column);
                    lines[row].resize(length, ' ');
                    if column < lines[row].len() {
                        lines[row][column] = letter;
                    } else {
                        lines[row].push(letter);
                    }
                    column += 1;
                }
            }
        }
        self.lines = lines.into_iter().map(String::from_iter).collect();
    }
}

impl Terminal {
    fn run(url: &str, arguments: &[&str], columns: u16, rows: u16) -> (Self, Child) {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let side = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let controller = Arc::new(controller);
        let terminal = Self {
            controller: Arc::clone(&controller),
            screen: Arc::default(),
        };
        terminal.resize(columns, rows);
        let child = command(&[url], arguments)
            .stdin(side.try_clone().unwrap())
            .stdout(side)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let screen = Arc::clone(&terminal.screen);
        let mut from = File::from(controller.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut some = [0; 4_096];
            // The read fails when the other side is closed.
            while let Ok(length @ 1..) = from.read(&mut some) {
                let mut screen = screen.lock().unwrap();
                screen.bytes.extend_from_slice(&some[..length]);
                screen.draw();
            }
        });
        (terminal, child)
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&*self.controller, size).unwrap();
    }

    fn lines(&self) -> Vec<String> {
        self.screen.lock().unwrap().lines.clone()
    }

    async fn shows(&self, what: &str, holds: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        eventually(what, || {
            lines = self.lines();
            holds(&lines)
        })
        .await;
        lines
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[tokio::test]
async fn a_terminal_shows_changes_of_locks_and_is_restored_afterwards() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = Rig::start("standalone");
        let client = Client::connect(&*server.url).await.unwrap();
        let first = client.lock("first").acquire().await.unwrap();
        let (terminal, mut child) = Terminal::run(&server.url, &["top", "--interval", "0.2"], 120, 30);
        let lines = terminal.shows("the first lock", |lines| has(lines, "first")).await;
        assert!(
            lines[0].starts_with("steadlock top  ") && lines[0].contains("1 held"),
            "{lines:#?}"
        );
        assert!(
            lines[0].contains(&format!("127.0.0.1:{} ", server.nodes[0].port)),
            "{lines:#?}"
        );
        assert!(lines[2].contains("LEFT") && lines[3].contains("lock"), "{lines:#?}");
        {
            let screen = terminal.screen.lock().unwrap();
            assert!(screen.is_alternate && screen.is_cursor_hidden && screen.is_clipping);
        }
        let second = client.lock("second").acquire().await.unwrap();
        terminal
            .shows("the second lock", |lines| has(lines, "second") && has(lines, "2 held"))
            .await;
        first.release().await.unwrap();
        // The terminal receives the end of a picture later than its beginning.
        terminal
            .shows("the first lock and its line are gone", |lines| {
                !has(lines, "first") && has(lines, "1 held") && lines.len() == 4
            })
            .await;
        send(&child, signal);
        eventually("the command ends", || child.try_wait().unwrap().is_some()).await;
        let expected = if signal == Signal::INT { 0 } else { 143 };
        assert_eq!(child.wait().unwrap().code(), Some(expected));
        eventually("the terminal is as it was", || {
            let screen = terminal.screen.lock().unwrap();
            !screen.is_alternate && !screen.is_cursor_hidden && !screen.is_clipping
        })
        .await;
        second.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_output_fits_into_the_terminal_even_after_a_resize() {
    let server = Served::start();
    let client = Client::connect(&*server.url).await.unwrap();
    let mut leases = Vec::new();
    for number in 0..30 {
        leases.push(client.lock(format!("a-lock-{number}")).acquire().await.unwrap());
    }
    // The interval is far longer than this test, so only the new size of the terminal can cause a new picture.
    let (terminal, mut child) = Terminal::run(&server.url, &["top", "--interval", "600"], 60, 10);
    let fits = |lines: &[String], columns: usize, rows: usize| {
        lines.len() == rows && lines.iter().all(|line| line.chars().count() <= columns)
    };
    let lines = terminal
        .shows("ten lines", |lines| fits(lines, 60, 10) && has(lines, "and 24 more"))
        .await;
    assert!(lines[0].starts_with("steadlock top"), "{lines:#?}");
    terminal.resize(100, 20);
    send(&child, Signal::WINCH);
    terminal
        .shows("twenty lines", |lines| {
            fits(lines, 100, 20) && has(lines, "and 14 more")
        })
        .await;
    send(&child, Signal::INT);
    eventually("the command ends", || child.try_wait().unwrap().is_some()).await;
    drop(leases);
}

#[tokio::test]
async fn without_a_terminal_each_refresh_prints_lines_or_one_line_of_json() {
    let server = Served::start();
    let client = Client::connect(&*server.url).await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let once = run(&server.url, &["top", "--once"]);
    assert_eq!(status(&once), 0);
    assert!(
        text(&once).starts_with("steadlock top") && !text(&once).contains('\u{1b}'),
        "{once:?}"
    );
    let mut child = command(&[&server.url], &["top", "--json", "--interval", "0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let look: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(look["locks"][0]["name"], "a", "{look}");
        assert!(look["servers"][0]["round_trip_us"].is_u64(), "{look}");
    }
    send(&child, Signal::INT);
    eventually("the command ends", || child.try_wait().unwrap().is_some()).await;
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_goes_away_is_shown_and_found_again() {
    let server = Rig::start("sentinel");
    let client = Client::connect(&*server.url).await.unwrap();
    let lease = client
        .lock("a")
        .lease(Duration::from_secs(600))
        .acquire()
        .await
        .unwrap();
    let (terminal, mut child) = Terminal::run(&server.url, &["top", "--interval", "0.2"], 200, 10);
    let primary = server.nodes.iter().find(|node| node.role == "primary").unwrap();
    terminal.shows("the lock", |lines| has(lines, "1 held")).await;
    let before = format!("127.0.0.1:{} ", primary.port);
    // The grant must be on a replica before the primary fails.
    eventually("the grant is replicated", || {
        let replicas = server.nodes.iter().filter(|node| node.role == "replica");
        replicas
            .map(|node| node.offset())
            .all(|offset| offset.is_some() && offset == primary.offset())
    })
    .await;
    primary.kill();
    let lines = terminal
        .shows("the new primary", |lines| {
            has(lines, "1 held") && !lines[0].contains(&before)
        })
        .await;
    assert!(has(&lines, " a"), "{lines:#?}");
    send(&child, Signal::INT);
    eventually("the command ends", || child.try_wait().unwrap().is_some()).await;
    drop(lease);
}

#[test]
fn a_failed_first_listing_is_reported_without_the_alternate_screen() {
    let output = run("redis://127.0.0.1:1", &["top"]);
    assert_eq!((status(&output), text(&output)), (69, String::new()));
    assert!(errors(&output).contains("127.0.0.1:1"), "{output:?}");
}
