//! The observations that an observer of a client receives, and the client's log of a day with a failover.

mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use steadlock::host::{Acquire, Completion, Event, Host, Kind, Level, Line, LockRef, Op, Options};
use steadlock::observe::{Detail, Field, Observation, Observer, WaitOutcome};
use steadlock::{Client, ReleaseOutcome};
use support::{Redis, Server};

const PASSWORD: &str = "sesame-open-and-more";

/// A host that keeps a log.
struct Logged {
    host: Host,
    woken: mpsc::Receiver<()>,
    lines: Vec<Line>,
}

impl Logged {
    fn connect(options: Options) -> Self {
        let (wake, woken) = mpsc::channel();
        let host = Host::open(
            options,
            Box::new(move || {
                let _ = wake.send(());
            }),
        )
        .expect("a host");
        host.wait_connected().expect("connected");
        Self {
            host,
            woken,
            lines: Vec::new(),
        }
    }

    fn acquire(&self, name: &str, lease_ms: Option<f64>) {
        let acquire = Acquire {
            lock: LockRef::One(Kind::Lock, name.into()),
            wait_ms: Some(0.0),
            lease_ms,
            ..Acquire::default()
        };
        let mut pending = self.host.start(Op::Acquire(acquire));
        let granted = pending.wait(Duration::from_secs(10));
        assert!(matches!(granted, Some(Ok(Completion::Granted(_)))), "{granted:?}");
    }

    /// Waits for a line that begins with `start`, and returns it.
    fn line(&mut self, start: &str) -> String {
        let began = Instant::now();
        loop {
            let known = self
                .lines
                .iter()
                .map(ToString::to_string)
                .find(|line| line.starts_with(start));
            if let Some(line) = known {
                return line;
            }
            let left = Duration::from_secs(20).saturating_sub(began.elapsed());
            assert!(
                self.woken.recv_timeout(left).is_ok(),
                "no {start:?} in {:#?}",
                self.lines
            );
            let mut events = Vec::new();
            self.host.drain(&mut events);
            self.lines.extend(events.into_iter().filter_map(|event| match event {
                Event::Observed(line) => Some(*line),
                Event::Completed { .. } | Event::Lost { .. } => None,
            }));
        }
    }

    fn position(&self, start: &str) -> usize {
        let mut lines = self.lines.iter().map(ToString::to_string);
        lines
            .position(|line| line.starts_with(start))
            .expect("the line is there")
    }
}

#[test]
fn the_log_level_of_a_running_client_can_be_raised_and_lowered() {
    let mut redis = Redis::start();
    let server = format!("127.0.0.1:{}", redis.port);
    // The log is off when the client is made.
    let mut client = Logged::connect(Options {
        url: Some(redis.url()),
        log: None,
        ..Options::default()
    });
    client.acquire("quiet", None);
    client.host.set_log(Some(Level::Debug));
    client.acquire("logged", None);
    let granted = client.line("lock \"logged\" is held");
    client.host.set_log(Some(Level::Error));
    client.acquire("quiet again", Some(300.0));
    client.host.set_log(Some(Level::Info));
    // The connection is older than the log. Its loss must be reported as new, not as "still" missing.
    redis.stop();
    client.line(&format!("the connection to {server} is lost"));
    client.line("lock \"quiet again\" is lost");
    let lines: Vec<String> = client.lines.iter().map(ToString::to_string).collect();
    let mentions_quiet = |line: &String| line.contains("quiet") && !line.contains("is lost");
    assert!(!lines.iter().any(mentions_quiet), "{granted} {lines:#?}");
}

