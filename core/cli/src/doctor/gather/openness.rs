//! How one gets in: what the URL says, and whether one gets in without a password.

use steadlock::admin::{CallError, Servers};
use steadlock::{Builder, Error, ErrorKind};
use tokio::net::lookup_host;

use super::asking::silence;
use crate::doctor::facts::Fact;
use crate::server::ServerOptions;

/// The way in that a URL describes.
pub(super) struct Door<'a> {
    url: &'a str,
    options: &'a ServerOptions,
}

impl<'a> Door<'a> {
    pub(super) const fn new(url: &'a str, options: &'a ServerOptions) -> Self {
        Self { url, options }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.url
            .get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case("rediss"))
    }

    /// The number of the database, as the URL has it.
    pub(super) fn database(&self) -> i64 {
        let (path, query) = self.url.split_once('?').unwrap_or((self.url, ""));
        let last = path.rsplit_once('/').map_or("", |(_, last)| last);
        let named = query.split('&').find_map(|pair| pair.strip_prefix("db="));
        last.parse().ok().or_else(|| named?.parse().ok()).unwrap_or(0)
    }

    fn has_password(&self) -> bool {
        let (_, rest) = self.url.split_once("://").unwrap_or(("", self.url));
        let authority = rest.split(['/', '?']).next().unwrap_or(rest);
        authority.contains('@')
    }

    /// Whether the default user of the server at an address may read a key without a password.
    pub(super) async fn is_open(&self, address: &str, is_node: bool, key: &[u8]) -> Fact<bool> {
        if !self.has_password() {
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
    match lookup_host(address).await {
        Ok(found) => {
            let mut found = found.peekable();
            found.peek().is_some() && found.all(|one| one.ip().to_canonical().is_loopback())
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whether_there_is_a_password_tls_and_a_database() {
        for (url, has_password, is_encrypted, database) in [
            ("redis://h", false, false, 0),
            ("redis://h:6379/3", false, false, 3),
            ("rediss://user:word@h:6379", true, true, 0),
            ("rediss+cluster://:word@h,i", true, true, 0),
            ("redis+sentinel://h,i/main?sentinel_user=a", false, false, 0),
            ("redis+sentinel://h,i/main/2", false, false, 2),
            ("redis+unix:///tmp/a.sock?db=4", false, false, 4),
        ] {
            let options = ServerOptions::default();
            let door = Door::new(url, &options);
            assert_eq!(door.has_password(), has_password, "{url}");
            assert_eq!(door.is_encrypted(), is_encrypted, "{url}");
            assert_eq!(door.database(), database, "{url}");
        }
    }
}
