//! The files, read: what connections of this process use.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use leasehold_protocol::{Error, ErrorKind, Operation, shown};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, InconsistentKeys, RootCertStore};

use super::files::{CA, CERT, KEY, TlsFiles, invalid, is_key_text, is_pem_text};

/// The files, read.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) files: TlsFiles,
    /// Everything but the client's certificate.
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) client: Option<Arc<CertifiedKey>>,
    pub(crate) read_at: Instant,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// `InvalidArgument` for text in a path's place; `Misconfigured` for a file that
    /// cannot be read or is not what it should be.
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let roots = match &files.ca {
            Some(path) => authorities(path)?,
            None => authorities_of_the_system()?,
        };
        let client = match &files.client {
            Some((cert, key)) => Some(Arc::new(certified_key(cert, key, &provider)?)),
            None => None,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| misconfigured(format!("no version of TLS can be used: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // A resumed session is not checked anew: its certificate may have ended since.
        config.resumption = Resumption::disabled();
        Ok(Self {
            files: files.clone(),
            config: Arc::new(config),
            client,
            read_at: Instant::now(),
        })
    }

    /// What one connection uses; `who` says who this client is.
    pub(crate) fn config(&self, who: Arc<dyn ResolvesClientCert>) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.client_auth_cert_resolver = who;
        Arc::new(config)
    }
}

/// Two servers are told apart by their addresses.
impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn authorities(path: &str) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(CA, path, &read(CA, path)?)? {
        roots.add(certificate).map_err(|_| {
            misconfigured(format!(
                "{CA}: {path} has a certificate that is malformed; give X.509 certificates"
            ))
        })?;
    }
    Ok(roots)
}

fn authorities_of_the_system() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that nothing can read.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(misconfigured(format!(
            "no certificate authorities are installed on this system; install them, or name a file of them by {CA}"
        )));
    }
    Ok(roots)
}

fn certified_key(cert: &str, key: &str, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    let (chain, der) = (read(CERT, cert)?, read(KEY, key)?);
    let chain = certificates(CERT, cert, &chain)?;
    let der = PrivateKeyDer::from_pem_slice(&der).map_err(|error| {
        misconfigured(match error {
            pem::Error::NoItemsFound => {
                format!("{KEY}: {key} holds no private key; give one in PEM that is not encrypted")
            }
            _ => malformed(KEY, key),
        })
    })?;
    // The errors of a key may describe it.
    CertifiedKey::from_der(chain, der, provider).map_err(|error| {
        misconfigured(match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("{KEY}: {key} is not the key of the certificate in {CERT}, {cert}; give the two that belong together")
            }
            rustls::Error::InvalidCertificate(_) => {
                format!("{CERT}: {cert} has a certificate that is malformed; give X.509 certificates")
            }
            _ => format!("{KEY}: {key} holds a key that cannot be used; give one of RSA, ECDSA or Ed25519"),
        })
    })
}

fn certificates(option: &str, path: &str, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_slice_iter(content)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| misconfigured(malformed(option, path)))?;
    if found.is_empty() {
        return Err(misconfigured(format!(
            "{option}: {path} holds no certificate; give one or more in PEM"
        )));
    }
    Ok(found)
}

fn read(option: &str, path: &str) -> Result<Vec<u8>, Error> {
    let refuse = || {
        invalid(format!(
            "{option} is the path of a PEM file; what was given looks like the text of one"
        ))
    };
    if is_pem_text(path) {
        return Err(refuse());
    }
    std::fs::read(path).map_err(|error| match error.kind() {
        _ if is_key_text(path) => refuse(),
        io::ErrorKind::NotFound => misconfigured(format!("{option}: there is no file {}", shown(path))),
        _ => misconfigured(format!("{option}: {} cannot be read: {error}", shown(path))),
    })
}

/// The errors of the PEM reader repeat lines of the file.
fn malformed(option: &str, path: &str) -> String {
    format!("{option}: {path} is not well-formed PEM")
}

fn misconfigured(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Operation::Connect, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::shown_path;

    #[test]
    fn what_looks_like_a_key_is_no_path() {
        let ed25519 = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC";
        for text in [
            "-----BEGIN PRIVATE KEY-----\nMC4C",
            "-----BEGIN PRIVATE KEY-----\\nMC4C",
            "MC4CAQAw\nBQYDK2Vw",
            "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1DNENBUUF3QlFZREsy",
            ed25519,
            &format!("key: {ed25519}"),
        ] {
            assert_eq!(shown_path(text), "(not a path; not shown)");
            let error = read(KEY, text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(
                !error.message().contains("MC4C") && error.message().contains(KEY),
                "{error}"
            );
        }
        for path in [
            "/etc/ssl/private/leasehold/production/client/key",
            "certs/leasehold/production/client/region-1/worker/key.pem",
            "key",
        ] {
            assert_eq!(shown_path(path), path);
        }
        assert_eq!(shown_path("rediss://:sesame@h"), "rediss://…@h");
    }
}