#[test]
fn the_log_tells_a_failover_in_order() {
    let mut redis = Redis::start_with(&[], Some(PASSWORD));
    let server = format!("127.0.0.1:{}", redis.port);
    let mut client = Logged::connect(Options {
        url: Some(redis.url()),
        lease_ms: Some(4_000.0),
        key_prefix: Some("shop:".into()),
        log: Some(Level::Info),
        ..Options::default()
    });
    client.acquire("stock:42", None);
    client.acquire("report", Some(2_000.0));
    assert!(
        client.lines.is_empty(),
        "a log without trouble has no lines: {:?}",
        client.lines
    );

    // The server dies and starts again without its data, like a promoted replica that had not received them.
    redis.stop();
    let away = client.line(&format!("the connection to {server}"));
    redis.start_again();
    let back = client.line(&format!("connected to {server} again"));
    let removed = client.line("lock \"stock:42\" is lost");
    let expired = client.line("lock \"report\" is lost");
    assert!(back.contains(" after "), "{back}");
    assert!(
        removed.contains(&format!(": {server} has no record of it any more (a failover")),
        "{removed}"
    );
    assert!(expired.ends_with("its fixed lease of 2 s is over"), "{expired}");

    // The server dies again, and stays away for longer than the lease.
    client.lines.clear();
    client.acquire("stock:43", None);
    redis.stop();
    let failing = client.line("a renewal of lock \"stock:43\"");
    let unrenewed = client.line("lock \"stock:43\" is lost");
    assert!(failing.contains(" of its lease are left"), "{failing}");
    assert!(
        unrenewed.contains(&format!(
            ": it expired, as {server} confirmed no renewal for its lease of 4 s: not connected"
        )),
        "{unrenewed}"
    );
    let lost = client.position("lock \"stock:43\" is lost");
    assert!(client.position("a renewal of lock") < lost);
    assert_eq!(client.lines[lost].level(), Level::Error);
    for line in [away, back, removed, expired, failing, unrenewed] {
        println!("{line}");
    }
    for line in &client.lines {
        let all = format!("{line} {:?} {line:?}", line.fields());
        assert!(!all.contains("sesame"), "{all}");
        assert!(!all.contains("shop:"), "{all}");
    }
    client.host.close_blocking();
}

/// Control characters of another program's data could hide lines of a log, or forge some.
#[test]
fn the_owner_text_of_another_program_stays_within_one_log_line() {
    const CONTROL: [char; 3] = ['\n', '\u{1b}', '\u{202e}'];
    const OWNER: &str = "a\nERROR all is lost\u{1b}[2J\u{202e}";
    let redis = Redis::start();
    let mut client = Logged::connect(Options {
        url: Some(redis.url()),
        lease_ms: Some(900.0),
        log: Some(Level::Debug),
        ..Options::default()
    });
    redis.run(&["SET", "busy", OWNER]);
    redis.run(&["HSET", "odd", OWNER, "1"]);
    let refused = [(Kind::Mutex, "busy", 500.0), (Kind::Lock, "odd", 0.0)].map(|(kind, name, wait)| {
        let mut pending = client.host.start(Op::Acquire(Acquire {
            lock: LockRef::One(kind, name.into()),
            wait_ms: Some(wait),
            ..Acquire::default()
        }));
        match pending.wait(Duration::from_secs(10)) {
            Some(Err(error) | Ok(Completion::NotGranted(error))) => error,
            other => panic!("{name}: {other:?}"),
        }
    });
    for error in refused {
        let text = error.to_string();
        assert!(text.contains("ERROR all is lost\\u{1b}[2J\\u{202e}"), "{text:?}");
        assert!(!text.contains(CONTROL), "{text:?}");
    }
    client.line("mutex \"busy\" was not granted within");
    client.line("lock \"odd\" failed after");
    // The same text as the owner in a record that replaced ours, and as the name of a lock.
    client.acquire("stolen", None);
    redis.run(&["DEL", "stolen"]);
    redis.run(&["HSET", "stolen", OWNER, "1"]);
    client.line("lock \"stolen\" is lost");
    client.acquire(OWNER, None);
    client.line("lock \"a\\nERROR all is lost\\u{1b}[2J\\u{202e}\" is held");
    for line in &client.lines {
        let mut texts = vec![line.to_string()];
        texts.extend(line.fields().into_iter().filter_map(|(name, field)| match field {
            Field::Text(text) if name != "lock" => Some(text),
            Field::Text(_) | Field::Number(_) => None,
        }));
        for text in texts {
            assert!(!text.contains(CONTROL), "{text:?}");
        }
    }
    client.host.close_blocking();
}

