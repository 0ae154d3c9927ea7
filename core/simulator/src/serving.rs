//! A call at its server: whether the server refuses it, what its script does, and the records afterwards.

use std::collections::BTreeSet;

use steadlock_protocol::{Call, CallError, Reply, Script};

use crate::checks::{Broken, Checked, Ran, check_answer, check_full, check_length, check_ttl};
use crate::event::Event;
use crate::fault::Fault;
use crate::kinds::{self, Role, granted_token, role};
use crate::node::FULL;
use crate::records::{FairState, JobState, OnRecord, Record, fair_state};
use crate::route::Route;
use crate::trace;
use crate::world::World;

impl World {
    /// A call reaches its server.
    pub(crate) fn call_arrives(&mut self, route: Route, call: &Call, survives: bool) -> Checked {
        let Route { client, node, .. } = route;
        let is_current = self.is_current(route);
        if !is_current && !survives {
            self.struck(Fault::LostCall, client);
            return Ok(());
        }
        if is_current && self.is_rough && self.choices.connection(route).chance(self.plan.odds.lost_call) {
            self.struck(Fault::LostCall, client);
            self.cut(route);
            return Ok(());
        }
        let is_stale = is_current && self.clients[client].link(route).stale_since.is_some();
        let refused = match is_stale {
            true => self.refuses_as_replica(node, call),
            false => self.nodes[node].refuses(),
        };
        let result = match refused {
            Some(code) => {
                self.note(trace::Line::Refuses {
                    client,
                    node,
                    call: call.id,
                    code,
                });
                let message = "the server cannot serve for now".into();
                Err(CallError::Server {
                    code: code.into(),
                    message,
                })
            }
            None => self.run(route, call)?,
        };
        for (listener, delivery) in self.nodes[node].published() {
            self.publish(listener, node, &delivery.channel, &delivery.payload);
        }
        if !is_current || (self.is_rough && self.choices.connection(route).chance(self.plan.odds.lost_reply)) {
            self.struck(Fault::LostReply, client);
            if is_current {
                self.cut(route);
            }
            return Ok(());
        }
        let is_granted = role(call.script).0 == Role::Acquire && result.as_ref().is_ok_and(kinds::is_yes);
        let granted = kinds::owner(call).filter(|_| is_granted);
        let granted = granted.map(|owner| self.owner(owner));
        let delay = self.delay(Fault::DelayedReply, self.plan.odds.delayed_reply, route);
        let at = self.arrival_time(route, 1, delay);
        self.schedule_at(
            at,
            Event::Reply {
                route,
                call: call.id,
                result,
                granted,
            },
        );
        Ok(())
    }

    /// Runs the script of a call, and checks what it did.
    fn run(&mut self, route: Route, call: &Call) -> Result<Result<Reply, CallError>, Broken> {
        let Route { client, node, .. } = route;
        let (id, (role, record)) = (kinds::owner(call), role(call.script));
        let owner = id.map_or(usize::MAX, |id| self.owner(id));
        let name = self.name_of(call);
        let holders = name
            .filter(|_| id.is_some())
            .map(|name| self.holders_of(node, name, record));
        let left = |holders: Vec<OnRecord>| holders.into_iter().find(|(of, _)| Some(of.as_slice()) == id);
        let had = holders.and_then(left);
        let had_it = had.is_some() && !self.is_split(node, name, record, id);
        if had_it && role == Role::Acquire {
            self.struck(Fault::Resent, client);
        }
        let fair_name = name.filter(|_| kinds::is_fair(call.script));
        let before = fair_name.map(|name| self.fair_state(node, name));
        let records_before = self.records_before(node, name, call);
        let job_before = self.job_state(node, call);
        let frees = matches!(role, Role::Release | Role::Force | Role::Limit);
        let kept_out = name.filter(|_| frees).map(|name| (name, self.kept_out_of(name)));
        let result = self.nodes[node].run(call, self.now);
        self.script_runs += 1;
        let is_yes = result.as_ref().is_ok_and(kinds::is_yes);
        self.note(trace::Line::Runs {
            client,
            node,
            call: call.id,
            script: call.script,
            owner,
            is_yes,
        });
        check_ttl(&mut self.nodes[node], &call.keys, self.now)?;
        if let (Some(name), Some(before), Some(after)) = (name, job_before, self.job_state(node, call)) {
            self.runs.ran(&Ran {
                name,
                call,
                before: &before,
                after: &after,
                result: &result,
                now: self.nodes[node].clock(self.now).as_micros() / 1_000,
                is_full: self.nodes[node].refusal == Some(FULL),
            })?;
        }
        // The end of a run is also confirmed to an owner whose earlier call has ended it, which `Runs` checks.
        let is_end_of_run = (role, record) == (Role::Release, Record::Run);
        if result.is_ok() && !is_end_of_run {
            check_answer(role, owner, had_it, is_yes)?;
        }
        if let (Some(name), Err(error), Role::Acquire) = (name, &result, role) {
            let holders = record.excludes().iter().map(|of| self.holders_of(node, name, *of));
            check_full(call, &holders.flatten().collect::<Vec<_>>(), error)?;
        }
        if let Some((name, kept_out)) = kept_out {
            self.on_freed(node, name, kept_out);
        }
        if let (Some(name), Some(records_before)) = (name, records_before) {
            self.check_after(node, name, call, (&records_before, had_it), &result)?;
        }
        if let Some(name) = name.filter(|_| role != Role::Inspect) {
            self.records_outlast(name)?;
        }
        if let (Some(name), Some((_, before)), Role::Acquire | Role::Renew) = (name, had.filter(|_| had_it), role) {
            let after = left(self.holders_of(node, name, record)).map(|(_, after)| after);
            check_length(role, owner, before, after)?;
        }
        if let (Some(name), Some(before)) = (fair_name, before) {
            self.check_queue(node, name, call, &before)?;
        }
        let token = result.as_ref().ok().and_then(granted_token);
        // The check of the queue has already looked at this token.
        let token = token.filter(|_| fair_name.is_none() || had_it);
        if let (Role::Acquire, Some(name), Some(token)) = (role, name, token) {
            self.fencing.granted(name, owner, token, had_it)?;
        }
        Ok(result)
    }

