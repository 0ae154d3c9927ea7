//! The TLS settings beside a `rediss://` URL: the authorities to trust, and the certificate of this client.
//!
//! No message repeats the content of a file. An option that holds the text of a key instead of a path is not repeated
//! either.

#[cfg(feature = "native")]
mod loaded;
mod options;
#[cfg(not(feature = "native"))]
mod unread;

#[cfg(feature = "native")]
pub(crate) use self::loaded::Tls;
#[cfg(feature = "native")]
pub(crate) use self::options::{CA, CERT, KEY, SERVER_NAME};
pub(crate) use self::options::{TlsOptions, shown_path};
#[cfg(not(feature = "native"))]
pub(crate) use self::unread::Tls;
