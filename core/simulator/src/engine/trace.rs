//! Everything that happens in a history: hashed, the last part kept, and printed on request.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::Clock;
use crate::fnv::Fnv;

/// The number of lines that are shown with a violation.
const KEPT: usize = 60;

pub(super) struct Trace {
    clock: Clock,
    print: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hash: Fnv,
    steps: u64,
    last: VecDeque<String>,
}

impl Trace {
    pub(super) fn new(clock: Clock, print: bool) -> Arc<Self> {
        Arc::new(Self {
            clock,
            print,
            state: Mutex::default(),
        })
    }

    pub(super) fn note(&self, what: Arguments<'_>) {
        let micros = self.clock.micros();
        let line = format!("{:>4}.{:06} {what}", micros / 1_000_000, micros % 1_000_000);
        if self.print {
            println!("{line}");
        }
        let mut state = self.lock();
        state.hash.write(line.as_bytes());
        state.steps += 1;
        if state.last.len() == KEPT {
            state.last.pop_front();
        }
        state.last.push_back(line);
    }

    pub(super) fn hash(&self) -> u64 {
        self.lock().hash.finish()
    }

    pub(super) fn steps(&self) -> u64 {
        self.lock().steps
    }

    pub(super) fn last(&self) -> Vec<String> {
        self.lock().last.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
