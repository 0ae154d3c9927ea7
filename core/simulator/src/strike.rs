//! Faults that strike at random times: what each does, and how it ends.

use crate::checks::Checked;
use crate::choices::Chooser;
use crate::event::Event;
use crate::fault::Fault;
use crate::node::FULL;
use crate::random::Random;
use crate::records::{Record, job_keys};
use crate::route::{ConnectionKind, Route};
use crate::time::{MS, Micros, SECOND};
use crate::trace;
use crate::world::World;

impl World {
    /// Lets a fault strike, and schedules its next strike.
    pub(crate) fn strike(&mut self, fault: Fault, every: Micros) -> Checked {
        // External clients act even after the end of all other faults.
        let is_external = matches!(fault, Fault::RecordRemoved | Fault::Flush) && !self.is_ending;
        if !self.is_rough && !is_external {
            return Ok(());
        }
        // The number of draws of one strike depends on its target. A strike draws from a fork of the generator, so that
        // the times of later strikes do not depend on this number.
        let own = self.choices.of(Chooser::Fault(fault));
        let again = own.between(every / 2, 2 * every);
        let random = &mut own.fork();
        self.schedule(again, Event::Strike { fault, every });
        let client = random.index(self.clients.len());
        let node = random.index(self.nodes.len());
        match fault {
            Fault::Disconnect => self.disconnect(client, node),
            Fault::LaneCut => self.cut_one(client, node, random),
            Fault::Demotion => {
                if self.demote(node) {
                    self.struck(fault, node);
                    self.schedule_end(fault, node, random.between(MS, 800 * MS));
                }
            }
            Fault::NodeStop => {
                if !std::mem::replace(&mut self.nodes[node].stopped, true) {
                    self.struck(fault, node);
                    let longest = random.pick(&[50 * MS, 500 * MS, 2 * SECOND]);
                    self.schedule_end(fault, node, random.between(MS, longest));
                }
            }
            Fault::TemporaryError => {
                let code = random.pick(&["LOADING", "BUSY", FULL]);
                if self.nodes[node].refusal.replace(code).is_none() {
                    self.struck(fault, node);
                    self.schedule_end(fault, node, random.between(MS, 600 * MS));
                }
            }
            Fault::ClientPause => {
                let longest = random.pick(&[30 * MS, 500 * MS, 3 * SECOND]);
                let of = &mut self.clients[client];
                if of.session.is_some() && !std::mem::replace(&mut of.paused, true) {
                    self.struck(fault, client);
                    self.schedule_end(fault, client, random.between(MS, longest));
                }
            }
            Fault::ClientCrash => self.crash(client),
            Fault::Invention => self.publishes_false_messages(node, random),
            Fault::ClientClose => {
                let of = &self.clients[client];
                if of.session.is_some() && !of.paused && !of.closed {
                    self.struck(fault, client);
                    return self.close(client);
                }
            }
            Fault::RecordRemoved => {
                let name = random.index(self.names.len());
                let clock = self.nodes[node].clock(self.now);
                let records: Vec<Record> = self.records(name).into_iter().collect();
                let record = random.pick(&records);
                let key = self.key_to_remove(node, name, record, random);
                self.nodes[node].store.execute(&[b"DEL", key.as_slice()], clock);
                if record == Record::Run {
                    self.runs.removed(name, &key, self.names[name].as_str());
                }
                self.removals.removed(name, self.now);
                self.disturbed();
                self.struck(fault, node);
            }
            Fault::Flush => {
                let clock = self.nodes[node].clock(self.now);
                self.nodes[node].store.execute(&["FLUSHALL"], clock);
                self.runs.flushed();
                for name in 0..self.names.len() {
                    self.removals.removed(name, self.now);
                }
                self.disturbed();
                self.struck(fault, node);
            }
            Fault::ClockForward => {
                let by = random.between(MS, 20 * SECOND);
                self.nodes[node].clock_offset += by.cast_signed();
                self.runs_passed(node);
                self.struck(fault, node);
            }
            Fault::ClockBack => {
                // The last token is kept for a minute after its grant. Tokens could fall only if the clock were set
                // back by more than a minute, so all steps together stay below that.
                let by = random.between(MS, 5 * SECOND).cast_signed();
                if self.nodes[node].set_back + by < 55 * SECOND.cast_signed() {
                    self.runs_passed(node);
                    self.nodes[node].set_back += by;
                    self.nodes[node].clock_offset -= by;
                    self.struck(fault, node);
                }
            }
            Fault::Failover => {
                self.nodes[node].replicate(self.now);
                self.runs.replicated();
                self.schedule_end(fault, node, random.between(MS, 800 * MS));
            }
            // These faults affect what is sent, and strike elsewhere.
            Fault::LostCall
            | Fault::LostReply
            | Fault::DelayedCall
            | Fault::DelayedReply
            | Fault::Resent
            | Fault::DroppedMessage
            | Fault::Cancel => {}
        }
        Ok(())
    }

    /// Returns the key of a record that an external client deletes. If the record is a job's, it may be any key of the job.
    fn key_to_remove(&mut self, node: usize, name: usize, record: Record, random: &mut Random) -> Vec<u8> {
        let name = self.names[name].as_str();
        let (clock, store) = (self.nodes[node].clock(self.now), &mut self.nodes[node].store);
        let record_key = record.key(name).into_bytes();
        let mut keys = match record {
            Record::Run => job_keys(store, name, clock),
            _ => Vec::new(),
        };
        keys.push(record_key);
        keys[random.index(keys.len())].clone()
    }

