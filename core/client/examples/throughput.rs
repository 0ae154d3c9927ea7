//! Lock and unlock pairs per second, beside the same scripts sent raw.
//!
//! ```sh
//! cargo run --release -p leasehold --example throughput -- redis://127.0.0.1:6379 [seconds [which]]
//! ```

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use leasehold::{Client, blocking};
use leasehold_protocol::Script;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let length = Duration::from_secs_f64(args.next().map_or(Ok(2.0), |text| text.parse())?);

    let only = args.next().unwrap_or_default();

    let run = |what: String, work: &dyn Fn() -> Result<f64, Box<dyn std::error::Error>>| {
        if what.starts_with(&only) {
            println!("{what:<22}{:>10.0} pairs/s", work()?);
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    // Several rounds, taken in turn, so that a noisy neighbour meets them all.
    for _ in 0..2 {
        if let Some(address) = url.strip_prefix("redis://") {
            for width in [1, 64] {
                run(format!("raw, {width} at once"), &|| raw(address, width, length))?;
            }
        }
        for tasks in [1, 64] {
            run(format!("async, {tasks} tasks"), &|| in_tasks(&url, tasks, length))?;
        }
        for threads in [1, 8] {
            run(format!("blocking, {threads} threads"), &|| {
                in_threads(&url, threads, length)
            })?;
        }
    }
    Ok(())
}

fn in_tasks(url: &str, tasks: usize, length: Duration) -> Result<f64, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(url).await?;
        let start = Instant::now();
        let workers: Vec<_> = (0..tasks)
            .map(|task| {
                let lock = client.lock(format!("bench:{task}"));
                tokio::spawn(async move {
                    let mut pairs = 0_u32;
                    while start.elapsed() < length {
                        lock.acquire().await?.release().await?;
                        pairs += 1;
                    }
                    Ok::<_, leasehold::Error>(pairs)
                })
            })
            .collect();
        let mut pairs = 0;
        for worker in workers {
            pairs += worker.await??;
        }
        let rate = f64::from(pairs) / start.elapsed().as_secs_f64();
        client.close().await;
        Ok(rate)
    })
}

fn in_threads(url: &str, threads: usize, length: Duration) -> Result<f64, Box<dyn std::error::Error>> {
    let client = blocking::Client::connect(url)?;
    let start = Instant::now();
    let mut pairs = 0;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let lock = client.lock(format!("bench:{thread}"));
                scope.spawn(move || {
                    let mut pairs = 0_u32;
                    while start.elapsed() < length {
                        lock.acquire()?.release()?;
                        pairs += 1;
                    }
                    Ok::<_, leasehold::Error>(pairs)
                })
            })
            .collect();
        for worker in workers {
            pairs += worker.join().map_err(|_| "a worker panicked")??;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    let rate = f64::from(pairs) / start.elapsed().as_secs_f64();
    client.close();
    Ok(rate)
}

/// The scripts without the client: `width` acquires in one write, then as many
/// releases, from a thread that does nothing else.
fn raw(address: &str, width: usize, length: Duration) -> Result<f64, Box<dyn std::error::Error>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    for script in [Script::LockAcquire, Script::LockRelease] {
        socket.write_all(&encode(&["SCRIPT", "LOAD", script.text()]))?;
        // `$40`, the SHA-1, and their line ends.
        socket.read_exact(&mut [0; 5 + 42])?;
    }
    let (mut acquires, mut releases) = (Vec::new(), Vec::new());
    for number in 0..width {
        let (name, owner) = (
            format!("raw:{number}"),
            format!("01234567-89ab-cdef-0123-456789abcdef:{number}"),
        );
        let token = format!("leasehold:{{{name}}}:token");
        let channel = format!("redisson_lock__channel:{{{name}}}");
        let (acquire, release) = (Script::LockAcquire.sha1(), Script::LockRelease.sha1());
        acquires.extend(encode(&["EVALSHA", acquire, "2", &name, &token, "30000", &owner]));
        releases.extend(encode(&["EVALSHA", release, "1", &name, &owner, &channel]));
    }
    // `*2`, `:1`, `$16`, a token of 16 digits; and `*2`, `:1`, `:0`.
    let mut granted = vec![0; width * (4 + 4 + 5 + 18)];
    let mut released = vec![0; width * (4 + 4 + 4)];
    let start = Instant::now();
    let mut pairs = 0_u32;
    while start.elapsed() < length {
        socket.write_all(&acquires)?;
        socket.read_exact(&mut granted)?;
        socket.write_all(&releases)?;
        socket.read_exact(&mut released)?;
        pairs += u32::try_from(width)?;
    }
    Ok(f64::from(pairs) / start.elapsed().as_secs_f64())
}

fn encode(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).into_bytes());
    }
    bytes
}
