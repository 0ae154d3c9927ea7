//! The results that users see for each error of a server: one table for all versions, tested on a real server.
//! `STEADLOCK_TEST_SERVER` names the version.

#![allow(unreachable_pub, reason = "what the modules of this binary share")]

mod cells;
mod lasting;
#[path = "../support/mod.rs"]
mod support;
mod trouble;

use cells::Operation::{Behind, SetLimit};
use cells::OperationResult::{Held, Kept, LockLost, Lost, Misconfigured, Stolen, Unavailable, Unknown, Works};
use cells::{Kind, Operation, OperationResult, check};
use trouble::Trouble;

/// The results of all operations during one error.
struct Row {
    error: Trouble,
    /// A word in the message of every refusal.
    word: &'static str,
    /// The results in the order of [`Operation::ALL`].
    results: [OperationResult; 10],
    /// Operations on kinds of locks that have another result.
    exceptions: &'static [(&'static [Operation], &'static [Kind], OperationResult)],
}

const fn row(error: Trouble, word: &'static str, results: [OperationResult; 10]) -> Row {
    Row {
        error,
        word,
        results,
        exceptions: &[],
    }
}

impl Row {
    const fn exceptions(
        mut self,
        exceptions: &'static [(&'static [Operation], &'static [Kind], OperationResult)],
    ) -> Self {
        self.exceptions = exceptions;
        self
    }

    fn expected(&self, operation: Operation, kind: Kind) -> OperationResult {
        let applies = |(operations, kinds, _): &&(&[Operation], &[Kind], OperationResult)| {
            operations.contains(&operation) && kinds.contains(&kind)
        };
        let exception = self.exceptions.iter().find(applies);
        exception.map_or(self.results[operation as usize], |(_, _, result)| *result)
    }
}

/// The kinds whose waiters write to the server, and therefore learn that it refuses writes.
const KINDS_THAT_WRITE_TO_WAIT: &[Kind] = &[Kind::Fair, Kind::Read, Kind::Write];
const WITHOUT_TOKEN: &[Kind] = &[Kind::Read, Kind::Semaphore];

