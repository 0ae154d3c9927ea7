//! The content of the TLS files, in the form that connections use.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, InconsistentKeys, RootCertStore};
use steadlock_protocol::{Error, ErrorKind, Operation, shown};

use super::options::{CA, CERT, ClientCertificate, KEY, SERVER_NAME, TlsOptions, is_key_text, is_pem_text};
use crate::errors::invalid;

/// The TLS options with the content of their files.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) options: TlsOptions,
    /// The configuration without the client's certificate.
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) client: Option<Arc<CertifiedKey>>,
    /// The name that the servers' certificates must have, instead of the host that the client connects to.
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) read_at: Instant,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// `InvalidArgument` for text in place of a path, and for an invalid server name; `Misconfigured` for a file that
    /// cannot be read or has the wrong content, and if no authorities are given and the system has none.
    pub(crate) fn load(options: &TlsOptions) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let server_name = options.server_name.as_deref().map(server_name).transpose()?;
        let roots = match &options.ca {
            Some(path) => authorities(path)?,
            None => system_authorities()?,
        };
        let client = match &options.client {
            Some(ClientCertificate { cert, key }) => Some(Arc::new(certified_key(cert, key, &provider)?)),
            None => None,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| misconfigured(format!("no version of TLS can be used: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // rustls does not verify a certificate again when it resumes a session, but the certificate may have expired
        // since the session began.
        config.resumption = Resumption::disabled();
        Ok(Self {
            options: options.clone(),
            config: Arc::new(config),
            client,
            server_name,
            read_at: Instant::now(),
        })
    }

    /// Returns the configuration of one connection. `resolver` provides the client's certificate.
    pub(crate) fn config(&self, resolver: Arc<dyn ResolvesClientCert>) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.client_auth_cert_resolver = resolver;
        Arc::new(config)
    }
}

/// Compares the options only. Two servers with the same options differ in their addresses, which `Scheme` compares.
impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Parses a server name. The error does not repeat the name, which may be anything, even a URL with a password.
fn server_name(name: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        invalid(format!(
            "{SERVER_NAME} is no name of a host, nor an IP address; give it alone, without a port"
        ))
    })
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

fn system_authorities() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have malformed certificates, which are left out.
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
    // An error of rustls about a key may describe that key.
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

/// Returns a message without details, because the errors of the PEM reader repeat lines of the file.
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
    fn a_servers_name_is_a_host_or_an_ip_address() {
        for name in ["cache.example", "10.0.0.1", "::1", "localhost"] {
            assert!(server_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "sesame.example:6379",
            "rediss://:sesame@h",
            "[::1]",
            "*.sesame",
            "a sesame",
        ] {
            let error = server_name(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
            assert!(!error.message().contains("sesame"), "{error}");
        }
    }

    #[test]
    fn text_that_looks_like_a_key_is_not_taken_for_a_path() {
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
            "/etc/ssl/private/steadlock/production/client/key",
            "certs/steadlock/production/client/region-1/worker/key.pem",
            "key",
        ] {
            assert_eq!(shown_path(path), path);
        }
        assert_eq!(shown_path("rediss://:sesame@h"), "rediss://…@h");
    }
}
