//! TLS where the program opens the connections: it knows whom to trust.

use steadlock_protocol::{Error, ErrorKind, Operation};

use super::options::TlsOptions;

/// That there is to be TLS.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Tls(());

impl Tls {
    /// # Errors
    /// `Misconfigured` if there are any.
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
