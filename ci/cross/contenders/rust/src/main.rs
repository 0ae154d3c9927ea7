//! The contender in Rust with threads.

#![warn(clippy::too_many_lines)]

mod settings;

use std::error::Error;
use std::io::stdin;
use std::process;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use redis::Commands;
use settings::Settings;
use steadlock::blocking::{Client, Lease, Lock};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let settings = Settings::parse(args)?;
    match command.as_str() {
        "count" => count(&settings),
        "turns" => turns(&settings),
        "hold" => hold(&settings),
        "downgrade" => downgrade(&settings),
        _ => Err("usage: see ../README.md".into()),
    }
}

fn count(settings: &Settings) -> Outcome {
    let client = connect(settings)?;
    let server = redis::Client::open(settings.url.as_str())?;
    let name = &settings.name;
    let (counter, tokens) = (format!("{name}:count"), format!("{name}:tokens"));
    run(settings.workers, |_| {
        let lock = lock_of(&client, settings)?;
        let mut store = server.get_connection()?;
        for _ in 0..settings.rounds {
            let lease = lock.acquire()?;
            let value: Option<u64> = store.get(&counter)?;
            thread::sleep(Duration::from_millis(1));
            store.set::<_, _, ()>(&counter, value.unwrap_or(0) + 1)?;
            store.rpush::<_, _, ()>(&tokens, lease.token().unwrap_or(0))?;
            lease.release()?;
        }
        Ok(())
    })?;
    client.close();
    Ok(())
}

fn turns(settings: &Settings) -> Outcome {
    let client = connect(settings)?;
    let grants = Mutex::new(vec![0_u64; settings.workers]);
    let held = Mutex::new(Duration::ZERO);
    let own = client.fair_lock(format!("{}:{}", settings.name, process::id()));
    for _ in 0..settings.warm_up {
        own.acquire()?.release()?;
    }
    run(settings.workers, |worker| {
        let lock = lock_of(&client, settings)?;
        let mut log = Log::open(settings, worker)?;
        let started = Instant::now();
        let mut count = 0;
        let mut sum = Duration::ZERO;
        while settings.should_continue(count, started) {
            let lease = lock.acquire()?;
            let granted = Instant::now();
            log.enter(count, &lease)?;
            thread::sleep(settings.hold);
            log.exit(count)?;
            sum += granted.elapsed();
            lease.release()?;
            count += 1;
        }
        *held.lock().unwrap() += sum;
        grants.lock().unwrap()[worker] = count;
        Ok(())
    })?;
    client.close();
    let grants: Vec<String> = grants.into_inner()?.iter().map(u64::to_string).collect();
    println!("{} {}", held.into_inner()?.as_millis(), grants.join(" "));
    Ok(())
}

fn hold(settings: &Settings) -> Outcome {
    let client = connect(settings)?;
    let lock = lock_of(&client, settings)?;
    let leases = thread::scope(|scope| {
        let threads: Vec<_> = (0..settings.workers).map(|_| scope.spawn(|| lock.acquire())).collect();
        let join = threads
            .into_iter()
            .map(|thread| Ok(thread.join().map_err(|_| "a worker panicked")??));
        join.collect::<Outcome<Vec<Lease>>>()
    })?;
    println!("held");
    wait_for_line()?;
    for lease in leases {
        lease.release()?;
    }
    println!("released");
    client.close();
    Ok(())
}

fn downgrade(settings: &Settings) -> Outcome {
    let client = connect(settings)?;
    let lock = client.read_write_lock(&settings.name);
    let writing = lock.write.acquire()?;
    println!("held");
    wait_for_line()?;
    let reading = lock.read.within(&writing).acquire()?;
    writing.release()?;
    println!("reading");
    wait_for_line()?;
    reading.release()?;
    println!("released");
    client.close();
    Ok(())
}

fn connect(settings: &Settings) -> Outcome<Client> {
    let mut builder = steadlock::Client::builder().url(&settings.url);
    if let Some(lease) = settings.lease {
        builder = builder.lease(lease);
    }
    Ok(builder.connect_blocking()?)
}

fn lock_of(client: &Client, settings: &Settings) -> Outcome<Lock> {
    let name = &settings.name;
    Ok(match settings.kind.as_str() {
        "lock" => client.lock(name),
        "mutex" => client.mutex(name),
        "fair" => client.fair_lock(name),
        "read" => client.read_write_lock(name).read,
        "write" => client.read_write_lock(name).write,
        "semaphore" => client.semaphore(name, settings.limit).permits(settings.permits),
        "multi" => {
            let members: Vec<Lock> = name.split(',').map(|name| client.lock(name)).collect();
            client.multi_lock(&members)
        }
        other => return Err(format!("no kind {other}").into()),
    })
}

/// Prints `ready`, waits for a line, and runs `work` on `workers` threads.
fn run(workers: usize, work: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    println!("ready");
    wait_for_line()?;
    let (work, start) = (&work, &Barrier::new(workers));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    start.wait();
                    work(worker)
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a worker panicked")?)
    })
}

fn wait_for_line() -> Outcome {
    stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Writes into `NAME:log` when a worker enters and leaves, if the option `--log` is set.
struct Log {
    store: Option<redis::Connection>,
    key: String,
    worker: String,
}

impl Log {
    fn open(settings: &Settings, worker: usize) -> Outcome<Self> {
        let server = redis::Client::open(settings.url.as_str())?;
        Ok(Self {
            store: settings.log.then(|| server.get_connection()).transpose()?,
            key: format!("{}:log", settings.name),
            worker: format!("{}/{worker}", process::id()),
        })
    }

    fn enter(&mut self, round: u64, lease: &Lease) -> Outcome {
        if self.store.is_none() {
            return Ok(());
        }
        // The server runs on this machine, so both use the same clock.
        let until = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + lease.remaining();
        self.add("enter", round, until.as_millis())
    }

    fn exit(&mut self, round: u64) -> Outcome {
        self.add("exit", round, 0)
    }

    fn add(&mut self, step: &str, round: u64, until: u128) -> Outcome {
        let Some(store) = &mut self.store else { return Ok(()) };
        let id = format!("{}/{round}", self.worker);
        let mut command = redis::cmd("XADD");
        command.arg(&self.key).arg("*");
        command.arg("step").arg(step).arg("id").arg(id);
        command.arg("until").arg(until.to_string());
        command.exec(store)?;
        Ok(())
    }
}
