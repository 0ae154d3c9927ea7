//! The work of clients and operators with locks, in named steps: the failed step shows the effect of a missing right.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::future::{LocalBoxFuture, try_join, try_join_all};
use steadlock::{Client, Error, ErrorKind, Lease, Lock, OnFailure, ReleaseOutcome, Run, SkipReason, Started, Term};
use steadlock_protocol::Reply;
use tokio::task::JoinHandle;

use crate::support::Redis;

/// A step with an unexpected result.
#[derive(Debug)]
pub struct Failure {
    pub step: String,
    /// The client's error, or `None` if something was late or did not happen.
    pub error: Option<Error>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{}: {error}", self.step),
            None => write!(f, "{}: the check failed", self.step),
        }
    }
}

/// The way in which waiters learn of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// By a notification. The poll interval is so long that a poll would be too late.
    Messages,
    /// By a notification or a poll.
    Polls,
}

impl Notice {
    fn wait_limit(self) -> Duration {
        match self {
            Self::Messages => Duration::from_secs(4),
            // Some tests poll the server often, which slows everything down.
            Self::Polls => Duration::from_secs(30),
        }
    }

    pub async fn connect(self, url: &str, prefix: &str) -> Result<Client, Failure> {
        let mut client = Client::builder().url(url).key_prefix(prefix);
        if self == Self::Messages {
            client = client.retry_interval(Duration::from_secs(5), Duration::from_secs(5));
        }
        in_step("connect", client.connect()).await
    }
}

/// Two clients of one server, and the beginning of their lock names.
pub struct Work<'a> {
    server: &'a Redis,
    notice: Notice,
    one: Client,
    two: Client,
    name: String,
}

/// Does everything that clients do with locks, under names that begin with `name`.
pub async fn run_as_client(server: &Redis, url: &str, prefix: &str, name: &str, notice: Notice) -> Result<(), Failure> {
    let work = Work {
        server,
        notice,
        one: notice.connect(url, prefix).await?,
        two: notice.connect(url, prefix).await?,
        name: name.into(),
    };
    let mut all: Vec<LocalBoxFuture<'_, Result<(), Failure>>> = Vec::new();
    for tag in ["", "{tag}"] {
        for kind in ["lock", "mutex", "fair_lock", "write_lock"] {
            all.push(Box::pin(work.exclusive(kind, tag)));
        }
        all.push(Box::pin(work.expired_lock(tag)));
        all.push(Box::pin(work.readers_and_a_writer(tag)));
        all.push(Box::pin(work.permits(tag)));
        all.push(Box::pin(work.fair_turns(tag)));
        all.push(Box::pin(work.runs(tag)));
        all.push(Box::pin(work.terms(tag)));
    }
    try_join_all(all).await?;
    if notice == Notice::Messages {
        work.no_subscription_is_left().await?;
    }
    work.one.close().await;
    work.two.close().await;
    Ok(())
}

