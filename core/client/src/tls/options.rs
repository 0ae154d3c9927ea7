//! The TLS options: paths of files, and the name that certificates must have.

use std::borrow::Cow;

use steadlock_protocol::{Error, shown};

use crate::errors::invalid;

/// The TLS options as a program gives them.
#[derive(Default)]
pub(crate) struct UncheckedTlsOptions {
    pub(crate) ca: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) server_name: Option<String>,
}

/// The paths of a client's certificate and of its key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ClientCertificate {
    pub(super) cert: String,
    pub(super) key: String,
}

/// The TLS options of a program.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    /// The authorities to trust instead of those of the system.
    pub(super) ca: Option<String>,
    pub(super) client: Option<ClientCertificate>,
    /// The name that the servers' certificates must have, instead of the host that the client connects to.
    pub(super) server_name: Option<String>,
}

pub(crate) const CA: &str = "tls_ca_file";
pub(crate) const CERT: &str = "tls_cert_file";
pub(crate) const KEY: &str = "tls_key_file";
pub(crate) const SERVER_NAME: &str = "tls_server_name";

impl TlsOptions {
    /// Checks the options. Fails if a certificate is given without its key, or a key without its certificate.
    pub(crate) fn check(options: UncheckedTlsOptions) -> Result<Self, Error> {
        let client = match (options.cert, options.key) {
            (Some(cert), Some(key)) => Some(ClientCertificate { cert, key }),
            (None, None) => None,
            (Some(_), None) => return Err(missing_partner(CERT, KEY)),
            (None, Some(_)) => return Err(missing_partner(KEY, CERT)),
        };
        Ok(Self {
            ca: options.ca,
            client,
            server_name: options.server_name,
        })
    }

    /// Returns the name of the first option that is given.
    pub(crate) const fn first(&self) -> Option<&'static str> {
        match (&self.ca, &self.client, &self.server_name) {
            (Some(_), ..) => Some(CA),
            (None, Some(_), _) => Some(CERT),
            (None, None, Some(_)) => Some(SERVER_NAME),
            (None, None, None) => None,
        }
    }

    /// Whether the servers' certificates must have another name than the host.
    #[cfg(feature = "native")]
    pub(crate) const fn has_server_name(&self) -> bool {
        self.server_name.is_some()
    }

    /// Returns the path of the authorities' file, as messages show it.
    #[cfg(feature = "native")]
    pub(crate) fn ca_shown(&self) -> Option<Cow<'_, str>> {
        self.ca.as_deref().map(shown_path)
    }

    /// Returns the path of the client's certificate, as messages show it.
    #[cfg(feature = "native")]
    pub(crate) fn cert_shown(&self) -> Option<Cow<'_, str>> {
        self.client.as_ref().map(|client| shown_path(&client.cert))
    }
}

/// Returns a path as messages show it. If a caller gave the text of a key or a URL instead, its secrets are left out.
pub(crate) fn shown_path(path: &str) -> Cow<'_, str> {
    if is_key_text(path) {
        "(not a path; not shown)".into()
    } else {
        shown(path)
    }
}

/// Whether this text may be a certificate or a key instead of the path of one.
pub(super) fn is_key_text(path: &str) -> bool {
    let is_base64 = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '/' | '=');
    // Even the shortest key has more than 48 characters in base64. A key never begins with a slash.
    let is_long = |run: &str| run.len() >= 48;
    is_pem_text(path) || (!path.starts_with('/') && path.split(|letter| !is_base64(letter)).any(is_long))
}

/// Whether this text is surely no path: it has a PEM header, or a control character such as a line feed.
pub(super) fn is_pem_text(path: &str) -> bool {
    path.contains("-----BEGIN") || path.contains(char::is_control)
}

fn missing_partner(given: &str, missing: &str) -> Error {
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
            let unchecked = UncheckedTlsOptions {
                cert: cert.map(Into::into),
                key: key.map(Into::into),
                ..UncheckedTlsOptions::default()
            };
            let error = TlsOptions::check(unchecked).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(missing), "{error}");
        }
    }
}
