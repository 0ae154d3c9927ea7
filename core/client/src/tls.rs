//! The TLS settings beside a `rediss://` URL: the authorities to trust, the certificate of this client, and the name in
//! the certificates of the servers.
//!
//! No message repeats the content of a file. An option that holds the text of a key instead of a path is not repeated
//! either.

#[cfg(not(feature = "native"))]
mod external;
#[cfg(feature = "native")]
mod files;
mod options;

#[cfg(not(feature = "native"))]
pub(crate) use self::external::Tls;
#[cfg(feature = "native")]
pub(crate) use self::files::Tls;
#[cfg(feature = "native")]
pub(crate) use self::options::{CA, CERT, KEY, SERVER_NAME};
pub(crate) use self::options::{TlsOptions, UncheckedTlsOptions, shown_path};
