//! The process of the clients: causes the hardships, and checks that the clients recover from each.

use std::fs::File;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::Resource;

use super::worker::{Place, SeededRandom, Shared, Worker, builder, poll_ready, print_line};
use crate::limits::{Limited, Unprivileged, close_at_once, descriptors, open_files};

/// The longest time until a client works again after a hardship.
const RECOVERY_LIMIT: Duration = Duration::from_secs(20);
pub const LONGEST_LEASE: Duration = Duration::from_secs(3);
/// Clients are idle after this time without calls.
const IDLE: Duration = Duration::from_millis(60);
/// The number of workers that share a client.
const WORKERS: usize = 2;

/// The kinds of trouble that the process of the clients has to survive.
#[derive(Clone, Copy, Debug)]
enum Hardship {
    NoThreads,
    NoFiles,
    ClosedWhileIdle,
    ClosedMeanwhile,
    ClosedAndNoFiles,
    ClosedAndNoThreads,
    Names,
    Cuts,
    Refused,
    Paused,
    Removed,
}

const ALL: [Hardship; 11] = [
    Hardship::NoThreads,
    Hardship::NoFiles,
    Hardship::ClosedWhileIdle,
    Hardship::ClosedMeanwhile,
    Hardship::ClosedAndNoFiles,
    Hardship::ClosedAndNoThreads,
    Hardship::Names,
    Hardship::Cuts,
    Hardship::Refused,
    Hardship::Paused,
    Hardship::Removed,
];

pub fn run(port: &str, time: Duration) {
    let seed = std::env::var("STEADLOCK_TEST_HARDSHIP_SEED").map_or_else(
        |_| u64::from(std::process::id()) * 0x9E37_79B9,
        |seed| seed.parse().expect("a number"),
    );
    print_line(&format!("seed {seed}"));
    let _unprivileged = Unprivileged::new();
    let shared = Arc::new(Shared::new());
    report_panics(&shared);
    let places = places(port);
    let workers = start(&places, &shared, seed);
    let mut trouble = Trouble {
        shared: Arc::clone(&shared),
        places,
        random: SeededRandom(seed | 1),
        longest: Duration::ZERO,
    };
    let end = Instant::now() + time;
    trouble.recover();
    let mut count = 0;
    while Instant::now() < end || count < ALL.len() {
        // Each hardship comes once, then random ones follow.
        let number = trouble.random.below(ALL.len() as u64);
        let hardship = ALL[usize::try_from(number).expect("few")];
        let hardship = if count < ALL.len() { ALL[count] } else { hardship };
        trouble.cause(hardship);
        count += 1;
        trouble.recover();
    }
    shared.is_over.store(true, Ordering::SeqCst);
    for worker in workers {
        while !worker.is_finished() {
            trouble.wait(Duration::from_millis(5));
        }
        worker.join().expect("no panic");
    }
    let tasks = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    print_line(&format!(
        "{:?}, threads {tasks}, descriptors {}, longest recovery {:?}, in {time:?}",
        shared.counts(),
        descriptors().len(),
        trouble.longest
    ));
}

/// Fails the test for every panic outside of tokio. tokio may panic if descriptors are closed in the middle of a call,
/// and the client catches that.
fn report_panics(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    panic::set_hook(Box::new(move |panicked| {
        let place = panicked.location().map_or("", |location| location.file());
        if place.contains("/tokio-") {
            shared.count("panics of tokio");
        } else {
            shared.fail(&format!("{:?}: {panicked}", thread::current().name()));
        }
    }));
}

fn places(port: &str) -> Vec<Arc<Place>> {
    let place = |name: &str, is_async: bool, user: &'static str, lease: u64, is_lazy: bool| {
        let port = port.to_owned();
        Arc::new(Place::new(name, is_async, move || {
            let builder = builder(&port, user, Duration::from_millis(lease));
            if is_lazy { builder.lazy() } else { builder }
        }))
    };
    vec![
        place("blocking", false, "", 1_000, false),
        place("lazy", false, "", 2_000, true),
        place("user", false, "locks:secret@", 3_000, false),
        place("tasks", true, "", 1_500, false),
        place("lazy-tasks", true, "locks:secret@", 3_000, true),
    ]
}

fn start(places: &[Arc<Place>], shared: &Arc<Shared>, seed: u64) -> Vec<thread::JoinHandle<()>> {
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for (number, place) in places.iter().enumerate() {
        for which in 0..WORKERS {
            let worker = Worker {
                name: format!("{}-{which}", place.name),
                place: Arc::clone(place),
                shared: Arc::clone(shared),
                random: SeededRandom((seed + (number * WORKERS + which) as u64 * 0x5851_F42D) | 1),
            };
            if place.name.ends_with("tasks") {
                tasks.push(worker);
            } else {
                threads.push(thread::spawn(|| poll_ready(worker.run())));
            }
        }
    }
    threads.push(thread::spawn(|| {
        // This runtime has no descriptors (no I/O driver), so closing descriptors cannot break it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let all = join_all(tasks.into_iter().map(Worker::run));
        runtime.expect("a runtime").block_on(async {
            all.await;
        });
    }));
    threads
}

