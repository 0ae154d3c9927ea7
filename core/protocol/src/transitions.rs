//! For tests: compares what the state machines do with their drawings, and records which drawn transitions were taken.
//!
//! Next to each machine, `drawing.rs` has the machine's drawing as rows. The machine compares its states before and
//! after each input. A change without a row fails the test that caused it. All other changes are recorded, and
//! `machines/check.rs` lists the rows that no test has taken. Without tests and without the feature `transitions`, this
//! module does nothing.

#[cfg(any(test, feature = "transitions"))]
pub(crate) use self::noted::{Drawn, GONE, Labelled, NEW, Row, State, after, before};
#[cfg(not(any(test, feature = "transitions")))]
pub(crate) use self::unnoted::{after, before};

#[cfg(any(test, feature = "transitions"))]
mod noted {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::{Mutex, PoisonError};

    use crate::io::Io;

    /// A state, an input, and the next state.
    pub(crate) type Row = (&'static str, &'static str, &'static str);
    /// The name of a state in the drawing, and a number. A changed number shows that an input had an effect although
    /// the state has the same name.
    pub(crate) type State = (&'static str, u64);

    /// The state of an item that did not exist before the input.
    pub(crate) const NEW: &str = "new";
    /// The state of an item that no longer exists after the input.
    pub(crate) const GONE: &str = "gone";

    /// A machine whose drawing is a table of rows.
    pub(crate) trait Drawn {
        /// The id of an item that the machine keeps.
        type Id: Ord;
        /// The name of such an item.
        const NAME: &'static str;
        /// The rows of the drawing.
        const ROWS: &'static [Row];

        /// Returns the states of all items.
        fn states(&self, io: &Io) -> BTreeMap<Self::Id, State>;

        /// Returns the final state of an item that no longer exists.
        fn ending(_io: &Io, _id: &Self::Id) -> &'static str {
            GONE
        }
    }

    /// An input that has a name in the drawing.
    pub(crate) trait Labelled {
        fn label(&self) -> &'static str;
    }

    /// The states of a machine before an input.
    pub(crate) struct Before<Id> {
        label: &'static str,
        states: BTreeMap<Id, State>,
    }

    pub(crate) fn before<M: Drawn>(machine: &M, io: &Io, input: &impl Labelled) -> Before<M::Id> {
        Before {
            label: input.label(),
            states: machine.states(io),
        }
    }

    /// Records the transitions since `before`.
    pub(crate) fn after<M: Drawn>(machine: &M, io: &Io, before: &Before<M::Id>) {
        let states = machine.states(io);
        for (id, from) in &before.states {
            match states.get(id) {
                Some(to) if to == from => {}
                Some(to) => took::<M>((from.0, before.label, to.0)),
                None => took::<M>((from.0, before.label, M::ending(io, id))),
            }
        }
        for (_, to) in states.iter().filter(|(id, _)| !before.states.contains_key(id)) {
            took::<M>((NEW, before.label, to.0));
        }
    }

    fn took<M: Drawn>(row: Row) {
        let line = written(M::NAME, row);
        assert!(M::ROWS.contains(&row), "not drawn: {line}");
        note(line);
    }

    /// Returns a row as a line of the file that `note` writes.
    pub(crate) fn written(name: &str, (from, input, to): Row) -> String {
        format!("{name}: {from} -- {input} --> {to}")
    }

    /// Adds a row to the file that `STEADLOCK_TRANSITIONS` names, if the variable is set. Each process adds a row once.
    fn note(line: String) {
        static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let Some(path) = std::env::var_os("STEADLOCK_TRANSITIONS") else {
            return;
        };
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.contains(&line) {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
            assert!(written.is_ok(), "{written:?}");
            noted.insert(line);
        }
    }
}

#[cfg(test)]
pub(crate) use self::noted::written;

#[cfg(not(any(test, feature = "transitions")))]
mod unnoted {
    use crate::io::Io;

    pub(crate) struct Before;

    #[inline(always)]
    pub(crate) const fn before<M, I>(_machine: &M, _io: &Io, _input: &I) -> Before {
        Before
    }

    #[inline(always)]
    pub(crate) const fn after<M>(_machine: &M, _io: &Io, _before: &Before) {}
}
