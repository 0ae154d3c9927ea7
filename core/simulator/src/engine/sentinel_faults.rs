//! Faults of a primary and its replica, and of the sentinels that watch them.

use std::time::Duration;

use tokio::time::sleep;

use super::faults::{Faults, up_to};
use super::network::ConnectOutcome;
use super::sentinels::Sentinels;
use crate::random::Random;
use crate::snapshot::Snapshot;

/// The time within which clients learn what sentinels report: clients ask every ten seconds.
const PROPAGATION: Duration = Duration::from_secs(11);

impl Faults {
    /// Lets the primary fail and its replica take over with all data. By chance, the old primary returns when most
    /// sentinels know of the change, and acts as a primary until it is demoted.
    pub(super) async fn sentinel_failover(&self, sentinels: &Sentinels, mut random: Random) {
        let Some(_alone) = self.reshape() else { return };
        let old = sentinels.primary();
        let new = 1 - old;
        let excuse = self.excuse(PROPAGATION, None);
        let (failed, next) = (self.network().machine(old), self.network().machine(new));
        self.note(format_args!("server {old} is gone"));
        let outcome = random.pick(&[ConnectOutcome::Refused, ConnectOutcome::Unanswered]);
        self.network().set_unreachable(old, Some(outcome));
        failed.die();
        self.network().cut_machine(failed.id());
        sleep(Duration::from_millis(500) + up_to(&mut random, 6_000)).await;
        let now = self.clock().server_time();
        next.data().restore(failed.data().snapshot(now), now);
        next.forget_scripts();
        next.promote();
        self.note(format_args!("server {new} has taken its place"));
        sentinels.sentinel_failover(new);
        let mut late: Vec<usize> = (0..self.plan().sentinels).collect();
        random.shuffle(&mut late);
        let in_time = late.split_off(random.index(self.plan().sentinels.div_ceil(2)));
        self.inform(sentinels, &in_time, &mut random).await;
        sleep(up_to(&mut random, 5_000)).await;
        if random.chance(700) {
            self.note(format_args!("server {old} is back, and knows of no successor"));
            if random.chance(300) {
                failed.data().restore(Snapshot::empty(), self.clock().server_time());
            }
            self.network().set_unreachable(old, None);
            sleep(up_to(&mut random, 15_000)).await;
        }
        failed.demote();
        failed.data().restore(Snapshot::empty(), self.clock().server_time());
        self.network().cut_machine(failed.id());
        self.note(format_args!("server {old} is a replica"));
        self.inform(sentinels, &late, &mut random).await;
        self.network().set_unreachable(old, None);
        sleep(PROPAGATION).await;
        self.end_excuse(excuse);
    }

    async fn inform(&self, sentinels: &Sentinels, numbers: &[usize], random: &mut Random) {
        for sentinel in numbers {
            sleep(up_to(random, 400)).await;
            sentinels.learn(*sentinel, random.chance(800));
        }
    }

    /// Lets one sentinel answer no client for a while.
    pub(super) async fn silence_sentinel(&self, mut random: Random) {
        let Some(_alone) = self.reshape() else { return };
        let sentinel = random.index(self.plan().sentinels);
        self.note(format_args!("sentinel {sentinel} is silent"));
        self.network().silence_sentinel(sentinel, true);
        sleep(up_to(&mut random, 12_000)).await;
        self.note(format_args!("sentinel {sentinel} answers again"));
        self.network().silence_sentinel(sentinel, false);
    }
}
