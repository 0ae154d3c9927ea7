//! TLS connections, and the reasons why one fails.
//!
//! With TLS 1.3, a server that refuses the client's certificate reports the refusal only after the handshake, in answer
//! to the first data. The stream therefore records the error of the TLS library, which then explains why the login
//! failed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, InvalidMessage, SignatureScheme};
use steadlock_protocol::Cause;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::dial::Tcp;
use super::failure::Failure;
use super::outage::Deadline;
use super::wire::Socket;
use crate::blocking_pool;
use crate::tls::{CA, CERT, KEY, SERVER_NAME, Tls, TlsOptions};

/// Opens TLS connections to one server.
pub(super) struct TlsDialer {
    tcp: Tcp,
    tls: Mutex<Arc<Tls>>,
}

/// A TLS connection that records why it ended.
pub(super) struct Stream {
    inner: TlsStream<Socket<TcpStream>>,
    outcome: Arc<TlsOutcome>,
}

/// The observations on one connection.
pub(super) struct TlsOutcome {
    tls: Arc<Tls>,
    host: String,
    /// Whether the server asked for a client certificate.
    was_certificate_requested: AtomicBool,
    /// The error with which the TLS library ended the connection.
    error: OnceLock<rustls::Error>,
}

/// The age at which the certificate files are read again for a new connection, because they are replaced while programs
/// run.
const REREAD_AFTER: Duration = Duration::from_secs(10);

impl TlsDialer {
    pub(super) fn new(tcp: Tcp, tls: &Tls) -> Self {
        Self {
            tcp,
            tls: Mutex::new(Arc::new(tls.clone())),
        }
    }

    pub(super) const fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// Connects to the host at this address.
    pub(super) async fn connect(
        &self,
        address: SocketAddr,
        deadline: &Deadline,
    ) -> Result<(Stream, Arc<TlsOutcome>), Failure> {
        let tls = self.tls().await;
        let name = match &tls.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(self.tcp.host.clone()).map_err(|_| {
                Failure::misconfigured("no certificate can be for this host's name")
                    .with_advice(&format!("use another name of it, or give {SERVER_NAME}"))
            })?,
        };
        let outcome = Arc::new(TlsOutcome {
            tls,
            host: name.to_str().into_owned(),
            was_certificate_requested: AtomicBool::new(false),
            error: OnceLock::new(),
        });
        let config = outcome.tls.config(Arc::clone(&outcome) as Arc<dyn ResolvesClientCert>);
        let tcp = self.tcp.connect(address).await?;
        let handshake = async { Ok(TlsConnector::from(config).connect(name, tcp).await) };
        match deadline.wait_or(handshake, Failure::tls_unanswered).await? {
            Ok(inner) => {
                let stream = Stream {
                    inner,
                    outcome: Arc::clone(&outcome),
                };
                Ok((stream, outcome))
            }
            Err(error) => {
                outcome.note(&error);
                Err(outcome.failure(Failure::unavailable(error.to_string())))
            }
        }
    }

    /// Returns the content of the files, at most `REREAD_AFTER` old, or the previous content if they cannot be read.
    async fn tls(&self) -> Arc<Tls> {
        let known = Arc::clone(&self.lock());
        if known.read_at.elapsed() < REREAD_AFTER {
            return known;
        }
        let options = known.options.clone();
        match blocking_pool::run(move || Tls::load(&options)).await {
            Ok(Ok(read)) => {
                let read = Arc::new(read);
                *self.lock() = Arc::clone(&read);
                read
            }
            _ => known,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Arc<Tls>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TlsOutcome {
    fn note(&self, error: &io::Error) {
        let tls_error = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        if let Some(tls_error) = tls_error {
            // The first error is the cause.
            let _ = self.error.set(tls_error.clone());
        }
    }

    /// Returns the reason why there is no connection; `otherwise` if TLS is not the reason.
    pub(super) fn failure(&self, otherwise: Failure) -> Failure {
        let was_requested = self.was_certificate_requested.load(Ordering::Relaxed);
        match self.error.get() {
            Some(rustls::Error::InvalidCertificate(error)) => {
                Failure::misconfigured(untrusted(error, &self.host, &self.tls.options))
            }
            Some(rustls::Error::AlertReceived(alert)) if was_requested && is_about_the_client(*alert) => {
                Failure::misconfigured(match self.tls.options.cert_shown() {
                    None => certificate_demanded(),
                    Some(cert) => Cause::new(format!(
                        "the server did not accept the client certificate of {CERT}, {cert} ({})",
                        alert_name(*alert)
                    ))
                    .with_advice("give one whose authority it trusts, and that is valid now"),
                })
            }
            Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Failure::tls_unknown(),
            // A server that closes the connection without an alert may only be shutting down.
            None if was_requested && self.tls.client.is_none() && otherwise.is_without_answer() => {
                Failure::unavailable(format!(
                    "{}; it had asked for a client certificate, and there was none to give ({CERT}, {KEY})",
                    otherwise.cause().text()
                ))
            }
            _ => otherwise,
        }
    }
}

impl std::fmt::Debug for TlsOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsOutcome")
    }
}

