//! What `rediss://` needs beside the URL: whom to trust, and who this client is.
//!
//! No message repeats what a file holds. An option that holds the text of a key in
//! place of a path is not repeated either.

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
