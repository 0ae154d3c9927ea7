//! Who an owner id is.

use leasehold::admin::OwnerId;

use crate::output::plain;

/// The owner of a hold, by its id on the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    id: String,
}

/// Whose form an owner id has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Leasehold,
    Redisson,
    /// The value is that of another library, or of nobody's lock.
    Other,
}

impl Library {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Redisson => "redisson",
            Self::Other => "other",
        }
    }
}

/// Ours have 63 random bits for a number, Redisson's the number of a thread.
const THREADS: u64 = 1 << 32;

impl Owner {
    pub(crate) fn new(id: impl Into<String>) -> Self {
        Self { id: id.into() }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn library(&self) -> Library {
        match OwnerId::parts(&self.id) {
            Some((_, number)) if number < THREADS => Library::Redisson,
            Some(_) => Library::Leasehold,
            None => Library::Other,
        }
    }

    /// The client that it belongs to; `None` of another library's.
    pub(crate) fn client(&self) -> Option<&str> {
        OwnerId::parts(&self.id).map(|(client, _)| client)
    }

    /// The holder as people read it. Whatever else becomes known of a client, such as a card that it leaves, is put
    /// in here.
    pub(crate) fn shown(&self) -> String {
        match self.library() {
            Library::Leasehold => self.id.clone(),
            Library::Redisson => format!("{} (Redisson)", self.id),
            Library::Other => format!("{} (another library)", plain(&self.id)),
        }
    }

    /// The same in a few letters.
    pub(crate) fn short(&self) -> String {
        let client = self.client().and_then(|client| client.split('-').next());
        match (self.library(), client) {
            (Library::Redisson, Some(client)) => format!("{client}… (Redisson)"),
            (_, Some(client)) => format!("{client}…"),
            (_, None) => plain(&self.id).chars().take(12).collect(),
        }
    }
}
