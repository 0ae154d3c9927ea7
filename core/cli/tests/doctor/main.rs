//! `steadlock doctor` reports the faults of servers with wrong settings, and reports none on good servers.

mod addresses;
#[path = "../../../client/tests/support/certificates.rs"]
mod certificates;
mod faults;
mod good;
mod groups;
mod liar;
mod operations;
mod permissions;
mod report;
#[path = "../../../client/tests/support/mod.rs"]
mod support;