/// The table. Its columns are [`Operation::ALL`]: connect, acquire, wait for a free lock, wait behind a holder; renew,
/// release, extend; inspect, force, set the limit.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    row(Trouble::Full, "OOM", [
        Works, Unavailable, Unavailable, Held, Works, Works, Works, Works, Works, Unavailable,
    ]),
    // The first refused write ends the client's connections. The holder that a replica reports is not trusted.
    row(Trouble::ReadOnly, "replica", [
        Misconfigured, Unavailable, Unavailable, Unavailable, Kept, Unknown, Unavailable, Works, Unavailable,
        Unavailable,
    ]),
    row(Trouble::MasterDown, "replica", [
        Misconfigured, Unavailable, Unavailable, Unavailable, Kept, Unknown, Unavailable, Unavailable, Unavailable,
        Unavailable,
    ]),
    row(Trouble::Loading, "loading", [
        Unavailable, Unavailable, Unavailable, Unavailable, Kept, Unknown, Unavailable, Unavailable, Unavailable,
        Unavailable,
    ]),
    row(Trouble::Busy, "busy", [
        Unavailable, Unavailable, Unavailable, Unavailable, Kept, Unknown, Unavailable, Unavailable, Unavailable,
        Unavailable,
    ]),
    row(Trouble::NoScript, "", [
        Works, Works, Works, Held, Works, Works, Works, Works, Works, Works,
    ]),
    row(Trouble::WrongType, "not a lock", [
        Works, Misconfigured, Misconfigured, Misconfigured, Lost, Stolen, LockLost, Misconfigured, Misconfigured,
        Misconfigured,
    ]),
    row(Trouble::OtherForm, "not a lock", [
        Works, Misconfigured, Misconfigured, Misconfigured, Lost, Stolen, LockLost, Misconfigured, Misconfigured,
        Misconfigured,
    ]),
    row(Trouble::BadToken, "fencing token", [
        Works, Misconfigured, Misconfigured, Held, Works, Works, Works, Works, Works, Works,
    ])
    .exceptions(&[
        (&[Operation::Acquire, Operation::Wait], WITHOUT_TOKEN, Works),
        // Another client can grant a fair lock to a waiter in its queue, so the script checks the token beforehand.
        (&[Behind], &[Kind::Fair], Misconfigured),
    ]),
    row(Trouble::NoAuth, "password", [
        Misconfigured, Unavailable, Unavailable, Unavailable, Kept, Unknown, Unavailable, Unavailable, Unavailable,
        Unavailable,
    ]),
    row(Trouble::WrongPass, "password", [
        Misconfigured, Unavailable, Unavailable, Unavailable, Kept, Unknown, Unavailable, Unavailable, Unavailable,
        Unavailable,
    ]),
    row(Trouble::NoPerm, "evalsha", [
        Works, Misconfigured, Misconfigured, Misconfigured, Kept, Misconfigured, Misconfigured, Misconfigured,
        Misconfigured, Misconfigured,
    ]),
    row(Trouble::NoReplicas, "NOREPLICAS", [
        Works, Unavailable, Unavailable, Held, Kept, Unknown, Unavailable, Works, Unavailable, Unavailable,
    ])
    .exceptions(&[(&[Behind], KINDS_THAT_WRITE_TO_WAIT, Unavailable)]),
    row(Trouble::CannotSave, "MISCONF", [
        Works, Unavailable, Unavailable, Held, Kept, Unknown, Unavailable, Works, Unavailable, Unavailable,
    ])
    .exceptions(&[(&[Behind], KINDS_THAT_WRITE_TO_WAIT, Unavailable)]),
    // The server sends the reason and closes the connection at once, so the client may not receive it.
    row(Trouble::MaxClients, "", [
        Unavailable, Unavailable, Unavailable, Unavailable, Kept, Unknown, Unavailable, Unavailable, Unavailable,
        Unavailable,
    ]),
];

/// Makes a test for each row.
macro_rules! each_error {
    ($($test:ident: $error:expr,)*) => {
        $(#[tokio::test]
        async fn $test() {
            let row = TABLE.iter().find(|row| row.error == $error).expect("a row");
            check($error, row.word, |operation, kind| row.expected(operation, kind)).await;
        })*

        #[test]
        fn every_error_has_a_row_and_a_test() {
            let tested = [$($error),*];
            let rows: Vec<Trouble> = TABLE.iter().map(|row| row.error).collect();
            assert_eq!((rows.as_slice(), tested.as_slice()), (Trouble::ALL, Trouble::ALL));
            for row in TABLE {
                let known = |(operations, _, _): &(&[Operation], &[Kind], OperationResult)| !operations.contains(&SetLimit);
                assert!(row.exceptions.iter().all(known), "{:?}: only semaphores have a limit", row.error);
            }
        }
    };
}

each_error! {
    oom_a_full_server: Trouble::Full,
    readonly_a_primary_that_became_a_replica: Trouble::ReadOnly,
    masterdown_a_replica_that_lost_its_primary: Trouble::MasterDown,
    loading_a_server_that_reads_its_data: Trouble::Loading,
    busy_a_script_of_another_that_does_not_end: Trouble::Busy,
    noscript_a_server_that_forgot_its_scripts: Trouble::NoScript,
    wrongtype_a_key_that_holds_something_else: Trouble::WrongType,
    a_key_of_the_right_type_that_holds_no_lock: Trouble::OtherForm,
    a_token_that_is_none: Trouble::BadToken,
    noauth_a_server_that_got_a_password: Trouble::NoAuth,
    wrongpass_a_password_that_was_changed: Trouble::WrongPass,
    noperm_a_right_that_was_taken_away: Trouble::NoPerm,
    noreplicas_writes_that_want_replicas: Trouble::NoReplicas,
    misconf_a_server_that_cannot_save: Trouble::CannotSave,
    maxclients_a_server_that_takes_no_more_connections: Trouble::MaxClients,
}
