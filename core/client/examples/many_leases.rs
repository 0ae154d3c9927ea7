//! Measures the cost of many auto-renewed leases of one client: `many_leases URL NUMBER SECONDS`. See
//! ci/bench/README.md.

use std::error::Error;
use std::time::{Duration, Instant};

use steadlock::{Client, Lease};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The number of tasks that acquire at the same time.
const WORKERS: usize = 64;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, number, seconds] = args.as_slice() else {
        return Err("many_leases URL NUMBER SECONDS".into());
    };
    let (number, length) = (number.parse()?, Duration::from_secs(seconds.parse()?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(url, number, length))
}

async fn run(url: &str, number: usize, length: Duration) -> Outcome<()> {
    let client = Client::connect(url).await?;
    // The first lock creates the parts that every client has, whose memory must not count as that of the leases.
    client.lock("first").acquire().await?.release().await?;
    let empty = memory()?;
    let start = Instant::now();
    let leases = acquire(&client, number).await?;
    println!("acquired in      {:.1} s", start.elapsed().as_secs_f64());
    println!("memory for each  {} bytes", (memory()? - empty) / number);

    // The measurement begins here, after all leases were acquired: it covers renewals only.
    let (start, cpu) = (Instant::now(), processor_time()?);
    let mut least = Duration::MAX;
    while start.elapsed() < length {
        tokio::time::sleep(Duration::from_secs(3)).await;
        least = leases.iter().map(Lease::remaining).fold(least, Duration::min);
    }
    let used = processor_time()?.saturating_sub(cpu);
    println!(
        "processor        {:.1} % of one",
        100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64()
    );
    println!("least remaining  {:.1} s of 30", least.as_secs_f64());
    println!(
        "lost             {}",
        leases.iter().filter(|lease| !lease.is_valid()).count()
    );
    // The records end by their TTLs. Releasing this many leases would be another measurement.
    std::process::exit(0);
}

async fn acquire(client: &Client, number: usize) -> Outcome<Vec<Lease>> {
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut leases = Vec::new();
                for lock in (worker..number).step_by(WORKERS) {
                    leases.push(client.lock(format!("order:{lock}")).acquire().await?);
                }
                Ok::<_, steadlock::Error>(leases)
            })
        })
        .collect();
    let mut leases = Vec::new();
    for worker in workers {
        leases.extend(worker.await??);
    }
    Ok(leases)
}

/// Returns the memory of this process, in bytes.
fn memory() -> Outcome<usize> {
    let pages: usize = field("/proc/self/statm", 1)?.parse()?;
    Ok(pages * 4_096)
}

/// Returns the processor time of this process.
fn processor_time() -> Outcome<Duration> {
    // The two fields are hundredths of a second in user space and in the kernel. Fields can be split at spaces, because
    // the program's name, the only text among them, has none.
    let ticks: u64 = field("/proc/self/stat", 13)?.parse::<u64>()? + field("/proc/self/stat", 14)?.parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

fn field(file: &str, number: usize) -> Outcome<String> {
    let text = std::fs::read_to_string(file)?;
    let field = text.split_whitespace().nth(number).ok_or("no such field")?;
    Ok(field.to_owned())
}
