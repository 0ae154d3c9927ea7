//! A malicious client with the permission to publish and to read. It invents messages, repeats recorded ones, and tells
//! waiters of grants that no server can have made.

use steadlock_protocol::Kind;

use crate::fault::Fault;
use crate::random::Random;
use crate::records::FairState;
use crate::time::{Micros, SECOND};
use crate::world::World;

/// A time that exceeds the length of a history and all steps of its clocks.
const BEYOND_HISTORY: Micros = 3_600 * SECOND;
/// The largest token that clients can read.
const LARGEST_TOKEN: u64 = (1 << 53) - 2;

impl World {
    /// Publishes a few false messages.
    pub(crate) fn publishes_false_messages(&mut self, node: usize, random: &mut Random) {
        self.struck(Fault::Invention, node);
        for _ in 0..random.between(1, 20) {
            let (channel, payload) = self.false_message(node, random);
            let clock = self.nodes[node].clock(self.now);
            self.nodes[node]
                .store
                .execute(&[b"PUBLISH".as_slice(), &channel, &payload], clock);
            for (listener, delivery) in self.nodes[node].published() {
                self.publish(listener, node, &delivery.channel, &delivery.payload);
            }
        }
    }

    fn false_message(&mut self, node: usize, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
        let name = random.index(self.names.len());
        let lock = self.names[name].as_str().to_owned();
        let client = random.index(self.clients.len());
        let grants = format!("steadlock:{{{lock}}}:grants:{}", self.clients[client].id).into_bytes();
        let draw = random.between(0, 9);
        if draw == 0
            && let Some((channel, payload)) = self.recorded_messages.pick(random)
        {
            return (channel.to_vec(), payload.to_vec());
        }
        if draw <= 3 {
            let suffix = random.pick(&["channel", "rw-channel", "semaphore-channel", "grants"]);
            let channel = match suffix {
                "grants" => grants,
                "channel" if random.chance(500) => format!("redisson_lock__channel:{{{lock}}}").into_bytes(),
                _ => format!("steadlock:{{{lock}}}:{suffix}").into_bytes(),
            };
            let length = random.index(40);
            let noise = (0..length).map(|_| random.next().to_le_bytes()[0]).collect();
            return (channel, if draw == 1 { noise } else { b"0".to_vec() });
        }
        // A grant to a waiter in the queue, or to an owner id that nobody uses.
        let state = match self.plan.names[name].contains(&Kind::Fair) {
            true => self.fair_state(node, name),
            false => FairState::default(),
        };
        let waiters = state.queue;
        let nobody = format!("{}:{}", self.clients[client].id, random.next() >> 1).into_bytes();
        let owner = match waiters.len() {
            0 => nobody,
            _ if draw == 4 => nobody,
            count => waiters[random.index(count)].clone(),
        };
        let of = owner.split(|byte| *byte == b':').next().unwrap_or_default();
        let channel = [format!("steadlock:{{{lock}}}:grants:").as_bytes(), of].concat();
        let now = self.nodes[node].clock(self.now).as_micros();
        let seen = state.seen.get(&owner).copied().unwrap_or(now);
        let (seen, token) = match random.between(0, 4) {
            0 => (seen.saturating_sub(BEYOND_HISTORY), now),
            1 => (seen + BEYOND_HISTORY, now + BEYOND_HISTORY),
            2 => (seen, seen.saturating_sub(1)),
            3 => (seen, now + BEYOND_HISTORY),
            _ => (seen, LARGEST_TOKEN),
        };
        (
            channel,
            [owner.as_slice(), format!(" {seen} {token}").as_bytes()].concat(),
        )
    }
}