    /// Returns the records of the job that a call is about; `None` if it is about another kind of lock.
    pub(crate) fn job_state(&mut self, node: usize, call: &Call) -> Option<JobState> {
        let (role, record) = role(call.script);
        let name = self.name_of(call).filter(|_| record == Record::Run)?;
        let done = match role {
            Role::Acquire => call.keys.get(3),
            Role::Release => call.keys.get(2),
            _ => None,
        };
        let node = &mut self.nodes[node];
        let clock = node.clock(self.now);
        Some(JobState::read(
            &mut node.store,
            self.names[name].as_str(),
            done.map(|key| &**key),
            clock,
        ))
    }

    /// Returns the owners that a server has on record.
    pub(crate) fn holders(&mut self, node: usize, name: usize) -> Vec<OnRecord> {
        let records = self.records(name).into_iter();
        records.flat_map(|record| self.holders_of(node, name, record)).collect()
    }

    /// Returns the kinds of records that a name can have.
    pub(crate) fn records(&self, name: usize) -> BTreeSet<Record> {
        self.plan.names[name].iter().map(|kind| Record::of(*kind)).collect()
    }

    /// Returns the owners that a server has in one kind of record.
    pub(crate) fn holders_of(&mut self, node: usize, name: usize, record: Record) -> Vec<OnRecord> {
        let node = &mut self.nodes[node];
        let clock = node.clock(self.now);
        record.holders(&mut node.store, self.names[name].as_str(), clock)
    }

    /// Returns whether an owner lost the first of its permits and still has others. This happens if its permits expire,
    /// a script removes some of them, and the clock is set back. Such an owner holds nothing.
    fn is_split(&mut self, node: usize, name: Option<usize>, record: Record, id: Option<&[u8]>) -> bool {
        let Some((name, id)) = name.zip(id).filter(|_| record == Record::Permits) else {
            return false;
        };
        let node = &mut self.nodes[node];
        let clock = node.clock(self.now);
        !Record::has_first_permit(&mut node.store, self.names[name].as_str(), clock, id)
    }

    pub(crate) fn fair_state(&mut self, node: usize, name: usize) -> FairState {
        let node = &mut self.nodes[node];
        let clock = node.clock(self.now);
        fair_state(&mut node.store, self.names[name].as_str(), clock)
    }

    /// Checks a script of the fair lock: it must grant the lock in the right order, with a token that rises.
    fn check_queue(&mut self, node: usize, name: usize, call: &Call, before: &FairState) -> Checked {
        let after = self.fair_state(node, name);
        let callers = (kinds::callers(call), role(call.script).0 == Role::Release);
        let now = self.nodes[node].clock(self.now).as_micros();
        let granted = self
            .fair_queue
            .ran(name, (before, &after), (&callers.0, callers.1), now)?;
        self.check_next(node, name, call, (before, &after))?;
        let token = after.token.filter(|token| Some(*token) != before.token);
        // A poll draws a token for a waiter to which the server granted the lock earlier.
        let holder = after.holder.map(|(owner, _)| owner);
        let (owner, is_new) = match granted {
            Some(owner) => (Some(owner), true),
            None => (holder.filter(|_| call.script == Script::FairPoll), false),
        };
        match (owner, token) {
            (Some(owner), Some(token)) => {
                let owner = self.owner(&owner);
                self.fencing.granted(name, owner, token, !is_new)
            }
            _ => Ok(()),
        }
    }

    /// Returns the owners that wait on a server.
    pub(crate) fn waiters(&mut self, node: usize, name: usize) -> Vec<Vec<u8>> {
        let records = self.records(name).into_iter();
        let node = &mut self.nodes[node];
        let clock = node.clock(self.now);
        records
            .flat_map(|record| record.waiters(&mut node.store, self.names[name].as_str(), clock))
            .collect()
    }
}
