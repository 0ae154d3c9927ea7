//! What is on the servers: the records of locks, as somebody reads them who holds none.
//!
//! ```text
//! list                      all locks that are held, of all servers
//! page                      which keys of a page are records, in a few bounded reads
//! inspect                   all that there is of one name
//! locked                    a lock that is held, as it is listed
//! clients                   which programs the owners are
//! answers                   what servers answer, read
//! owner                     who an owner id is
//! ```

mod answers;
mod clients;
mod inspect;
mod list;
mod locked;
mod owner;
mod page;

pub(crate) use inspect::{Hold, Inspected, inspect};
pub(crate) use list::{Filter, Listing, list};
pub(crate) use locked::Locked;
pub(crate) use owner::Owner;
