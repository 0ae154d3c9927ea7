//! The kinds of lock. A kind is one constant table: how it excludes, its keys, its
//! scripts and what their replies mean. The machine that uses it is one for all.
//!
//! ```text
//! lock, mutex, fair, read_write, semaphore   one table for each kind, or side
//! spec                                       the columns of these tables
//! kind                                       which table is which kind's: `Kind::spec`
//! keys                                       the calls that a table makes for one lock
//! lock_key                                   which key of a server is what, for those who look
//! replies, permits                           what comes back; a semaphore's numbers
//! ```

mod fair;
mod keys;
mod kind;
#[cfg(test)]
mod layout;
mod lock;
mod lock_key;
mod mutex;
mod permits;
mod read_write;
mod replies;
mod semaphore;
mod spec;

pub(crate) use keys::{Attempt, Invocation, Keys};
pub use kind::Kind;
pub use lock_key::LockKey;
pub use permits::Permits;
pub(crate) use replies::{Answer, Record, parse_grant, parse_number, parse_record};
pub(crate) use spec::{Again, Gate, Holders, Inside};
