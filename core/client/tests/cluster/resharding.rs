//! Tests of slots that move to another node and back repeatedly while locks of every kind are contended. No caller
//! notices the moves, no lock has two holders, and waiters of a fair lock keep their order.

use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steadlock::{Client, Lock, ReleaseOutcome};
use steadlock_protocol::Reply;

use crate::support::cluster::Cluster;
use crate::support::crowd::{Crowd, spawn_waiter};
use crate::support::eventually;
use crate::support::rig::Node;
use crate::{LEASE, SOON};

/// A wait that is longer than all moves together.
const LONG: Duration = Duration::from_secs(3_600);
/// One in this many moves also moves the queue of a fair lock.
const QUEUE_MOVES: usize = 50;
/// The weight of a holder that excludes all others.
const EXCLUSIVE: u32 = 1_000;

/// One side of a lock, such as its readers. Each holder of the lock adds the `weight` of its side to `inside`. The sum
/// must then be at most `most`.
struct Side {
    kind: &'static str,
    lock: Lock,
    weight: u32,
    most: u32,
    inside: Arc<AtomicU32>,
}

/// Returns every kind of lock, with names in the slot of `name`. `inside` has the weight of the holders of each lock.
fn sides(client: &Client, name: &str, inside: &[Arc<AtomicU32>; 5]) -> Vec<Side> {
    let of = |kind: &str| format!("{{{name}}}-{kind}");
    let both = client.read_write_lock(of("both"));
    let side = |kind, lock, weight, most, at: usize| Side {
        kind,
        lock,
        weight,
        most,
        inside: Arc::clone(&inside[at]),
    };
    vec![
        side("lock", client.lock(of("lock")), EXCLUSIVE, EXCLUSIVE, 0),
        side("mutex", client.mutex(of("mutex")), EXCLUSIVE, EXCLUSIVE, 1),
        side("fair_lock", client.fair_lock(of("fair")), EXCLUSIVE, EXCLUSIVE, 2),
        side("semaphore", client.semaphore(of("two"), 2).permits(1), 1, 2, 3),
        side("read_lock", both.read, 1, EXCLUSIVE - 1, 4),
        side("write_lock", both.write, EXCLUSIVE, EXCLUSIVE, 4),
    ]
}

impl Side {
    /// Acquires and releases the lock until `is_over`. Returns the number of rounds.
    async fn contend(self, is_over: Arc<AtomicBool>) -> usize {
        let mut rounds = 0;
        while !is_over.load(Ordering::Relaxed) {
            let lease = self
                .lock
                .acquire()
                .await
                .unwrap_or_else(|error| panic!("{}: {error}", self.kind));
            let weight = self.inside.fetch_add(self.weight, Ordering::SeqCst) + self.weight;
            assert!(weight <= self.most, "{}: {weight} inside", self.kind);
            tokio::task::yield_now().await;
            self.inside.fetch_sub(self.weight, Ordering::SeqCst);
            assert_eq!(
                lease.release().await.unwrap(),
                ReleaseOutcome::Released,
                "{}",
                self.kind
            );
            rounds += 1;
        }
        rounds
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_do_not_notice_slots_that_move_back_and_forth() {
    let cluster = Cluster::start();
    let moves: usize = std::env::var("STEADLOCK_SLOTS").map_or(100, |slots| slots.parse().unwrap());
    let primaries = cluster.primaries();
    let (here, there) = (&primaries[0], &primaries[1]);
    let crowd = Crowd::start_with_limit(&cluster.url, LEASE, LONG, &primaries).await;
    let is_over = Arc::<AtomicBool>::default();
    let names: Vec<String> = (0..3)
        .map(|number| cluster.name_at(here, &format!("contended{number}")))
        .collect();
    let mut tasks = Vec::new();
    for name in &names {
        let inside = <[Arc<AtomicU32>; 5]>::default();
        for side in crowd.clients.iter().flat_map(|client| sides(client, name, &inside)) {
            tasks.push(tokio::spawn(side.contend(Arc::clone(&is_over))));
        }
    }
    let began = Instant::now();
    let contended = names.iter().map(|name| cluster.slot(name)).cycle();
    let others = (0..).filter(|slot| here.owner(*slot) == Some(here.port));
    for (number, (contended, other)) in contended.zip(others).take(moves.div_ceil(2)).enumerate() {
        for slot in [contended, other] {
            cluster.move_slot(slot, here, there).await;
            cluster.move_slot(slot, there, here).await;
        }
        if number % (QUEUE_MOVES / 2) == 0 {
            check_queue_moves(&cluster, &crowd.clients, here, there, number).await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let mut rounds = 0;
    for task in tasks {
        rounds += task.await.unwrap();
    }
    println!(
        "{rounds} rounds while {moves} slots moved there and back, in {:?}",
        began.elapsed()
    );
    assert!(rounds > moves, "{rounds} rounds");
    crowd.check().await;
}

/// Checks that the waiters of a fair lock are served in order of arrival, although their queue moved to another node
/// and back.
async fn check_queue_moves(cluster: &Cluster, clients: &[Client], here: &Node, there: &Node, number: usize) {
    let name = cluster.name_at(here, &format!("queue{number}"));
    let slot = cluster.slot(&name);
    let held = clients[0].fair_lock(name.as_str()).acquire().await.unwrap();
    let turn = Arc::<AtomicUsize>::default();
    let mut waiters = Vec::new();
    let order = clients.iter().chain(clients).enumerate();
    for (place, client) in order {
        let waiter = spawn_waiter(client.fair_lock(name.as_str()), SOON);
        let queue = format!("steadlock:{{{name}}}:fair");
        eventually("the waiter has its place", SOON, || {
            here.run(&["ZCARD", &queue]) == Reply::Int(i64::try_from(place).unwrap() + 1)
        })
        .await;
        let turn = Arc::clone(&turn);
        waiters.push(tokio::spawn(async move {
            let lease = waiter.await.unwrap();
            assert_eq!(turn.fetch_add(1, Ordering::SeqCst), place, "out of turn");
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }));
    }
    for (from, to) in repeat_n([(here, there), (there, here)], 2).flatten() {
        cluster.move_slot(slot, from, to).await;
    }
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
    for waiter in waiters {
        waiter.await.unwrap();
    }
}
