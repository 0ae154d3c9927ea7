//! `steadlock serve --http`, as clients of Upstash's REST API and browsers ask it. The official client has its tests
//! in `ci/upstash`.

mod bounds;
mod commands;
mod files;
mod guard;
mod messages;
mod support;
