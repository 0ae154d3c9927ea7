//! Tests of jobs on the embedded store and on a real redis-server.

mod support;

use std::time::Duration;

use steadlock::{
    Client, Error, ErrorKind, LostReason, OnFailure, Once, Run, RunOutcome, RunResult, RunState, SkipReason, Skipped,
    Started,
};
use steadlock_protocol::Reply;
use support::{Server, eventually};

const SOON: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(3_600);

/// Runs a scenario on each kind of server, with two clients of that server.
async fn on_every_server<F: AsyncFn(&Server, Client, Client)>(scenario: F) {
    for server in [Server::memory(), Server::redis()] {
        let url = server.url();
        let (one, two) = (
            Client::connect(&url).await.unwrap(),
            Client::connect(&url).await.unwrap(),
        );
        scenario(&server, one.clone(), two.clone()).await;
        one.close().await;
        two.close().await;
    }
}

/// Returns the TTL of a key in milliseconds: -1 without a TTL, -2 if there is no such key.
fn pttl(server: &Server, key: &str) -> i64 {
    match server.run(&["PTTL", key]) {
        Reply::Int(left) => left,
        other => panic!("{other:?}"),
    }
}

async fn begun(job: &Once) -> Run {
    match job.start().await.unwrap() {
        Started::Run(run) => run,
        Started::Skipped(skipped) => panic!("{skipped}"),
    }
}

async fn skipped(job: &Once) -> Skipped {
    match job.start().await.unwrap() {
        Started::Run(run) => panic!("{run:?}"),
        Started::Skipped(skipped) => skipped,
    }
}

