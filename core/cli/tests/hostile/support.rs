//! A server in a separate process, a client that knows only the protocol, and a monitor.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The server's promises: the longest time for an answer, and the most memory.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(1);
const MAX_KILOBYTES: u64 = 512 * 1024;

/// A `steadlock serve` on a free port, stopped when dropped.
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

/// A connection to the server.
pub(crate) struct RawClient {
    stream: BufReader<TcpStream>,
}

impl RawClient {
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

    /// Sends bytes. An error is ignored: the server may have closed the connection.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Returns the first line of the next reply and skips the rest; `None` if the connection has ended.
    pub(crate) fn reply(&mut self) -> Option<String> {
        let line = self.item()?;
        if let Some(count) = line.strip_prefix('*').and_then(|count| count.parse::<u64>().ok()) {
            for _ in 0..count {
                self.reply()?;
            }
        }
        Some(line)
    }

    /// Returns the first line of the next reply. For an array, the elements are not skipped.
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

    /// Sends a command, and returns the content of its bulk string reply.
    pub(crate) fn bulk(&mut self, words: &[&str]) -> String {
        self.send(words);
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let length: usize = line.trim_end().strip_prefix('$').unwrap().parse().unwrap();
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    pub(crate) fn cloned_stream(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// Returns whether the server closes the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        match std::io::copy(&mut self.stream, &mut std::io::sink()) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A client that sends commands all the time on its own connections, and measures the server's response time and
/// memory.
pub(crate) struct Monitor {
    thread: JoinHandle<(Duration, u64)>,
    end: Arc<AtomicBool>,
    started: Instant,
    /// Only one monitor runs at a time, so that other tests do not disturb its measurements.
    _turn: MutexGuard<'static, ()>,
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Monitor {
    pub(crate) fn start(served: &Served) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        standstill::watch();
        let end = Arc::new(AtomicBool::new(false));
        let (ended, port, process) = (Arc::clone(&end), served.port, served.process.id());
        let thread = std::thread::spawn(move || {
            let (mut slowest, mut most) = (Duration::ZERO, 0);
            let mut client = RawClient::connect(port);
            for round in 0_u64.. {
                if ended.load(Ordering::Relaxed) && round > 0 {
                    break;
                }
                if round % 10 == 9 {
                    client = RawClient::connect(port);
                }
                // A full store refuses the value with OOM, and then GET can find no value.
                for (words, expected) in [
                    (&["PING"][..], "+PONG"),
                    (&["SET", "witness", "1"], "+OK -OOM"),
                    (&["GET", "witness"], "$1 $-1"),
                ] {
                    let (asked, queued, stood) = (Instant::now(), time_in_run_queues(process), standstill::total());
                    let reply = client.call(words).unwrap_or_else(|| panic!("no answer to {words:?}"));
                    let taken = asked.elapsed();
                    // The time for which the server or this thread waited for a processor does not count: other programs
                    // took it. Nor does the time for which the machine or this process stood still.
                    let queued = time_in_run_queues(process).saturating_sub(queued);
                    if taken > standstill::SHORTEST {
                        standstill::wait_until_noted();
                    }
                    let stood = standstill::total().saturating_sub(stood);
                    slowest = slowest.max(taken.saturating_sub(queued).saturating_sub(stood));
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

    /// Prints the measurements, and fails if they exceed the server's promises.
    pub(crate) fn end(self, during: &str) {
        self.end.store(true, Ordering::Relaxed);
        let (slowest, most) = self.thread.join().unwrap();
        let elapsed = self.started.elapsed();
        let megabytes = most / 1024;
        // Writing to `stderr()` bypasses the test harness's capture, because the numbers are of interest even if the
        // test passes.
        let _ = writeln!(
            std::io::stderr(),
            "hostile: {during}: {elapsed:.1?}, slowest answer {slowest:.1?}, at most {megabytes} MB"
        );
        assert!(slowest < MAX_ANSWER_TIME, "an answer took {slowest:?} during {during}");
        assert!(most < MAX_KILOBYTES, "the server took {megabytes} MB during {during}");
    }
}

/// Returns how long the server's most delayed thread and the calling thread were ready to run while other programs had
/// the processors.
fn time_in_run_queues(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let of_server = threads.flatten().filter_map(|thread| time_in_run_queue(&thread.path()));
    let own = time_in_run_queue(Path::new("/proc/thread-self"));
    of_server.max().unwrap_or_default() + own.unwrap_or_default()
}

/// Returns how long a thread was ready to run while others had the processors.
fn time_in_run_queue(thread: &Path) -> Option<Duration> {
    let counted = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    Some(Duration::from_nanos(counted.split(' ').nth(1)?.parse().ok()?))
}

fn resident_kilobytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the server lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("its size");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The times for which the machine or this process stood still. A thread that sleeps for short times notices them.
mod standstill {
    use super::{AtomicU64, Duration, Instant, Once, Ordering};

    /// A shorter delay is not noted: a busy machine delays every sleep a little.
    pub(super) const SHORTEST: Duration = Duration::from_millis(50);
    const SLEEP: Duration = Duration::from_millis(2);

    static NANOSECONDS: AtomicU64 = AtomicU64::new(0);
    static SLEEPS: AtomicU64 = AtomicU64::new(0);

    /// Starts the thread, if it does not run yet.
    pub(super) fn watch() {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| {
            std::thread::spawn(|| {
                loop {
                    let start = Instant::now();
                    std::thread::sleep(SLEEP);
                    let late = start.elapsed().saturating_sub(SLEEP);
                    if late >= SHORTEST {
                        let late = u64::try_from(late.as_nanos()).expect("less than centuries");
                        NANOSECONDS.fetch_add(late, Ordering::SeqCst);
                    }
                    SLEEPS.fetch_add(1, Ordering::SeqCst);
                }
            });
        });
    }

    /// Returns the sum of all standstills so far.
    pub(super) fn total() -> Duration {
        Duration::from_nanos(NANOSECONDS.load(Ordering::SeqCst))
    }

    /// Waits until a standstill that has just ended is in the sum.
    pub(super) fn wait_until_noted() {
        let before = SLEEPS.load(Ordering::SeqCst);
        while SLEEPS.load(Ordering::SeqCst) == before {
            std::thread::sleep(SLEEP);
        }
    }
}
