//! What a session does when a connection opens or closes.

use crate::defects::Defect;
use crate::ids::NodeId;
use crate::instant::Instant;
use crate::machines::{channels, holds, inspections, releases};
use crate::queue::{LastAnswer, Queue};
use crate::reply::CallError;
use crate::session::Session;
use crate::types::Lane;

impl Session {
    /// The node has both its lanes.
    pub fn on_connected(&mut self, node: NodeId, now: Instant) {
        self.io.lane_opened(node, Lane::Renewal);
        self.io.lane_opened(node, Lane::Command);
        self.go_on(node, &[Lane::Renewal, Lane::Command], now);
    }

    /// The node has no connection any more, or none yet; the cause in words. The
    /// driver also answers every call that was on it.
    pub fn on_disconnected(&mut self, node: NodeId, cause: &str, now: Instant) {
        self.lane_closed(node, Lane::Command, cause, now);
        self.lane_closed(node, Lane::Renewal, cause, now);
        self.channels.input(&mut self.io, channels::Input::Lost(node));
    }

    /// One of the node's lanes is open.
    pub fn on_lane_opened(&mut self, node: NodeId, lane: Lane, now: Instant) {
        self.io.lane_opened(node, lane);
        self.go_on(node, &[lane], now);
    }

    /// One of the node's lanes is closed, or still is; the cause in words. The driver
    /// also answers every call that was on it.
    pub fn on_lane_closed(&mut self, node: NodeId, lane: Lane, cause: &str, now: Instant) {
        if self.io.has(Defect::LaneLossIsOutage) {
            return self.on_disconnected(node, cause, now);
        }
        self.lane_closed(node, lane, cause, now);
    }

    /// The connection that carried the node's subscriptions is gone. What is published
    /// until the driver has subscribed again on the next one is lost.
    pub fn on_subscriptions_lost(&mut self, node: NodeId) {
        self.channels.input(&mut self.io, channels::Input::Lost(node));
    }

    fn lane_closed(&mut self, node: NodeId, lane: Lane, cause: &str, now: Instant) {
        self.io.lane_closed(node, lane, cause);
        if lane == Lane::Command {
            self.forget_answers(node, cause, now);
        }
        self.hold_by(holds::Input::LaneClosed(node), now);
    }

    /// Who waits here is not told who held a lock by the word of a server that is gone: it may have been
    /// demoted, and the next connection may lead to another.
    fn forget_answers(&mut self, node: NodeId, cause: &str, now: Instant) {
        let cut = CallError::Disconnected(cause.into());
        for id in self.queues.ids() {
            let says_held = |queue: &Queue| matches!(queue.last_answer, Some((_, LastAnswer::Held(_))));
            let is_of_it = |queue: &&Queue| queue.node == node && says_held(queue);
            if self.queues.get(id).filter(is_of_it).is_some() {
                self.note_failure(id, &cut, now);
            }
        }
    }

    /// Sends what waited for these lanes, which have just opened.
    fn go_on(&mut self, node: NodeId, opened: &[Lane], now: Instant) {
        // What must go goes first, then what must stay, then what is wanted.
        self.release_by(releases::Input::Connected(node, opened.to_vec()), now);
        // Also while the other lane stayed open: the one that has opened may lead to another server by now,
        // which then says that it has no record.
        for lane in opened {
            self.hold_by(holds::Input::Connected(node, *lane), now);
        }
        if opened.contains(&Lane::Command) {
            self.inspections.input(&mut self.io, inspections::Input::Connected, now);
            self.route(now);
            for queue in self.queues.ids() {
                self.maybe_free(queue, now);
            }
            self.ask_after_outage(node, now);
        }
        self.settle_composites(now);
    }
}
