//! `steadlock doctor` reports the faults of servers with wrong settings, and reports none on good servers.

mod addresses;
#[path = "../../../client/tests/support/certificates.rs"]
mod certificates;
mod faults;
mod faulty_proxy;
mod groups;
mod operations;
mod permissions;
mod recommended;
mod report;
#[path = "../../../client/tests/support/mod.rs"]
mod support;
