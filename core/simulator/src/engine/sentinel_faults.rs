//! Faults of a primary and its replica, and of the sentinels that watch them.

use std::time::Duration;

use tokio::time::sleep;

use super::faults::{Faults, up_to};
use super::network::Door;
use super::sentinels::Sentinels;
use crate::random::Random;
use crate::snapshot::Snapshot;

/// The time within which clients learn what sentinels report: they ask every ten seconds.
const HEARD: Duration = Duration::from_secs(11);

impl Faults {
    /// Lets the primary fail and its replica take over with all data. Most sentinels know that when the old primary
    /// returns, which still acts as a primary until it is demoted.
    pub(super) async fn elect(&self, sentinels: &Sentinels, mut random: Random) {
        let Some(_alone) = self.reshape() else { return };
        let old = sentinels.primary();
        let new = 1 - old;
        let excuse = self.excuse(HEARD, None);
        let (gone, next) = (self.network().machine(old), self.network().machine(new));
        self.note(format_args!("server {old} is gone"));
        let door = random.pick(&[Door::Shut, Door::Silent]);
        self.network().set_closed(old, Some(door));
        gone.die();
        self.network().cut_machine(gone.id());
        sleep(Duration::from_millis(500) + up_to(&mut random, 6_000)).await;
        let now = self.clock().server_time();
        next.data().restore(gone.data().snapshot(now), now);
        next.forget_scripts();
        next.promote();
        self.note(format_args!("server {new} has taken its place"));
        sentinels.elect(new);
        let mut late: Vec<usize> = (0..self.plan().sentinels).collect();
        random.shuffle(&mut late);
        let in_time = late.split_off(random.index(self.plan().sentinels.div_ceil(2)));
        self.learn(sentinels, &in_time, &mut random).await;
        sleep(up_to(&mut random, 5_000)).await;
        if random.chance(700) {
            self.note(format_args!("server {old} is back, and knows nothing of it"));
            if random.chance(300) {
                gone.data().restore(Snapshot::empty(), self.clock().server_time());
            }
            self.network().set_closed(old, None);
            sleep(up_to(&mut random, 15_000)).await;
        }
        gone.demote();
        gone.data().restore(Snapshot::empty(), self.clock().server_time());
        self.network().cut_machine(gone.id());
        self.note(format_args!("server {old} is a replica"));
        self.learn(sentinels, &late, &mut random).await;
        self.network().set_closed(old, None);
        sleep(HEARD).await;
        self.excuse_no_more(excuse);
    }

    async fn learn(&self, sentinels: &Sentinels, who: &[usize], random: &mut Random) {
        for sentinel in who {
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
