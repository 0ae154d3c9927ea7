//! Reads the records of locks on the servers, without acquiring a lock.
//!
//! ```text
//! list                      all locks that are held, on all servers
//! page                      the records among the keys of one page of SCAN
//! inspect                   everything about one name
//! jobs                      the last runs of jobs
//! locked                    a lock that is held, as it is listed
//! clients                   the program and the machine of each owner
//! answers                   reads the servers' answers
//! owner                     what an owner id says about its owner
//! ```

mod answers;
mod clients;
mod inspect;
mod jobs;
mod list;
mod locked;
mod owner;
mod page;

pub(crate) use inspect::{Hold, Inspected, inspect};
pub(crate) use jobs::{SeenJob, jobs};
pub(crate) use list::{Filter, Listing, list, names};
pub(crate) use locked::Locked;
pub(crate) use owner::Owner;
