//! The Rust client in the benchmark, with and without metrics, and the same scripts sent without the client: `contender
//! tasks|threads "steadlock"|"steadlock, metrics"|"raw scripts" URL NUMBER`. See ci/bench/README.md.

use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use steadlock::{Builder, Client};
use steadlock_protocol::Script;

type Outcome<T> = Result<T, Box<dyn Error>>;
/// A function that works for the given time, and returns the number of pairs of acquire and release.
type Contender = Box<dyn FnMut(Duration) -> Outcome<u32>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [face, library, url, number] = args.as_slice() else {
        return Err("contender tasks|threads LIBRARY URL NUMBER".into());
    };
    let number = number.parse()?;
    let mut contender = match (face.as_str(), library.as_str()) {
        ("tasks", "steadlock") => tasks(options(url), number)?,
        ("tasks", "steadlock, metrics") => tasks(options(url).metrics(), number)?,
        ("threads", "steadlock") => threads(options(url), number)?,
        ("threads", "steadlock, metrics") => threads(options(url).metrics(), number)?,
        (_, "raw scripts") => raw(url, number)?,
        _ => return Err(format!("there is no {face} of {library}").into()),
    };
    println!("ready");
    for line in io::stdin().lock().lines() {
        let length = Duration::from_secs_f64(line?.trim().parse()?);
        let start = Instant::now();
        let pairs = contender(length)?;
        println!("{pairs} {}", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn options(url: &str) -> Builder {
    Client::builder().url(url)
}

/// Tasks on one thread, as in an asynchronous service.
fn tasks(options: Builder, number: usize) -> Outcome<Contender> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(options.connect())?;
    Ok(Box::new(move |length| {
        runtime.block_on(async {
            let until = Instant::now() + length;
            let workers: Vec<_> = (0..number)
                .map(|task| {
                    let lock = client.lock(format!("ours-tasks:{task}"));
                    tokio::spawn(async move {
                        let mut pairs = 0_u32;
                        while Instant::now() < until {
                            lock.acquire().await?.release().await?;
                            pairs += 1;
                        }
                        Ok::<_, steadlock::Error>(pairs)
                    })
                })
                .collect();
            let mut pairs = 0;
            for worker in workers {
                pairs += worker.await??;
            }
            Ok(pairs)
        })
    }))
}

fn threads(options: Builder, number: usize) -> Outcome<Contender> {
    let client = options.connect_blocking()?;
    Ok(Box::new(move |length| {
        let until = Instant::now() + length;
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..number)
                .map(|thread| {
                    let lock = client.lock(format!("ours-threads:{thread}"));
                    scope.spawn(move || {
                        let mut pairs = 0_u32;
                        while Instant::now() < until {
                            lock.acquire()?.release()?;
                            pairs += 1;
                        }
                        Ok::<_, steadlock::Error>(pairs)
                    })
                })
                .collect();
            let mut pairs = 0;
            for worker in workers {
                pairs += worker.join().map_err(|_| "a worker panicked")??;
            }
            Ok(pairs)
        })
    }))
}

/// Sends the scripts without the client: `width` acquires in one write, then as many releases, from a thread that does
/// no other work. This is the upper bound of the speed.
fn raw(url: &str, width: usize) -> Outcome<Contender> {
    let address = url.strip_prefix("redis://").ok_or("raw scripts need a redis:// URL")?;
    let mut socket = TcpStream::connect(address.trim_end_matches('/'))?;
    socket.set_nodelay(true)?;
    for script in [Script::LockAcquire, Script::LockRelease] {
        socket.write_all(&encode(&["SCRIPT", "LOAD", script.text()]))?;
        // The reply is `$40`, the SHA-1, and their line ends.
        socket.read_exact(&mut [0; 5 + 42])?;
    }
    let (mut acquires, mut releases) = (Vec::new(), Vec::new());
    for number in 0..width {
        let (name, owner) = (
            format!("raw:{number}"),
            format!("01234567-89ab-cdef-0123-456789abcdef:{number}"),
        );
        let token = format!("steadlock:{{{name}}}:token");
        let channel = format!("redisson_lock__channel:{{{name}}}");
        let (acquire, release) = (Script::LockAcquire.sha1(), Script::LockRelease.sha1());
        acquires.extend(encode(&["EVALSHA", acquire, "2", &name, &token, "30000", &owner]));
        releases.extend(encode(&["EVALSHA", release, "1", &name, &owner, &channel]));
    }
    // A grant is `*2`, `:1`, `$16` and a token of 16 digits. A release is `*2`, `:1`, `:0`.
    let mut granted = vec![0; width * (4 + 4 + 5 + 18)];
    let mut released = vec![0; width * (4 + 4 + 4)];
    Ok(Box::new(move |length| {
        let start = Instant::now();
        let mut pairs = 0_u32;
        while start.elapsed() < length {
            socket.write_all(&acquires)?;
            socket.read_exact(&mut granted)?;
            socket.write_all(&releases)?;
            socket.read_exact(&mut released)?;
            pairs += u32::try_from(width)?;
        }
        Ok(pairs)
    }))
}

fn encode(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).into_bytes());
    }
    bytes
}
