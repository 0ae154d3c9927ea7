//! What the options name: files, and the name that certificates are to have.

use std::borrow::Cow;

use steadlock_protocol::{Error, shown};

use crate::errors::invalid;

/// A program's options for TLS.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    /// The authorities to trust instead of the system's.
    pub(super) ca: Option<String>,
    /// The client's certificate and its key.
    pub(super) client: Option<(String, String)>,
    /// What the servers' certificates are to be for, instead of the host that is connected to.
    pub(super) server_name: Option<String>,
}

pub(crate) const CA: &str = "tls_ca_file";
pub(crate) const CERT: &str = "tls_cert_file";
pub(crate) const KEY: &str = "tls_key_file";
pub(crate) const SERVER_NAME: &str = "tls_server_name";

impl TlsOptions {
    /// The options, if they go together.
    pub(crate) fn new(
        ca: Option<String>,
        cert: Option<String>,
        key: Option<String>,
        server_name: Option<String>,
    ) -> Result<Self, Error> {
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return Err(alone(CERT, KEY)),
            (None, Some(_)) => return Err(alone(KEY, CERT)),
        };
        Ok(Self {
            ca,
            client,
            server_name,
        })
    }

    /// The name of the first option that is given.
    pub(crate) const fn first(&self) -> Option<&'static str> {
        match (&self.ca, &self.client, &self.server_name) {
            (Some(_), ..) => Some(CA),
            (None, Some(_), _) => Some(CERT),
            (None, None, Some(_)) => Some(SERVER_NAME),
            (None, None, None) => None,
        }
    }

    /// Whether certificates are to be for another name than the host's.
    #[cfg(feature = "native")]
    pub(crate) const fn has_server_name(&self) -> bool {
        self.server_name.is_some()
    }

    /// The file of authorities, as messages show it.
    #[cfg(feature = "native")]
    pub(crate) fn ca_shown(&self) -> Option<Cow<'_, str>> {
        self.ca.as_deref().map(shown_path)
    }

    /// The file of the client's certificate, as messages show it.
    #[cfg(feature = "native")]
    pub(crate) fn cert_shown(&self) -> Option<Cow<'_, str>> {
        self.client.as_ref().map(|(cert, _)| shown_path(cert))
    }
}

/// A path as messages show it. If a caller gave the text of a key, or a URL, in place of
/// a path, its secrets are not shown.
pub(crate) fn shown_path(path: &str) -> Cow<'_, str> {
    if is_key_text(path) {
        "(not a path; not shown)".into()
    } else {
        shown(path)
    }
}

/// Whether this may be a certificate or a key, and not the path of one.
pub(super) fn is_key_text(path: &str) -> bool {
    let is_base64 = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '/' | '=');
    // The shortest key has more letters in base64. It never begins with a slash.
    let is_long = |run: &str| run.len() >= 48;
    is_pem_text(path) || (!path.starts_with('/') && path.split(|letter| !is_base64(letter)).any(is_long))
}

/// Whether this is PEM for sure.
pub(super) fn is_pem_text(path: &str) -> bool {
    path.contains("-----BEGIN") || path.contains(char::is_control)
}

fn alone(given: &str, missing: &str) -> Error {
    invalid(format!(
        "{given} is given without {missing}; a certificate and its key go together"
    ))
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;

    #[test]
    fn a_certificate_and_its_key_go_together() {
        for (cert, key, missing) in [(Some("/c"), None, KEY), (None, Some("/k"), CERT)] {
            let error = TlsOptions::new(None, cert.map(Into::into), key.map(Into::into), None)
                .err()
                .unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(missing), "{error}");
        }
    }
}
