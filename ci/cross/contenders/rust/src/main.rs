//! The contender in Rust with threads.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::blocking::Client;
use redis::Commands;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["count", url, name, workers, rounds] => count(url, name, workers.parse()?, rounds.parse()?),
        ["turns", url, name, workers, seconds] => turns(url, name, workers.parse()?, seconds.parse()?),
        ["hold", url, name, lease_ms] => hold(url, name, lease_ms.parse()?),
        _ => Err("usage: see ../README.md".into()),
    }
}

fn count(url: &str, name: &str, workers: usize, rounds: usize) -> Outcome {
    let client = Client::connect(url)?;
    let server = redis::Client::open(url)?;
    let (counter, tokens) = (format!("{name}:count"), format!("{name}:tokens"));
    run(workers, || {
        let mut store = server.get_connection()?;
        for _ in 0..rounds {
            let lease = client.lock(name).acquire()?;
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

fn turns(url: &str, name: &str, workers: usize, seconds: u64) -> Outcome {
    let client = Client::connect(url)?;
    let grants = AtomicU64::new(0);
    run(workers, || {
        let lock = client.lock(name);
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(seconds) {
            let lease = lock.acquire()?;
            grants.fetch_add(1, Ordering::Relaxed);
            lease.release()?;
        }
        Ok(())
    })?;
    client.close();
    println!("{}", grants.into_inner());
    Ok(())
}

fn hold(url: &str, name: &str, lease_ms: u64) -> Outcome {
    let client = Client::builder()
        .url(url)
        .lease(Duration::from_millis(lease_ms))
        .connect_blocking()?;
    let _lease = client.lock(name).acquire()?;
    println!("held");
    loop {
        thread::park();
    }
}

/// Says `ready`, waits for the word, and runs `work` on that many threads.
fn run(workers: usize, work: impl Fn() -> Outcome + Sync) -> Outcome {
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(&work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a worker panicked")?)
    })
}