/// An observer that keeps every observation.
#[derive(Clone, Default)]
struct RecordedObservations(Arc<Mutex<Vec<Observation>>>);

impl Observer for RecordedObservations {
    fn observe(&self, observation: &Observation) {
        self.0.lock().unwrap().push(observation.clone());
    }
}

impl RecordedObservations {
    fn events(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(Observation::event).collect()
    }
}

#[tokio::test]
async fn an_observer_gets_waits_attempts_grants_and_releases() {
    let (server, observer) = (Server::memory(), RecordedObservations::default());
    let client = Client::builder()
        .url(server.url())
        .observer(observer.clone())
        .connect()
        .await
        .unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let busy = client.lock("a").wait(Duration::from_millis(400)).acquire().await;
    assert!(busy.is_err());
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    client.close().await;

    let events = observer.events();
    assert_eq!(events[..2], ["connected", "connected"]);
    assert_eq!(events[2..6], ["wait_began", "attempt", "wait_ended", "granted"]);
    assert_eq!(events.last(), Some(&"released"));
    let observations = observer.0.lock().unwrap();
    let timed_out = observations.iter().find_map(|observation| match observation {
        Observation::WaitEnded {
            outcome: WaitOutcome::TimedOut,
            waited,
            lock,
        } => Some((*waited, lock.kind)),
        _ => None,
    });
    assert!(timed_out.is_some_and(|(waited, kind)| waited >= Duration::from_millis(50) && kind == "lock"));
}

/// An observer that asks only for observations of trouble, and panics at the first one.
struct PanickingObserver(Arc<Mutex<u32>>);

impl Observer for PanickingObserver {
    fn observe(&self, _: &Observation) {
        *self.0.lock().unwrap() += 1;
        panic!("a defect of the program");
    }

    fn detail(&self) -> Detail {
        Detail::Trouble
    }
}

#[tokio::test]
async fn a_panicking_observer_is_not_called_again_and_breaks_nothing() {
    let (server, calls) = (Server::memory(), Arc::new(Mutex::new(0)));
    let client = Client::builder()
        .url(server.url())
        .observer(PanickingObserver(Arc::clone(&calls)))
        .connect()
        .await
        .unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    assert!(lease.is_valid());
    client.close().await;
    assert!(*calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner) <= 1);
}

/// Tests of the lines that the `tracing` listener writes.
#[cfg(feature = "tracing")]
mod tracing_listener {
    use std::fmt::Debug;

    use steadlock::observe::Tracing;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    #[derive(Clone, Default)]
    struct RecordedEvents(Arc<Mutex<Vec<String>>>);

    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0 += &format!(" {}={value:?}", field.name());
        }
    }

    impl Subscriber for RecordedEvents {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "steadlock" && *metadata.level() <= tracing::Level::INFO
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(event.metadata().level().to_string());
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[tokio::test]
    async fn it_records_a_loss_a_disconnect_and_a_reconnect() {
        let written = RecordedEvents::default();
        tracing::subscriber::set_global_default(written.clone()).unwrap();
        let mut redis = Redis::start_with(&[], Some(PASSWORD));
        let client = Client::builder()
            .url(redis.url())
            .lease(Duration::from_millis(900))
            .observer(Tracing::new())
            .connect()
            .await
            .unwrap();
        let lease = client.lock("stock").acquire().await.unwrap();
        redis.stop();
        redis.start_again();
        lease.lost().await;
        client.close().await;
        let lines = written.0.lock().unwrap().clone();
        for (level, event) in [("WARN", "disconnected"), ("INFO", "connected"), ("ERROR", "lost")] {
            let is_wanted = |line: &String| line.starts_with(level) && line.contains(&format!("event={event:?}"));
            assert!(lines.iter().any(is_wanted), "{event} in {lines:#?}");
        }
        assert!(!lines.concat().contains("sesame"), "{lines:#?}");
    }
}