struct Trouble {
    shared: Arc<Shared>,
    places: Vec<Arc<Place>>,
    random: SeededRandom,
    longest: Duration,
}

impl Trouble {
    fn cause(&mut self, hardship: Hardship) {
        self.shared.count(&format!("hardship: {hardship:?}"));
        match hardship {
            Hardship::NoThreads => {
                let _limited = Limited::to(Resource::Nproc, 1);
                self.cut_connections();
            }
            Hardship::NoFiles => {
                let _limited = Limited::to(Resource::Nofile, 3);
                self.cut_connections();
            }
            Hardship::ClosedWhileIdle => self.close_while_idle(),
            Hardship::ClosedMeanwhile => self.close_meanwhile(),
            Hardship::ClosedAndNoFiles => {
                close_at_once(descriptors());
                let _limited = Limited::to(Resource::Nofile, 3);
                self.wait_random(100, 2_000);
            }
            Hardship::ClosedAndNoThreads => {
                let _limited = Limited::to(Resource::Nproc, 1);
                self.close_meanwhile();
            }
            Hardship::Names => self.change_addresses(),
            Hardship::Cuts => self.cut_connections(),
            Hardship::Refused => {
                print_line("do refuse");
                self.cut_connections();
            }
            Hardship::Paused => {
                print_line("do pause");
                self.wait_random(100, 2_500);
            }
            Hardship::Removed => {
                for _ in 0..5 {
                    let number = self.random.below(self.places.len() as u64);
                    let place = &self.places[usize::try_from(number).expect("few")];
                    print_line(&format!(
                        "do remove own-{}-{}",
                        place.name,
                        self.random.below(WORKERS as u64)
                    ));
                    self.wait_random(10, 300);
                }
            }
        }
    }

    fn cut_connections(&mut self) {
        for _ in 0..1 + self.random.below(5) {
            let what = ["commands", "renewals", "messages", "all"];
            match what.get(usize::try_from(self.random.below(5)).expect("few")) {
                Some(what) => print_line(&format!("do cut {what}")),
                None => print_line("do kill"),
            }
            self.wait_random(1, 500);
        }
    }

    fn change_addresses(&mut self) {
        const ADDRESS_LISTS: [&str; 6] = [
            "second first",
            "first",
            "second",
            "unused second",
            "replica first",
            "replica unused second first",
        ];
        for _ in 0..1 + self.random.below(4) {
            let list = ADDRESS_LISTS[usize::try_from(self.random.below(6)).expect("few")];
            print_line(&format!("do lead {list}"));
            self.cut_connections();
        }
    }

    fn close_meanwhile(&mut self) {
        for _ in 0..1 + self.random.below(4) {
            close_at_once(descriptors());
            let files = (self.random.below(2) == 0).then(files);
            self.wait_random(0, 400);
            // A client that was in the middle of a call may have closed some of these files.
            files.into_iter().flatten().for_each(ProgramFile::close);
            self.wait_random(0, 1_500);
        }
    }

    /// Closes the descriptors of idle clients and opens files with the same numbers. The clients must not close these.
    fn close_while_idle(&mut self) {
        self.shared.is_paused.store(true, Ordering::SeqCst);
        while !self.shared.is_idle() {
            self.wait(Duration::from_millis(1));
        }
        thread::sleep(IDLE);
        close_at_once(descriptors());
        let files = files();
        self.shared.is_paused.store(false, Ordering::SeqCst);
        self.wait_random(1_500, 3_000);
        for file in &files {
            if !file.is_open() {
                self.shared.fail("an idle client has closed a file of the program");
            }
        }
        files.into_iter().for_each(ProgramFile::close);
    }

    /// Ends the hardship and waits until every client works.
    fn recover(&mut self) {
        print_line("do calm");
        let start = Instant::now();
        for place in self.places.clone() {
            while !place.was_granted_since(start) {
                self.wait(Duration::from_millis(1));
                if start.elapsed() > RECOVERY_LIMIT {
                    self.shared.fail(&format!("{} does not recover", place.name));
                }
            }
        }
        self.shared.count("recoveries");
        self.longest = self.longest.max(start.elapsed());
    }

    fn wait_random(&mut self, from: u64, to: u64) {
        let time = self.random.millis(from, to);
        self.wait(time);
    }

    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.shared.check_calls();
            thread::sleep(Duration::from_millis(10).min(time));
        }
    }
}

/// A file of the program. A client may have closed its descriptor by mistake.
struct ProgramFile {
    file: File,
    identity: Option<(u64, u64, i64)>,
}

fn files() -> Vec<ProgramFile> {
    let files = open_files().into_iter();
    files
        .map(|file| ProgramFile {
            identity: identity(&file),
            file,
        })
        .collect()
}

fn identity(file: &File) -> Option<(u64, u64, i64)> {
    let known = file.metadata().ok()?;
    Some((known.dev(), known.ino(), known.mtime()))
}

impl ProgramFile {
    fn is_open(&self) -> bool {
        self.file.as_raw_fd() > 2 && identity(&self.file) == self.identity
    }

    /// Closes the file, unless its descriptor belongs to other code by now.
    fn close(self) {
        if !self.is_open() {
            let _ = self.file.into_raw_fd();
        }
    }
}
