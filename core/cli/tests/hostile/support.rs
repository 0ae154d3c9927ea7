//! A server in a process of its own, a client that knows nothing but the protocol, and a witness.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the server promises.
const DEADLINE: Duration = Duration::from_secs(1);
const MOST_KILOBYTES: u64 = 512 * 1024;

/// `steadlock serve` on a free port, stopped when dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) port: u16,
}

impl Served {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_steadlock"))
            .args(["serve", "--port", "0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim_end().rsplit(':').next().unwrap().parse().unwrap();
        Self { process, port }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn password_file(name: &str, password: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("steadlock-hostile-{}-{name}", std::process::id()));
    std::fs::write(&path, password).unwrap();
    path
}

/// A connection.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn send(&mut self, words: &[&str]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.send_raw(&bytes);
    }

    /// Sends, unless the server has had enough.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// The first line of the next reply, whose rest is passed over; `None` if the connection has ended.
    pub(crate) fn reply(&mut self) -> Option<String> {
        let line = self.item()?;
        if let Some(count) = line.strip_prefix('*').and_then(|count| count.parse::<u64>().ok()) {
            for _ in 0..count {
                self.reply()?;
            }
        }
        Some(line)
    }

    /// The same, but only the head of a list.
    pub(crate) fn item(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r\n")?).into_owned();
        if let Some(length) = line.strip_prefix('$').and_then(|length| length.parse::<u64>().ok()) {
            std::io::copy(&mut (&mut self.stream).take(length + 2), &mut std::io::sink()).ok()?;
        }
        Some(line)
    }

    pub(crate) fn call(&mut self, words: &[&str]) -> Option<String> {
        self.send(words);
        self.reply()
    }

    /// The content of a reply that is a string.
    pub(crate) fn bulk(&mut self, words: &[&str]) -> String {
        self.send(words);
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let length: usize = line.trim_end().strip_prefix('$').unwrap().parse().unwrap();
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    pub(crate) fn second_half(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// Whether the server ends the connection.
    pub(crate) fn ends(&mut self) -> bool {
        match std::io::copy(&mut self.stream, &mut std::io::sink()) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Asks the server all the while, on connections of its own, and looks at what it takes.
pub(crate) struct Witness {
    thread: JoinHandle<(Duration, u64)>,
    end: Arc<AtomicBool>,
    started: Instant,
    /// One at a time: what it measures is the server, not the other tests.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Witness {
    pub(crate) fn start(served: &Served) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Arc::new(AtomicBool::new(false));
        let (ended, port, process) = (Arc::clone(&end), served.port, served.process.id());
        let thread = std::thread::spawn(move || {
            let (mut slowest, mut most) = (Duration::ZERO, 0);
            let mut wire = Wire::connect(port);
            for round in 0_u64.. {
                if ended.load(Ordering::Relaxed) && round > 0 {
                    break;
                }
                if round % 10 == 9 {
                    wire = Wire::connect(port);
                }
                // A full store refuses the value; then it is one that exists.
                for (words, expected) in [
                    (&["PING"][..], "+PONG"),
                    (&["SET", "witness", "1"], "+OK -OOM"),
                    (&["GET", "witness"], "$1 $-1"),
                ] {
                    let (asked, queued) = (Instant::now(), time_in_run_queue(process));
                    let reply = wire.call(words).unwrap_or_else(|| panic!("no answer to {words:?}"));
                    // Other programs of the machine are not the server's fault.
                    let taken = asked.elapsed();
                    slowest = slowest.max(taken.saturating_sub(time_in_run_queue(process).saturating_sub(queued)));
                    let begin = reply.split(' ').next().unwrap();
                    assert!(expected.split(' ').any(|one| one == begin), "{words:?}: {reply}");
                }
                most = most.max(resident_kilobytes(process));
                std::thread::sleep(Duration::from_millis(2));
            }
            (slowest, most)
        });
        Self {
            thread,
            end,
            started: Instant::now(),
            _turn: turn,
        }
    }

    /// Says what it saw, and fails if that was too much.
    pub(crate) fn end(self, during: &str) {
        self.end.store(true, Ordering::Relaxed);
        let (slowest, most) = self.thread.join().unwrap();
        let elapsed = self.started.elapsed();
        let megabytes = most / 1024;
        // Past the capture of the test harness: the numbers are worth reading when all is well, too.
        let _ = writeln!(
            std::io::stderr(),
            "hostile: {during}: {elapsed:.1?}, slowest answer {slowest:.1?}, at most {megabytes} MB"
        );
        assert!(slowest < DEADLINE, "an answer took {slowest:?} during {during}");
        assert!(most < MOST_KILOBYTES, "the server took {megabytes} MB during {during}");
    }
}

/// How long the server's thread that waited longest was ready to run while the processors ran other programs.
fn time_in_run_queue(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let waited = threads.flatten().filter_map(|thread| {
        let counted = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        counted.split(' ').nth(1)?.parse().ok()
    });
    Duration::from_nanos(waited.max().unwrap_or(0))
}

fn resident_kilobytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the server lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("its size");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
