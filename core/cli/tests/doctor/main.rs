//! `steadlock doctor` names what is wrong with servers that are set wrong on purpose, and is silent on good ones.

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