/// Waits until the job can run again, and ends that run as failed.
async fn runs_again(job: &Once) {
    let start = std::time::Instant::now();
    loop {
        match job.start().await.unwrap() {
            Started::Run(run) => {
                run.fail().await.unwrap();
                return;
            }
            Started::Skipped(skipped) => assert!(start.elapsed() < SOON, "{skipped}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn at_most_one_run_is_under_way_and_others_learn_of_it() {
    on_every_server(async |_, one, two| {
        let run = begun(&one.once("j")).await;
        assert!(run.token().unwrap() > 0 && run.is_valid());
        for other in [&one, &two] {
            let skipped = skipped(&other.once("j")).await;
            assert_eq!(skipped.reason(), SkipReason::Running);
            assert!(skipped.since().is_some() && skipped.took().is_none());
            let by = skipped.by().unwrap();
            assert_eq!(by.client.as_ref().unwrap().pid, std::process::id());
            assert!(by.remaining.is_some_and(|left| !left.is_zero()));
            assert!(skipped.to_string().contains("has been running it for"), "{skipped}");
            assert_eq!(skipped.into_error().kind(), ErrorKind::Skipped);
        }
        let first = run.token();
        run.succeed().await.unwrap();
        let next = begun(&two.once("j")).await;
        assert!(next.token() > first);
        next.succeed().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn at_least_keeps_others_out_after_a_short_run() {
    on_every_server(async |server, one, two| {
        let job = |client: &Client, time| client.once("j").at_least(time);
        let ran = job(&one, LONG).run(async |_| 7).await.unwrap();
        assert!(matches!(ran, RunResult::Ran(7)));
        let late = skipped(&job(&two, LONG)).await;
        assert_eq!(late.reason(), SkipReason::Done);
        assert!(late.took().unwrap() < SOON, "{late}");
        let left = late.by().unwrap().remaining.unwrap();
        assert!(left > LONG - SOON && left <= LONG, "{left:?}");
        // An operator can let the job run again.
        assert!(two.force_release(&two.once("j").as_lock()).await.unwrap());
        job(&two, Duration::from_millis(300)).run(async |_| ()).await.unwrap();
        runs_again(&one.once("j")).await;
        assert_ne!(pttl(server, "steadlock:{j}:job"), -1);
    })
    .await;
}

#[tokio::test]
async fn a_failed_run_is_free_at_once_unless_it_is_kept() {
    on_every_server(async |_, one, two| {
        let job = one.once("j").at_least(LONG).key("monday");
        let failed = job.try_run(async |_| Err::<(), _>("disk full")).await.unwrap();
        assert!(matches!(failed, RunResult::Ran(Err("disk full"))));
        drop(begun(&job).await);
        runs_again(&two.once("j")).await;

        let kept = job.on_failure(OnFailure::Keep);
        let failed = kept.try_run(async |_| Err::<(), _>(())).await.unwrap();
        assert!(matches!(failed, RunResult::Ran(Err(()))));
        assert_eq!(skipped(&two.once("j")).await.reason(), SkipReason::Done);
        two.force_release(&two.once("j").as_lock()).await.unwrap();
        assert_eq!(skipped(&two.once("j").key("monday")).await.reason(), SkipReason::Done);
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_done_is_not_run_again_while_it_is_kept() {
    on_every_server(async |server, one, two| {
        one.once("orders").key("a:{42}").run(async |_| ()).await.unwrap();
        let again = skipped(&two.once("orders").key("a:{42}")).await;
        assert_eq!(again.reason(), SkipReason::Done);
        assert!(again.by().unwrap().remaining.unwrap() > Duration::from_secs(86_000));
        for other in ["a:{43}", "a", "42"] {
            let ran = two
                .once("orders")
                .key(other)
                .keep(LONG)
                .run(async |_| ())
                .await
                .unwrap();
            assert!(matches!(ran, RunResult::Ran(())), "{other}");
        }
        let left = pttl(server, "steadlock:{orders}:done-a%3A%7B42%7D");
        assert!(left > 86_000_000, "{left}");
        let short = two.once("orders").key("b").keep(Duration::from_millis(200));
        short.run(async |_| ()).await.unwrap();
        runs_again(&one.once("orders").key("b")).await;
    })
    .await;
}

#[tokio::test]
async fn the_last_runs_of_a_job_are_known() {
    on_every_server(async |_, one, two| {
        assert_eq!(one.once("j").last_run().await.unwrap(), None);
        let run = begun(&one.once("j")).await;
        let last = two.once("j").last_run().await.unwrap().unwrap();
        assert_eq!(
            (last.state, last.ended, last.succeeded),
            (RunState::Running, None, None)
        );
        assert_eq!(last.client.unwrap().pid, std::process::id());
        run.succeed().await.unwrap();
        let last = two.once("j").last_run().await.unwrap().unwrap();
        let ended = last.ended.unwrap();
        assert_eq!((last.state, ended.outcome), (RunState::Ended, RunOutcome::Succeeded));
        assert_eq!(last.succeeded, Some(ended.at));
        assert!(last.started.unwrap() <= ended.at);
        begun(&two.once("j")).await.fail().await.unwrap();
        let last = two.once("j").last_run().await.unwrap().unwrap();
        let failed = last.ended.unwrap();
        assert_eq!(failed.outcome, RunOutcome::Failed);
        assert_eq!(last.succeeded, Some(ended.at), "the last success stays known");
    })
    .await;
}

#[tokio::test]
async fn a_crashed_run_is_free_when_its_lease_ends() {
    on_every_server(async |server, one, two| {
        let run = begun(&one.once("j").lease(Duration::from_secs(1)).at_least(LONG)).await;
        // The record is moved away for a moment, so that the run is renewed no more.
        server.run(&["DEL", "steadlock:{j}:once"]);
        eventually("the loss is noticed", SOON, || run.lost_reason().is_some()).await;
        assert_eq!(run.lost_reason(), Some(LostReason::Removed));
        let last = two.once("j").last_run().await.unwrap().unwrap();
        assert_eq!(last.state, RunState::Crashed);
        assert!(run.succeed().await.unwrap().lost_reason().is_some());
        // The caller of a lost run is answered at once, and the server learns of the end a little later.
        let start = std::time::Instant::now();
        let ended = loop {
            match two.once("j").last_run().await.unwrap().unwrap().ended {
                Some(ended) => break ended,
                None => assert!(start.elapsed() < SOON, "the end is reported"),
            }
        };
        assert_eq!(ended.outcome, RunOutcome::Lost);
        runs_again(&two.once("j")).await;
    })
    .await;
}

#[tokio::test]
async fn a_job_whose_lease_is_lost_is_dropped() {
    on_every_server(async |server, one, _| {
        let job = one.once("j").lease(Duration::from_millis(600));
        let ran = job.run(async |_| {
            server.run(&["DEL", "steadlock:{j}:once"]);
            std::future::pending::<()>().await;
        });
        let error = ran.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    })
    .await;
}

#[tokio::test]
async fn what_is_out_of_its_range_is_refused_and_nothing_is_written() {
    on_every_server(async |server, one, _| {
        let job = || one.once("j");
        let day = Duration::from_secs(86_400);
        for (wrong, says) in [
            (job().at_least(day + Duration::from_millis(1)), "at_least"),
            (job().key(""), "key"),
            (job().key("a\0"), "NUL"),
            (job().key("x".repeat(513)), "513"),
            (job().key("k").keep(31 * day), "keep"),
            (job().key("k").keep(Duration::ZERO), "keep"),
            (one.once("steadlock:j"), "reserved"),
        ] {
            let error: Error = wrong.start().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        let inside = one.multi_lock([&job().as_lock(), &one.lock("a")]);
        assert_eq!(inside.acquire().await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(pttl(server, "steadlock:{j}:once"), -2);
        assert_eq!(pttl(server, "steadlock:{j}:job"), -2);
    })
    .await;
}

#[tokio::test]
async fn a_foreign_value_in_place_of_a_run_is_reported_and_left_alone() {
    on_every_server(async |server, one, _| {
        server.run(&["HSET", "steadlock:{j}:once", "x", "1"]);
        let error = one.once("j").start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        server.run(&["DEL", "steadlock:{j}:once"]);
        server.run(&["SET", "steadlock:{j}:job", "x"]);
        let error = one.once("j").start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        server.run(&["DEL", "steadlock:{j}:job"]);
        // A run ends in spite of such values.
        let run = begun(&one.once("j").key("k")).await;
        server.run(&["SET", "steadlock:{j}:job", "x"]);
        server.run(&["SET", "steadlock:{j}:done-k", "x"]);
        run.succeed().await.unwrap();
        assert_eq!(pttl(server, "steadlock:{j}:once"), -2);
        assert_eq!(pttl(server, "steadlock:{j}:done-k"), -1);
    })
    .await;
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_any_more_has_never_begun() {
    on_every_server(async |_, one, two| {
        let job = one.once("j").at_least(LONG).key("k");
        for pause in 0..40 {
            let start = job.start();
            let _ = tokio::time::timeout(Duration::from_micros(pause * 20), start).await;
        }
        runs_again(&two.once("j").key("k")).await;
        // A plain lock request of the same client comes after all releases.
        let last = two.once("j").last_run().await.unwrap().unwrap();
        assert_eq!(
            last.ended.unwrap().outcome,
            RunOutcome::Failed,
            "only the run above has ended"
        );
    })
    .await;
}