    /// Notes the time of a server's clock before it is set back, or after it was set forward.
    fn runs_passed(&mut self, node: usize) {
        let now = self.nodes[node].clock(self.now).as_micros() / 1_000;
        self.runs.passed(now);
    }

    fn schedule_end(&mut self, fault: Fault, target: usize, after: Micros) {
        self.schedule(after, Event::Over { fault, target });
    }

    /// Ends a fault.
    pub(crate) fn strike_over(&mut self, fault: Fault, target: usize) -> Checked {
        self.note(trace::Line::Over { fault, target });
        match fault {
            Fault::NodeStop => {
                if std::mem::take(&mut self.nodes[target].stopped) {
                    self.following.hindered_all(target, self.now);
                }
                for event in std::mem::take(&mut self.nodes[target].backlog) {
                    self.happen(event)?;
                }
            }
            Fault::TemporaryError => {
                let was_refusing = self.nodes[target].refusal.take().is_some();
                self.serves_again(target, was_refusing);
            }
            Fault::Demotion => {
                let was_moving = std::mem::take(&mut self.nodes[target].is_moving);
                self.serves_again(target, was_moving);
            }
            Fault::ClientPause => return self.resume(target),
            // There was no failover, or `end_faults` has ended it.
            Fault::Failover if self.nodes[target].snapshot.is_none() => {}
            Fault::Failover => {
                self.nodes[target].fail_over(self.now);
                self.runs.failed_over();
                self.struck(fault, target);
                for client in 0..self.clients.len() {
                    self.disconnect(client, target);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes that a server serves calls again, if it had stopped.
    fn serves_again(&mut self, node: usize, had_stopped: bool) {
        if had_stopped {
            self.following.hindered_all(node, self.now);
        }
    }

    /// Resumes a client. Everything that was sent to it during the pause arrives at once. By chance, the timer of its
    /// session fires before that.
    fn resume(&mut self, client: usize) -> Checked {
        let of = &mut self.clients[client];
        if !std::mem::replace(&mut of.paused, false) {
            return Ok(());
        }
        of.awake_since = self.now;
        let backlog = std::mem::take(&mut of.backlog);
        let looks_first = self.choices.of(Chooser::Client { client }).chance(500);
        if looks_first {
            self.time_passes(client)?;
        }
        for event in backlog {
            self.happen(event)?;
        }
        self.time_passes(client)
    }

    fn disconnect(&mut self, client: usize, node: usize) {
        let mut was_open = false;
        for connection in ConnectionKind::ALL {
            let epoch = self.clients[client].wires[node].links[connection as usize].epoch;
            let route = Route {
                client,
                node,
                connection,
                epoch,
            };
            let link = self.clients[client].link(route);
            if link.open && !link.cut {
                was_open = true;
                self.cut(route);
            }
        }
        if was_open {
            self.struck(Fault::Disconnect, client);
        }
    }

    /// Closes a client: the session itself releases what the client's tasks held.
    pub(crate) fn close(&mut self, client: usize) -> Checked {
        self.clients[client].closed = true;
        self.input(client, |session, now| session.close(now))?;
        let left: Vec<_> = self.ledger.of(client).map(|(lease, _)| lease).collect();
        for lease in left {
            self.lets_go(client, lease);
        }
        for task in &mut self.clients[client].tasks {
            task.leases.clear();
        }
        Ok(())
    }

    /// Crashes a client, unless it is the last one. Calls that it has sent may still arrive.
    fn crash(&mut self, client: usize) {
        let alive = self.clients.iter().filter(|client| client.session.is_some()).count();
        if alive < 2 || self.clients[client].session.is_none() {
            return;
        }
        self.struck(Fault::ClientCrash, client);
        for node in 0..self.nodes.len() {
            for connection in ConnectionKind::ALL {
                let epoch = self.clients[client].wires[node].links[connection as usize].epoch;
                self.break_off(Route {
                    client,
                    node,
                    connection,
                    epoch,
                });
            }
        }
        self.clients[client].session = None;
        self.clients[client].due = None;
        self.ledger.forget(client);
        self.signals.forget(client);
    }

    /// Ends all faults. After this, only external clients still remove records.
    pub(crate) fn end_faults(&mut self) -> Checked {
        self.is_rough = false;
        self.undisturbed_since = self.now;
        self.disturbed();
        self.note(trace::Line::FaultsEnd);
        for node in 0..self.nodes.len() {
            self.strike_over(Fault::TemporaryError, node)?;
            self.strike_over(Fault::NodeStop, node)?;
            self.strike_over(Fault::Failover, node)?;
            self.strike_over(Fault::Demotion, node)?;
        }
        for client in 0..self.clients.len() {
            for wires in &mut self.clients[client].wires {
                for link in &mut wires.links {
                    link.away_until = self.now;
                }
            }
            self.resume(client)?;
        }
        Ok(())
    }

    /// Resets the checks, because observations from before a fault prove nothing afterwards.
    fn disturbed(&mut self) {
        self.progress.disturbed();
        self.starvation.disturbed();
        self.wakes.disturbed();
        self.operators.disturbed();
    }

    /// Returns whether a circuit breaker that opened before the faults ended may still be open.
    pub(crate) fn may_have_open_breakers(&self) -> bool {
        let settled = self.undisturbed_since + self.plan.settles_in() + self.plan.breakers_settle_in();
        self.plan.breaker.is_some() && self.now < settled
    }

    /// Returns whether the effects of all faults are over.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_rough && self.now >= self.undisturbed_since + self.plan.settles_in()
    }
}
