//! Tests of leaders on the embedded store and on a real redis-server.

mod support;

use std::time::{Duration, Instant};

use steadlock::{Client, Error, ErrorKind, Leader, Leadership, LostReason, Term};
use steadlock_protocol::Reply;
use support::{Server, eventually, on_time};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(5);

/// Runs a scenario on each kind of server, with three clients of that server.
async fn on_every_server<F: AsyncFn(&Server, [Client; 3])>(scenario: F) {
    for server in [Server::memory(), Server::redis()] {
        let url = server.url();
        let connect = async || Client::connect(&url).await.unwrap();
        let clients = [connect().await, connect().await, connect().await];
        scenario(&server, clients.clone()).await;
        for client in clients {
            client.close().await;
        }
    }
}

/// Campaigns in a background task. Returns once the candidate is in the queue.
async fn candidate(leader: Leader, place: usize) -> JoinHandle<Result<Term, Error>> {
    let campaign = tokio::spawn({
        let leader = leader.clone();
        async move { leader.campaign().await }
    });
    let start = Instant::now();
    while leader.current().await.unwrap().candidates.len() < place {
        assert!(start.elapsed() < SOON, "the candidate is in the queue");
        tokio::task::yield_now().await;
    }
    campaign
}

async fn led_by(campaign: JoinHandle<Result<Term, Error>>) -> Term {
    timeout(SOON, campaign).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn one_leads_and_candidates_follow_in_order() {
    on_every_server(async |_, [one, two, three]| {
        let first = one.leader("l").campaign().await.unwrap();
        let second = candidate(two.leader("l"), 1).await;
        let third = candidate(three.leader("l"), 2).await;
        let Leadership { term, candidates } = one.leader("l").current().await.unwrap();
        let term = term.unwrap();
        assert_eq!(term.number, first.number());
        assert_eq!(term.holder.client.unwrap().pid, std::process::id());
        assert!(term.holder.remaining.unwrap() <= Duration::from_secs(10));
        assert_eq!(candidates.len(), 2);

        let start = Instant::now();
        first.resign().await.unwrap();
        let second = led_by(second).await;
        assert!(start.elapsed() < on_time(Duration::from_millis(300)));
        assert!(second.number() > term.number && !third.is_finished());
        second.resign().await.unwrap();
        led_by(third).await.resign().await.unwrap();
        assert!(one.leader("l").current().await.unwrap().term.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_leader_can_choose_its_successor() {
    on_every_server(async |_, [one, two, three]| {
        let first = one.leader("l").campaign().await.unwrap();
        let second = candidate(two.leader("l"), 1).await;
        let third = candidate(three.leader("l"), 2).await;
        let candidates = one.leader("l").current().await.unwrap().candidates;
        first.resign_to(&candidates[1]).await.unwrap();
        let third = led_by(third).await;
        assert!(!second.is_finished());
        // The candidate has become the leader, so the name means nothing any more.
        third.resign_to(&candidates[1]).await.unwrap();
        led_by(second).await.resign().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_observer_learns_of_each_change_and_never_misses_the_last_one() {
    on_every_server(async |_, [one, two, three]| {
        let mut observer = three.leader("l").observe();
        assert_eq!(observer.next().await.unwrap(), Leadership::default());
        for client in [&one, &two, &one] {
            let term = client.leader("l").campaign().await.unwrap();
            let seen = timeout(SOON, observer.next()).await.unwrap().unwrap();
            assert_eq!(seen.number(), term.number());
            term.resign().await.unwrap();
            let seen = timeout(SOON, observer.next()).await.unwrap().unwrap();
            assert_eq!(seen.number(), Leadership::NOBODY);
        }
        for _ in 0..3 {
            one.leader("l").campaign().await.unwrap().resign().await.unwrap();
        }
        let last = two.leader("l").campaign().await.unwrap();
        let start = Instant::now();
        while timeout(SOON, observer.next()).await.unwrap().unwrap().number() != last.number() {
            assert!(start.elapsed() < SOON);
        }
        assert!(timeout(Duration::from_millis(50), observer.next()).await.is_err());
        last.resign().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn messages_are_not_needed_to_observe() {
    on_every_server(async |server, [one, _, three]| {
        let mut observer = three.leader("l").observe();
        observer.next().await.unwrap();
        // A term of another program, of which no message tells.
        let owner = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:7";
        server.run(&["HSET", "steadlock:{l}:leader", owner, "1"]);
        server.run(&["PEXPIRE", "steadlock:{l}:leader", "600"]);
        server.run(&["SET", "steadlock:{l}:term", &format!("{owner} 5 17"), "PX", "60000"]);
        let seen = timeout(SOON, observer.next()).await.unwrap().unwrap();
        assert_eq!((seen.number(), seen.term.unwrap().since), (5, 17));
        let seen = timeout(SOON, observer.next()).await.unwrap().unwrap();
        assert_eq!(seen.number(), Leadership::NOBODY, "the end of the term is seen");
        drop(one);
    })
    .await;
}

#[tokio::test]
async fn a_closed_client_hands_over_at_once_and_a_dead_one_when_its_term_ends() {
    on_every_server(async |server, [one, two, three]| {
        let first = one.leader("l").campaign().await.unwrap();
        let second = candidate(two.leader("l").term(Duration::from_secs(1)), 1).await;
        let start = Instant::now();
        one.close().await;
        assert_eq!(first.lost_reason(), Some(LostReason::Closed));
        let second = led_by(second).await;
        assert!(start.elapsed() < on_time(Duration::from_millis(300)));
        // A leader that is dead: nothing renews its term.
        server.run(&["DEL", "steadlock:{l}:leader"]);
        server.run(&[
            "HSET",
            "steadlock:{l}:leader",
            "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:7",
            "1",
        ]);
        server.run(&["PEXPIRE", "steadlock:{l}:leader", "700"]);
        let third = candidate(three.leader("l"), 1).await;
        let third = led_by(third).await;
        eventually("the old leader knows", SOON, || second.lost_reason().is_some()).await;
        third.resign().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn lead_runs_a_body_in_each_term_until_it_completes() {
    on_every_server(async |server, [one, two, _]| {
        let mut terms = Vec::new();
        let short = one.leader("l").term(Duration::from_millis(600));
        let value = short.lead(async |term| {
            terms.push(term.number());
            if terms.len() == 1 {
                server.run(&["DEL", "steadlock:{l}:leader"]);
                std::future::pending::<()>().await;
            }
            "done"
        });
        assert_eq!(timeout(SOON, value).await.unwrap().unwrap(), "done");
        assert!(terms.len() == 2 && terms[1] > terms[0], "{terms:?}");
        assert!(
            two.leader("l").current().await.unwrap().term.is_none(),
            "it has resigned"
        );
    })
    .await;
}

#[tokio::test]
async fn every_key_of_a_leader_expires() {
    on_every_server(async |server, [one, two, _]| {
        let term = one.leader("l").campaign().await.unwrap();
        let second = candidate(two.leader("l"), 1).await;
        for word in ["leader", "leader-fair", "leader-alive", "term", "token"] {
            let key = format!("steadlock:{{l}}:{word}");
            let Reply::Int(left) = server.run(&["PTTL", &key]) else {
                panic!()
            };
            assert!(left > 0, "{key}: {left}");
        }
        second.abort();
        term.resign().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_leader_cannot_wait_for_itself_and_is_no_part_of_other_locks() {
    on_every_server(async |_, [one, two, _]| {
        let term = one.leader("l").campaign().await.unwrap();
        let error = two.leader("l").wait(Duration::ZERO).campaign().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockTimeout, "{error}");
        assert!(error.holder().is_some());
        term.resign().await.unwrap();
        let lock = one.lock("l").acquire().await.unwrap();
        two.leader("l").campaign().await.unwrap().resign().await.unwrap();
        lock.release().await.unwrap();
    })
    .await;
}
