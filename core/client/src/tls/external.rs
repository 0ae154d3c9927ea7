//! The TLS settings for programs that open the connections themselves: such a program decides which servers to trust.

use steadlock_protocol::{Error, ErrorKind, Operation};

use super::options::TlsOptions;

/// Stands for a URL with TLS. The program makes all TLS settings itself.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Tls(());

impl Tls {
    /// Accepts no options, because the program opens the connections.
    ///
    /// # Errors
    /// `Misconfigured` if any option is given.
    pub(crate) fn load(options: &TlsOptions) -> Result<Self, Error> {
        match options.first() {
            None => Ok(Self(())),
            Some(option) => Err(Error::new(
                ErrorKind::Misconfigured,
                Operation::Connect,
                format!(
                    "{option} is given, but the program opens the connections here; leave it out, and let the program know whom to trust"
                ),
            )),
        }
    }
}
