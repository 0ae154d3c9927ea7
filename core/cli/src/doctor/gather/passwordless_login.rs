//! The login that the URL describes, and whether a login also works without a password.

use std::net::ToSocketAddrs as _;
use std::thread;

use steadlock::admin::{CallError, ServerUrl, Servers};
use steadlock::{Builder, Error, ErrorKind};
use tokio::sync::oneshot;

use super::asking::no_answer_reason;
use crate::doctor::facts::Fact;

/// The address and login that a URL describes.
pub(super) struct Login<'a> {
    url: ServerUrl,
    /// Returns the options of a client for the URL of a server that was reached.
    client_of_reached: &'a dyn Fn(&str) -> Option<Builder>,
}

impl<'a> Login<'a> {
    /// Parses the URL.
    ///
    /// # Errors
    /// Fails with `InvalidArgument` if the text is not the URL of a server.
    pub(super) fn new(url: &str, client_of_reached: &'a dyn Fn(&str) -> Option<Builder>) -> Result<Self, Error> {
        let url = ServerUrl::parse(url)?;
        Ok(Self { url, client_of_reached })
    }

    pub(super) const fn is_encrypted(&self) -> bool {
        self.url.has_tls()
    }

    /// The number of the database in the URL.
    pub(super) const fn database(&self) -> i64 {
        self.url.database()
    }

    /// Returns whether the default user can read a key without a password, at the server with this address.
    pub(super) async fn is_open(&self, address: &str, is_node: bool, key: &[u8]) -> Fact<bool> {
        if !self.url.has_password() {
            // The doctor itself has logged in without a password.
            return Fact::Known(true);
        }
        let security = if self.is_encrypted() { "rediss" } else { "redis" };
        let scheme = match (address.starts_with('/'), is_node) {
            (true, _) => "redis+unix".to_owned(),
            (false, true) => format!("{security}+cluster"),
            (false, false) => security.to_owned(),
        };
        let Some(client_without_password) = (self.client_of_reached)(&format!("{scheme}://{address}")) else {
            return Fact::Unknown("its address is that of no server".into());
        };
        match can_read(client_without_password, address, key).await {
            Ok(is_open) => Fact::Known(is_open),
            // The server answers other logins, so `Misconfigured` means that it refuses this one.
            Err(error) if error.kind() == ErrorKind::Misconfigured => Fact::Known(false),
            Err(error) => Fact::Unknown(no_answer_reason(&error)),
        }
    }
}

/// Returns whether a server lets this client, which has no password, read a key.
async fn can_read(client_without_password: Builder, address: &str, key: &[u8]) -> Result<bool, Error> {
    let mut servers = Servers::open(client_without_password).await?;
    let all = servers.deployments_mut().iter_mut().flat_map(|one| one.primaries_mut());
    let Some(server) = all.into_iter().find(|server| server.address() == address) else {
        return Ok(false);
    };
    server.accept_any();
    let answer = server.ask(&[b"GET", key]).await?;
    Ok(!matches!(answer, Err(CallError::Server { code, .. }) if matches!(code.as_str(), "NOPERM" | "NOAUTH")))
}

/// Returns whether the connection to an address stays on this machine.
pub(super) async fn is_local(address: &str) -> bool {
    if address.starts_with('/') {
        return true;
    }
    let address = address.to_owned();
    let (sender, receiver) = oneshot::channel();
    let look_up = move || {
        // The send fails only if the receiver is gone, and then the result is not needed.
        let _ = sender.send(address.to_socket_addrs().map(Vec::from_iter));
    };
    // tokio's own look-up is not used, because it panics if the system refuses a new thread.
    if thread::Builder::new().spawn(look_up).is_err() {
        return false;
    }
    match receiver.await {
        Ok(Ok(found)) => !found.is_empty() && found.iter().all(|one| one.ip().to_canonical().is_loopback()),
        _ => false,
    }
}