impl Work<'_> {
    /// Tests an exclusive kind of lock, whose waiter is notified.
    async fn exclusive(&self, kind: &str, tag: &str) -> Result<(), Failure> {
        let at = |step: &str| format!("{kind}{tag}: {step}");
        let name = format!("{}-{kind}{tag}", self.name);
        let (first_lock, other) = (lock(&self.one, kind, &name), lock(&self.two, kind, &name));
        let first = in_step(at("acquire"), first_lock.acquire()).await?;
        let token = first.token();
        expect(at("a fencing token"), token.is_some())?;
        in_step(at("extend"), first.extend(Some(Duration::from_secs(40)))).await?;
        expect(at("excludes"), in_step(at("try"), other.try_acquire()).await?.is_none())?;
        expect(at("is seen"), in_step(at("inspect"), other.is_locked()).await?)?;
        let waiter = self.waiter(&other, &name).await;
        release(at("release"), first).await?;
        let second = await_grant(at("wait"), waiter).await?;
        expect(at("a higher token"), second.token() > token)?;
        release(at("second release"), second).await
    }

    async fn expired_lock(&self, tag: &str) -> Result<(), Failure> {
        let name = format!("{}-expired{tag}", self.name);
        let lock = self.one.lock(&name).lease(Duration::from_millis(150));
        let lease = in_step("expired: acquire", lock.acquire()).await?;
        lease.lost().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let outcome = in_step("expired: release", lease.release()).await?;
        expect("expired: the release reports it", outcome == ReleaseOutcome::Expired)?;
        let again = in_step("expired: acquire again", self.two.lock(&name).acquire()).await?;
        release("expired: release", again).await
    }

    async fn readers_and_a_writer(&self, tag: &str) -> Result<(), Failure> {
        let name = format!("{}-readers{tag}", self.name);
        let (one, two) = (self.one.read_write_lock(&name), self.two.read_write_lock(&name));
        let writing = in_step("write", one.write.acquire()).await?;
        let reader = self.waiter(&two.read, &name).await;
        release("write: release", writing).await?;
        let reading = await_grant("read: wait", reader).await?;
        let other_reader = in_step("read with another reader", one.read.try_acquire()).await?;
        in_step("read: extend", reading.extend(Some(Duration::from_secs(40)))).await?;
        expect("read: is seen", in_step("read: inspect", one.read.is_locked()).await?)?;
        let writer = self.waiter(&one.write, &name).await;
        release("read: release", reading).await?;
        if let Some(other_reader) = other_reader {
            release("read: release", other_reader).await?;
        }
        let writing = await_grant("write: wait", writer).await?;
        let inside = in_step("read inside", one.read.within(&writing).acquire()).await?;
        release("write: release", writing).await?;
        release("read inside: release", inside).await
    }

    async fn permits(&self, tag: &str) -> Result<(), Failure> {
        let name = format!("{}-permits{tag}", self.name);
        let (one, two) = (self.one.semaphore(&name, 3), self.two.semaphore(&name, 3));
        let two_permits = in_step("permits: acquire", one.acquire(2)).await?;
        expect(
            "permits: one is left",
            in_step("permits: available", two.available()).await? == 1,
        )?;
        expect(
            "permits: no more",
            in_step("permits: try", two.try_acquire(2)).await?.is_none(),
        )?;
        in_step("permits: extend", two_permits.extend(Some(Duration::from_secs(40)))).await?;
        let waiter = self.waiter(&two.permits(3), &name).await;
        release("permits: release", two_permits).await?;
        let all = await_grant("permits: wait", waiter).await?;
        release("permits: release", all).await
    }

    /// Tests that waiters of both clients are served in turn, after another one has given up.
    async fn fair_turns(&self, tag: &str) -> Result<(), Failure> {
        let name = format!("{}-turns{tag}", self.name);
        let held = in_step("fair: acquire", self.one.fair_lock(&name).acquire()).await?;
        let short = self.two.fair_lock(&name).wait(Duration::from_millis(400));
        expect(
            "fair: gives up",
            in_step("fair: give up", short.try_acquire()).await?.is_none(),
        )?;
        self.queue_has(0, &name).await?;
        let second = self.waiter(&self.two.fair_lock(&name), &name).await;
        self.queue_has(1, &name).await?;
        let third = self.waiter(&self.one.fair_lock(&name), &name).await;
        self.queue_has(2, &name).await?;
        release("fair: release", held).await?;
        // Waits for both concurrently. A waiter that has made no attempt for 3 s is skipped. After a stall of the
        // machine, the third one may therefore hold the lock before the second.
        let served = |step: &'static str, waiter| async move {
            release("fair: release", await_grant(step, waiter).await?).await
        };
        try_join(served("fair: second", second), served("fair: third", third)).await?;
        Ok(())
    }

    /// Tests runs of a job: one begins, another is skipped, and a key is done.
    async fn runs(&self, tag: &str) -> Result<(), Failure> {
        let name = format!("{}-runs{tag}", self.name);
        let job = |client: &Client| client.once(&name).key("a:{b}").on_failure(OnFailure::Keep);
        let run = begin("run: start", &job(&self.one)).await?;
        in_step("run: extend", run.extend(Some(Duration::from_secs(40)))).await?;
        skips("run: another is skipped", &self.two.once(&name), SkipReason::Running).await?;
        in_step("run: end", run.fail()).await?;
        skips("run: the key is done", &job(&self.two), SkipReason::Done).await?;
        let last = in_step("run: history", self.two.once(&name).last_run()).await?;
        expect("run: has a history", last.is_some())?;
        let unused = begin("run: start again", &self.two.once(&name)).await?;
        drop(unused);
        Ok(())
    }

    /// Tests terms of a leader: candidates, an observer, and a chosen successor.
    async fn terms(&self, tag: &str) -> Result<(), Failure> {
        let name = format!("{}-terms{tag}", self.name);
        let (one, two) = (self.one.leader(&name), self.two.leader(&name));
        let term = in_step("term: campaign", one.campaign()).await?;
        let mut observer = two.observe();
        let seen = in_step("term: observe", observer.next()).await?;
        expect("term: is seen", seen.number() == term.number())?;
        let campaign = |leader: &steadlock::Leader| {
            let leader = leader.clone().wait(self.notice.wait_limit());
            tokio::spawn(async move { leader.campaign().await })
        };
        let first = campaign(&one);
        self.has_candidates(&two, 1).await?;
        let second = campaign(&two);
        let candidates = self.has_candidates(&two, 2).await?;
        in_step("term: resign", term.resign_to(&candidates[1])).await?;
        let second = in_term("term: the second candidate leads", second).await?;
        in_step("term: observe a change", observer.next()).await?;
        in_step("term: resign", second.resign()).await?;
        let first = in_term("term: the first candidate leads", first).await?;
        in_step("term: resign", first.resign()).await?;
        Ok(())
    }

    /// Returns the candidates once there are `count`.
    async fn has_candidates(
        &self,
        leader: &steadlock::Leader,
        count: usize,
    ) -> Result<Vec<steadlock::Candidate>, Failure> {
        let start = Instant::now();
        loop {
            let candidates = in_step("term: inspect", leader.current()).await?.candidates;
            if candidates.len() == count {
                return Ok(candidates);
            }
            expect(
                "term: candidates are in the queue",
                start.elapsed() < Duration::from_secs(4),
            )?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts a waiter. Returns once it listens to the name's channels, or after 400 ms, as it may have no right to.
    async fn waiter(&self, lock: &Lock, name: &str) -> JoinHandle<Result<Lease, Error>> {
        wait(self.server, lock, name, self.notice).await
    }

    /// Checks that the fair lock's queue soon has `count` waiters.
    async fn queue_has(&self, count: usize, name: &str) -> Result<(), Failure> {
        let has_count = || length_of_queue(self.server, name) == count;
        expect(
            format!("fair: {count} wait"),
            within(Duration::from_secs(4), has_count).await,
        )
    }

    async fn no_subscription_is_left(&self) -> Result<(), Failure> {
        let is_unsubscribed = || channels_of(self.server, &self.name).is_empty();
        expect(
            "no subscription is left at the end",
            within(Duration::from_secs(4), is_unsubscribed).await,
        )
    }
}

async fn wait(server: &Redis, lock: &Lock, name: &str, notice: Notice) -> JoinHandle<Result<Lease, Error>> {
    let lock = lock.clone().wait(notice.wait_limit());
    let waiter = tokio::spawn(async move { lock.acquire().await });
    within(Duration::from_millis(400), || !channels_of(server, name).is_empty()).await;
    waiter
}

async fn await_grant(step: impl Into<String>, waiter: JoinHandle<Result<Lease, Error>>) -> Result<Lease, Failure> {
    let step = step.into();
    waiter.await.expect("no panic").map_err(|error| Failure {
        step,
        // Only `Misconfigured` names the refused right. Other errors just mean that no notification arrived.
        error: Some(error).filter(|error| error.kind() == ErrorKind::Misconfigured),
    })
}

/// Begins a run of a job, which must be granted.
pub async fn begin(step: &str, job: &steadlock::Once) -> Result<Run, Failure> {
    match in_step(step, job.start()).await? {
        Started::Run(run) => Ok(run),
        Started::Skipped(skipped) => panic!("{step}: {skipped}"),
    }
}

async fn skips(step: &str, job: &steadlock::Once, reason: SkipReason) -> Result<(), Failure> {
    let started = in_step(step, job.start()).await?;
    let is_right = matches!(started, Started::Skipped(skipped) if skipped.reason() == reason);
    expect(step, is_right)
}

async fn in_term(step: &str, campaign: JoinHandle<Result<Term, Error>>) -> Result<Term, Failure> {
    campaign.await.expect("no panic").map_err(|error| Failure {
        step: step.into(),
        error: Some(error).filter(|error| error.kind() == ErrorKind::Misconfigured),
    })
}

/// Does everything that operators do with the locks of other clients. `holder` is the client that holds them.
pub async fn run_as_operator(server: &Redis, url: &str, holder: &Client, name: &str) -> Result<(), Failure> {
    let operator = Notice::Messages.connect(url, "").await?;
    let mut all: Vec<LocalBoxFuture<'_, Result<(), Failure>>> = Vec::new();
    for tag in ["", "{tag}"] {
        for kind in KINDS {
            all.push(Box::pin(force_release(
                server,
                &operator,
                holder,
                kind,
                format!("{name}-{kind}{tag}"),
            )));
        }
        all.push(Box::pin(change_limit(
            server,
            &operator,
            holder,
            format!("{name}-limit{tag}"),
        )));
        all.push(Box::pin(end_run_and_term(
            &operator,
            holder,
            format!("{name}-run{tag}"),
        )));
    }
    try_join_all(all).await?;
    operator.close().await;
    Ok(())
}

async fn force_release(
    server: &Redis,
    operator: &Client,
    holder: &Client,
    kind: &str,
    name: String,
) -> Result<(), Failure> {
    let at = |step: &str| format!("{kind}: {step}");
    let other = Notice::Messages.connect(&server.url(), "").await?;
    let _held = in_step(at("acquire"), lock(holder, kind, &name).acquire()).await?;
    let seen = lock(operator, kind, &name);
    expect(at("is seen"), in_step(at("inspect"), seen.is_locked()).await?)?;
    // A reader does not block other readers, so a writer waits for it.
    let waiting_kind = if kind == "read_lock" { "write_lock" } else { kind };
    let waiter = wait(server, &lock(&other, waiting_kind, &name), &name, Notice::Messages).await;
    expect(
        at("is forced"),
        in_step(at("force"), operator.force_release(&seen)).await?,
    )?;
    let next = await_grant(at("wait"), waiter).await?;
    release(at("release"), next).await?;
    expect(at("is free"), !in_step(at("inspect"), seen.is_locked()).await?)?;
    other.close().await;
    Ok(())
}

/// Forces the ends of a run and of a term, and of both once nobody has them.
async fn end_run_and_term(operator: &Client, holder: &Client, name: String) -> Result<(), Failure> {
    let (job, leader) = (operator.once(&name), operator.leader(&name));
    let run = begin("run: start", &holder.once(&name)).await?;
    let term = in_step("term: campaign", holder.leader(&name).campaign()).await?;
    for is_held in [true, false] {
        let last = in_step("run: history", job.last_run()).await?;
        expect("run: has a history", last.is_some())?;
        let seen = in_step("term: inspect", leader.current()).await?;
        expect("term: is seen", seen.term.is_some() == is_held)?;
        for lock in [job.as_lock(), leader.as_lock()] {
            let was_held = in_step("force", operator.force_release(&lock)).await?;
            expect("was held", was_held == is_held)?;
        }
    }
    drop((run, term));
    Ok(())
}

async fn change_limit(server: &Redis, operator: &Client, holder: &Client, name: String) -> Result<(), Failure> {
    let other = Notice::Messages.connect(&server.url(), "").await?;
    let held = in_step("limit: acquire", holder.semaphore(&name, 2).acquire(1)).await?;
    let available = in_step("limit: inspect", operator.semaphore(&name, 2).available()).await?;
    expect("limit: one is left", available == 1)?;
    let waiter = wait(server, &other.semaphore(&name, 2).permits(2), &name, Notice::Messages).await;
    let changed = in_step("limit: set_limit", operator.set_limit(&name, 5)).await?;
    expect("limit: is changed", changed)?;
    let error_kind = waiter.await.expect("no panic").err().map(|error| error.kind());
    expect(
        "limit: the waiter is refused",
        error_kind == Some(ErrorKind::Misconfigured),
    )?;
    release("limit: release", held).await?;
    other.close().await;
    Ok(())
}

/// Does everything that a user who only inspects locks does.
pub async fn run_as_watcher(url: &str, holder: &Client, name: &str) -> Result<(), Failure> {
    let watcher = Notice::Messages.connect(url, "").await?;
    for tag in ["", "{tag}"] {
        for kind in KINDS {
            let name = format!("{name}-{kind}{tag}");
            let seen = lock(&watcher, kind, &name);
            expect("is free", !in_step("inspect", seen.is_locked()).await?)?;
            let held = in_step("acquire", lock(holder, kind, &name).acquire()).await?;
            expect("is seen", in_step("inspect", seen.is_locked()).await?)?;
            release("release", held).await?;
        }
        let name = format!("{name}-permits{tag}");
        let held = in_step("acquire", holder.semaphore(&name, 3).acquire(2)).await?;
        let left = in_step("available", watcher.semaphore(&name, 3).available()).await?;
        expect("one is left", left == 1)?;
        release("release", held).await?;
        let name = format!("{name}-run{tag}");
        let job = watcher.once(&name);
        let last_run = || in_step("run: history", job.last_run());
        expect("run: no history", last_run().await?.is_none())?;
        let run = begin("run: start", &holder.once(&name)).await?;
        expect("run: has a history", last_run().await?.is_some())?;
        in_step("run: end", run.succeed()).await?;
        expect("run: keeps its history", last_run().await?.is_some())?;
        let term = in_step("term: campaign", holder.leader(&name).campaign()).await?;
        let seen = in_step("term: inspect", watcher.leader(&name).current()).await?;
        expect("term: is seen", seen.number() == term.number())?;
        in_step("term: resign", term.resign()).await?;
    }
    watcher.close().await;
    Ok(())
}

/// Returns a lock of this kind.
pub fn lock(client: &Client, kind: &str, name: &str) -> Lock {
    match kind {
        "lock" => client.lock(name),
        "mutex" => client.mutex(name),
        "fair_lock" => client.fair_lock(name),
        "read_lock" => client.read_write_lock(name).read,
        "write_lock" => client.read_write_lock(name).write,
        "semaphore" => client.semaphore(name, 2).permits(2),
        other => panic!("no kind {other}"),
    }
}

pub const KINDS: [&str; 6] = ["lock", "mutex", "fair_lock", "read_lock", "write_lock", "semaphore"];

/// Returns the channels with subscribers whose names contain this text.
pub fn channels_of(server: &Redis, name: &str) -> Vec<String> {
    strings(server.run_on_kept_connection(&["PUBSUB", "CHANNELS", &format!("*{name}*")]))
}

/// Returns the number of waiters in the fair lock's queue on the server.
fn length_of_queue(server: &Redis, name: &str) -> usize {
    let queues = strings(server.run_on_kept_connection(&["KEYS", &format!("steadlock:*{name}*:fair")]));
    let lengths = queues
        .iter()
        .map(|key| match server.run_on_kept_connection(&["ZCARD", key]) {
            Reply::Int(length) => usize::try_from(length).expect("a length"),
            other => panic!("{other:?}"),
        });
    lengths.sum()
}

pub fn strings(reply: Reply) -> Vec<String> {
    let Reply::Array(items) = reply else {
        panic!("{reply:?} is no list");
    };
    let text = |item| match item {
        Reply::Bytes(bytes) => String::from_utf8(bytes).expect("text"),
        other => panic!("{other:?} is no text"),
    };
    items.into_iter().map(text).collect()
}

pub async fn in_step<T>(step: impl Into<String>, action: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    action.await.map_err(|error| Failure {
        step: step.into(),
        error: Some(error),
    })
}

pub fn expect(step: impl Into<String>, holds: bool) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(Failure {
            step: step.into(),
            error: None,
        }),
    }
}

pub async fn release(step: impl Into<String>, lease: Lease) -> Result<(), Failure> {
    let step = step.into();
    let outcome = in_step(step.clone(), lease.release()).await?;
    expect(format!("{step}: {outcome:?}"), outcome == ReleaseOutcome::Released)
}

/// Returns whether a condition becomes true within the time.
pub async fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    // Makes a minimum number of checks, because the machine may stall for the whole time. The checks become rarer,
    // because a hundred tasks that check at the same time would slow the server down.
    let (mut checks, mut gap) = (0, Duration::from_millis(5));
    while checks < 8 || Instant::now() < end {
        if holds() {
            return true;
        }
        checks += 1;
        tokio::time::sleep(gap).await;
        gap = (2 * gap).min(Duration::from_millis(100));
    }
    holds()
}
