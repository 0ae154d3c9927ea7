//! The owner of a hold, or a waiter.

use std::sync::Arc;

use steadlock::admin::{OwnerId, readable};
use steadlock::{ClientInfo, Holder};

/// The owner of a hold, or a waiter, by the owner id on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    id: String,
    /// The program and the machine, if they are known.
    info: Option<Arc<ClientInfo>>,
}

/// The library that an owner id comes from, judged by the form of the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Steadlock,
    Redisson,
    /// Another library, or a value that is no owner id.
    Other,
}

impl Library {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Steadlock => "steadlock",
            Self::Redisson => "redisson",
            Self::Other => "other",
        }
    }
}

/// Thread numbers are below this limit. An owner id of Redisson ends with a thread number, one of Steadlock with 63
/// random bits.
const THREAD_NUMBERS: u64 = 1 << 32;

impl Owner {
    pub(crate) fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            info: None,
        }
    }

    /// Sets the program and the machine that the owner's client has written to the server.
    pub(crate) fn set_client(&mut self, info: Arc<ClientInfo>) {
        self.info = Some(info);
    }

    pub(crate) fn info(&self) -> Option<&ClientInfo> {
        self.info.as_deref()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn library(&self) -> Library {
        match OwnerId::parts(&self.id) {
            Some((_, number)) if number < THREAD_NUMBERS => Library::Redisson,
            Some(_) => Library::Steadlock,
            None => Library::Other,
        }
    }

    /// Returns the owner if its id comes from Steadlock or Redisson: a hash with such a field is the record of a lock.
    pub(crate) fn if_lock_field(self) -> Option<Self> {
        (self.library() != Library::Other).then_some(self)
    }

    /// Returns the id of the client that the owner belongs to; `None` for a library other than Steadlock and Redisson.
    pub(crate) fn client(&self) -> Option<&str> {
        OwnerId::parts(&self.id).map(|(client, _)| client)
    }

    /// Describes the owner for people.
    pub(crate) fn describe(&self) -> String {
        match (&self.info, self.library()) {
            (Some(info), _) => format!("{info} ({})", self.id),
            (None, Library::Steadlock) => self.id.clone(),
            (None, Library::Redisson) => format!("{} (Redisson)", self.id),
            (None, Library::Other) => format!("{} (another library)", readable(&self.id)),
        }
    }

    /// Describes the owner in a few characters.
    pub(crate) fn describe_briefly(&self) -> String {
        if let Some(info) = &self.info {
            return info.to_string();
        }
        let client = self.client().and_then(|client| client.split('-').next());
        match (self.library(), client) {
            (Library::Redisson, Some(client)) => format!("{client}… (Redisson)"),
            (_, Some(client)) => format!("{client}…"),
            (_, None) => readable(&self.id).chars().take(12).collect(),
        }
    }
}

impl From<Holder> for Owner {
    fn from(holder: Holder) -> Self {
        Self {
            id: holder.owner,
            info: holder.client,
        }
    }
}