/// Provides the client's certificate, and records that the server asked for it.
impl ResolvesClientCert for TlsOutcome {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_certificate_requested.store(true, Ordering::Relaxed);
        self.tls.client.clone()
    }

    fn has_certs(&self) -> bool {
        self.tls.client.is_some()
    }
}

fn certificate_demanded() -> Cause {
    Cause::new("the server demands a client certificate").with_advice(format!("give one by {CERT} and {KEY}"))
}

/// Returns the reason why the server's certificate is not acceptable, with advice.
fn untrusted(error: &CertificateError, host: &str, options: &TlsOptions) -> Cause {
    let not_for = |what: &str| Cause::new(format!("the server's certificate is not for {host}{what}"));
    match error {
        CertificateError::UnknownIssuer => match options.ca_shown() {
            Some(ca) => Cause::new(format!(
                "the server's certificate is signed by an authority that is not in {CA}, {ca}"
            ))
            .with_advice("add that authority to the file"),
            None => Cause::new("the server's certificate is signed by an authority that is unknown here")
                .with_advice(format!("name a PEM file of that authority by {CA}")),
        },
        CertificateError::NotValidForName => not_for("").with_advice("connect by a name that it has"),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            not_for(", and names no host").with_advice(format!("have one made for {host}"))
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented.iter().map(|name| plain_name(name)).collect();
            not_for(&format!(" but for {}", names.join(", "))).with_advice(if options.has_server_name() {
                format!("give one of its names as {SERVER_NAME}")
            } else {
                format!(
                    "connect by one of its names, have one made for {host}, or give one of its names as {SERVER_NAME}"
                )
            })
        }
        CertificateError::Expired => expired(None),
        CertificateError::ExpiredContext { time, not_after } => expired(Some(between(*not_after, *time))),
        CertificateError::NotValidYet => not_valid_yet(None),
        CertificateError::NotValidYetContext { time, not_before } => not_valid_yet(Some(between(*time, *not_before))),
        CertificateError::Revoked => {
            Cause::new("the server's certificate was revoked").with_advice("install a new one there")
        }
        // An error of webpki, rustls's own verifier, which has no variant of its own here.
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            Cause::new("the server's certificate is that of an authority, which may not be a server's").with_advice(
                "let that authority sign one for the server; where `openssl req -x509` made it, add \
                 `-addext basicConstraints=critical,CA:FALSE`",
            )
        }
        _ => Cause::new(format!("the server's certificate is not acceptable: {error}")),
    }
}

fn expired(ago: Option<String>) -> Cause {
    let ago = ago.map(|ago| format!(" {ago} ago")).unwrap_or_default();
    Cause::new(format!(
        "the server's certificate expired{ago}, by the clock of this machine"
    ))
    .with_advice("install a new one there")
}

fn not_valid_yet(left: Option<String>) -> Cause {
    let left = left.map(|left| format!(" for another {left}")).unwrap_or_default();
    Cause::new(format!(
        "the server's certificate is not valid yet{left}, by the clock of this machine"
    ))
    .with_advice("set the clock that is wrong")
}

/// Removes the wrapping that the library adds to a name: `DnsName("host")` and `IpAddress(::1)`.
fn plain_name(name: &str) -> &str {
    let inside = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(name);
    inside.trim_matches('"')
}

fn between(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    let (number, unit) = match seconds {
        0..120 => (seconds, "s"),
        120..7_200 => (seconds / 60, "min"),
        7_200..172_800 => (seconds / 3_600, "h"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{number} {unit}")
}

/// Whether an alert of a server that asked for a certificate is about that certificate. TLS 1.2 has no alert of its own
/// for a missing certificate, so a failed handshake counts, too.
const fn is_about_the_client(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::HandshakeFailure
    )
}

const fn alert_name(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::UnknownCA => "its authority is unknown there",
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet",
        AlertDescription::CertificateRevoked => "it was revoked",
        AlertDescription::UnsupportedCertificate => "it is not for clients",
        AlertDescription::AccessDenied => "it is valid, and access was denied",
        _ => "the server does not say why",
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.outcome.note(error);
        }
        read
    }
}

/// A server that refuses the connection sends the reason and closes at once. The next write fails before the reason is
/// read, so write errors are not recorded. The caller reads on after such a failure, and the reason is recorded then.
impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_their_wrapping() {
        for (name, plain) in [
            ("DnsName(\"a.example\")", "a.example"),
            ("IpAddress(127.0.0.1)", "127.0.0.1"),
            ("plain", "plain"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }

    #[test]
    fn durations_are_written_in_a_fitting_unit() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for (seconds, text) in [(5, "5 s"), (600, "10 min"), (7_200, "2 h"), (864_000, "10 days")] {
            assert_eq!(between(at(1), at(1 + seconds)), text);
        }
    }
}
