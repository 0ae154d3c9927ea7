//! How one gets in: what the URL says, and whether one gets in without a password.

use std::net::ToSocketAddrs as _;
use std::thread;

use steadlock::admin::{CallError, ServerUrl, Servers};
use steadlock::{Builder, Error, ErrorKind};
use tokio::sync::oneshot;

use super::asking::silence;
use crate::doctor::facts::Fact;
use crate::server::ServerOptions;

/// The way in that a URL describes.
pub(super) struct Door<'a> {
    url: ServerUrl,
    options: &'a ServerOptions,
}

impl<'a> Door<'a> {
    /// # Errors
    /// `InvalidArgument` if it is no URL of a server.
    pub(super) fn new(url: &str, options: &'a ServerOptions) -> Result<Self, Error> {
        let url = ServerUrl::parse(url)?;
        Ok(Self { url, options })
    }

    pub(super) const fn is_encrypted(&self) -> bool {
        self.url.has_tls()
    }

    /// The number of the database, as the URL has it.
    pub(super) const fn database(&self) -> i64 {
        self.url.database()
    }

    /// Whether the default user of the server at an address may read a key without a password.
    pub(super) async fn is_open(&self, address: &str, is_node: bool, key: &[u8]) -> Fact<bool> {
        if !self.url.has_password() {
            return Fact::Known(true);
        }
        let security = if self.is_encrypted() { "rediss" } else { "redis" };
        let scheme = match (address.starts_with('/'), is_node) {
            (true, _) => "redis+unix".to_owned(),
            (false, true) => format!("{security}+cluster"),
            (false, false) => security.to_owned(),
        };
        let Ok(stranger) = self.options.builder_of(&[format!("{scheme}://{address}")]) else {
            return Fact::Unknown("its address is that of no server".into());
        };
        match asked(stranger, address, key).await {
            Ok(is_open) => Fact::Known(is_open),
            // The server answers others, so it is the login that it refuses.
            Err(error) if error.kind() == ErrorKind::Misconfigured => Fact::Known(false),
            Err(error) => Fact::Unknown(silence(&error)),
        }
    }
}

/// Whether a server lets such a stranger read a key.
async fn asked(stranger: Builder, address: &str, key: &[u8]) -> Result<bool, Error> {
    let mut servers = Servers::open(stranger).await?;
    let all = servers.deployments_mut().iter_mut().flat_map(|one| one.primaries_mut());
    let Some(server) = all.into_iter().find(|server| server.address() == address) else {
        return Ok(false);
    };
    let answer = server.ask(&[b"GET", key]).await?;
    Ok(!matches!(answer, Err(CallError::Server { code, .. }) if matches!(code.as_str(), "NOPERM" | "NOAUTH")))
}

/// Whether the way to an address stays on this machine.
pub(super) async fn is_local(address: &str) -> bool {
    if address.starts_with('/') {
        return true;
    }
    let address = address.to_owned();
    let (tell, told) = oneshot::channel();
    let look_up = move || {
        // Nobody who went away before the answer can be told.
        let _ = tell.send(address.to_socket_addrs().map(Vec::from_iter));
    };
    // tokio's own look-up panics where no thread can be had.
    if thread::Builder::new().spawn(look_up).is_err() {
        return false;
    }
    match told.await {
        Ok(Ok(found)) => !found.is_empty() && found.iter().all(|one| one.ip().to_canonical().is_loopback()),
        _ => false,
    }
}
