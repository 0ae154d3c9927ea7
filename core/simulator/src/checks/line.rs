//! I7: the fair lock goes to the waiter that came first, of those that live.
//!
//! The order of arrival is kept here, by who was in the queue when; what the
//! server has for scores does not matter.

use std::collections::BTreeMap;

use super::broken;
use crate::records::Standing;

/// A waiter that was not heard of for longer is dead; in microseconds.
pub(super) const WAITER_LIFE: u64 = 3_000_000;
/// What a grant that nobody asked for at that moment lasts at the most, in milliseconds.
const PROVISIONAL: i64 = 3_000;

/// The check of I7.
#[derive(Debug, Default)]
pub(crate) struct Line {
    arrived: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The queue after the last script.
    last: BTreeMap<usize, Vec<Vec<u8>>>,
    /// When a call last spoke for each owner, by the server's clock; `None` once it was released
    /// and no call has spoken for it since.
    spoke: BTreeMap<usize, BTreeMap<Vec<u8>, Option<u64>>>,
}

impl Line {
    /// A script ran for these owners, at this time of the server. Gives the owner that was
    /// granted the lock by it.
    pub(crate) fn ran(
        &mut self,
        name: usize,
        (before, after): (&Standing, &Standing),
        (callers, is_release): (&[Vec<u8>], bool),
        now: u64,
    ) -> Result<Option<Vec<u8>>, super::Broken> {
        let arrived = self.arrived.entry(name).or_default();
        arrived.retain(|owner| before.queue.contains(owner));
        let last = self.last.insert(name, after.queue.clone()).unwrap_or_default();
        if last != before.queue {
            // Another server took over, with a queue of its own.
            arrived.clone_from(&before.queue);
            // Or forgot who has left.
            self.spoke.remove(&name);
        }
        let spoke = self.spoke.entry(name).or_default();
        for owner in callers {
            spoke.insert(owner.clone(), (!is_release).then_some(now));
        }
        for owner in before.queue.iter().chain(callers.iter().filter(|_| !is_release)) {
            let is_new = !arrived.contains(owner);
            let is_holder = after.holder.as_ref().is_some_and(|(holder, _)| holder == owner);
            if is_new && (is_holder || before.queue.contains(owner) || after.queue.contains(owner)) {
                arrived.push(owner.clone());
            }
        }
        let lives = |owner: &Vec<u8>| {
            let is_heard = before
                .seen
                .get(owner)
                .is_some_and(|seen| *seen <= now && now - seen <= WAITER_LIFE);
            if callers.contains(owner) { !is_release } else { is_heard }
        };
        let was = before.holder.as_ref().map(|(owner, _)| owner);
        let granted = after.holder.as_ref().filter(|(owner, _)| Some(owner) != was);
        if let Some((owner, left)) = granted {
            let is_dead = match spoke.get(owner) {
                Some(Some(spoke)) => now.saturating_sub(*spoke) > WAITER_LIFE,
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
