//! `steadlock serve --http` with the requests of browsers and of clients for Upstash's REST API. The tests with the
//! official client are in `ci/upstash`.

mod bounds;
mod commands;
mod files;
mod guard;
mod messages;
mod support;
