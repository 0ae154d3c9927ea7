//! Checks I7: the fair lock is granted to the live waiter that came first.
//!
//! The check finds the order of arrival by itself, from the contents of the queue after each script. It does not trust
//! the scores on the server.

use std::collections::BTreeMap;

use super::broken;
use crate::records::FairState;

/// The time without a poll after which a waiter is dead, in microseconds.
pub(super) const WAITER_LIFE: u64 = 3_000_000;
/// The longest lease of a provisional grant, in milliseconds. Such a grant is made by a call for another owner, so its
/// waiter does not know of it yet.
const PROVISIONAL: i64 = 3_000;

/// The check of I7.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    arrived: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The queue after the last script.
    last_queue: BTreeMap<usize, Vec<Vec<u8>>>,
    /// For each name and owner, the server's time of the last script that ran for the owner; a poll runs for several.
    /// `None` after a release.
    last_call: BTreeMap<usize, BTreeMap<Vec<u8>, Option<u64>>>,
}

impl FairQueue {
    /// Checks a script that ran for these owners at this time of the server. Returns the owner to which it granted the
    /// lock.
    pub(crate) fn ran(
        &mut self,
        name: usize,
        (before, after): (&FairState, &FairState),
        (callers, is_release): (&[Vec<u8>], bool),
        now: u64,
    ) -> Result<Option<Vec<u8>>, super::Broken> {
        let arrived = self.arrived.entry(name).or_default();
        arrived.retain(|owner| before.queue.contains(owner));
        let last_queue = self.last_queue.insert(name, after.queue.clone()).unwrap_or_default();
        if last_queue != before.queue {
            // Another server took over, with another queue.
            arrived.clone_from(&before.queue);
            // The new server may also have forgotten which waiters left.
            self.last_call.remove(&name);
        }
        let last_call = self.last_call.entry(name).or_default();
        for owner in callers {
            last_call.insert(owner.clone(), (!is_release).then_some(now));
        }
        for owner in before.queue.iter().chain(callers.iter().filter(|_| !is_release)) {
            let is_new = !arrived.contains(owner);
            let is_holder = after.holder.as_ref().is_some_and(|(holder, _)| holder == owner);
            if is_new && (is_holder || before.queue.contains(owner) || after.queue.contains(owner)) {
                arrived.push(owner.clone());
            }
        }
        let lives = |owner: &Vec<u8>| {
            let is_recent = before
                .seen
                .get(owner)
                .is_some_and(|seen| *seen <= now && now - seen <= WAITER_LIFE);
            if callers.contains(owner) {
                !is_release
            } else {
                is_recent
            }
        };
        let was = before.holder.as_ref().map(|(owner, _)| owner);
        let granted = after.holder.as_ref().filter(|(owner, _)| Some(owner) != was);
        if let Some((owner, left)) = granted {
            let is_dead = match last_call.get(owner) {
                Some(Some(at)) => now.saturating_sub(*at) > WAITER_LIFE,
                Some(None) => true,
                None => false,
            };
            if is_dead {
                let what = format!("{} was granted name {name}, and had died or left", text(owner));
                return broken("I7", what).map(|()| None);
            }
            let mut before_it = arrived.iter().take_while(|of| *of != owner);
            if let Some(passed) = before_it.find(|of| lives(of)) {
                let what = format!("{} was granted name {name} before {}", text(owner), text(passed));
                return broken("I7", what).map(|()| None);
            }
            if !callers.contains(owner) && *left > PROVISIONAL {
                let what = format!("{} was granted name {name} unasked for {left} ms", text(owner));
                return broken("I7", what).map(|()| None);
            }
        }
        let granted = granted.map(|(owner, _)| owner.clone());
        let is_out = |owner: &&Vec<u8>| !after.queue.contains(owner) && Some(*owner) != granted.as_ref();
        let leaves = |owner: &&Vec<u8>| is_release && callers.contains(owner);
        let mut out = before.queue.iter().filter(is_out);
        if let Some(owner) = out.find(|owner| lives(owner) && !leaves(owner)) {
            let what = format!("{} lives and was taken out of the queue of name {name}", text(owner));
            return broken("I7", what).map(|()| None);
        }
        Ok(granted)
    }
}

fn text(owner: &[u8]) -> String {
    String::from_utf8_lossy(owner).into_owned()
}
