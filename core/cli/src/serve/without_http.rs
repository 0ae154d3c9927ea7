//! Replaces `with_http` in a command without the feature `http`: `serve` has no options for HTTP, and no site.

use std::net::IpAddr;

use steadlock_store::server::Server;

use super::{BindError, Listener};
use crate::exit::Exit;

/// No options.
#[derive(clap::Args)]
pub(super) struct HttpOptions {}

impl HttpOptions {
    pub(super) const fn ip(&self) -> Option<IpAddr> {
        None
    }

    pub(super) const fn read_token(&self) -> Result<Option<Vec<u8>>, Exit> {
        Ok(None)
    }

    pub(super) const fn require_token(&self, _token: Option<&[u8]>) -> Result<(), Exit> {
        Ok(())
    }

    pub(super) fn site(&self, _token: Option<Vec<u8>>) -> Result<Option<HttpSite>, Exit> {
        Ok(None)
    }
}

/// The type of a site. It has no values, because this command serves none.
pub(super) enum HttpSite {}

impl HttpSite {
    pub(super) async fn bind(self, _server: &Server) -> Result<Listener, BindError> {
        match self {}
    }
}
