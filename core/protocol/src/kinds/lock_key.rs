//! The keys of a lock as somebody sees them who looks at a server: which key is what, of which name.

use std::sync::Arc;

use super::{fair, read_write, semaphore};
use crate::kinds::spec::Key;
use crate::name::{LockName, Word};

/// What a key of a lock holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    /// The name itself: of `lock` and `fair_lock` a HASH {owner → 1}, of `mutex` a STRING, the owner. The TTL is the
    /// lease.
    Named,
    /// The waiters of a fair lock: ZSET {owner → when it came, in µs of the server's clock}.
    Queue,
    /// When each of them was last heard of: HASH {owner → µs, and whether it wants a token}.
    Alive,
    /// Who writes: HASH with `writer`, `writer_until`, and, if a writer waits, `mark`, `mark_until`; times are ms of
    /// the server's clock.
    ReadWrite,
    /// Who reads: ZSET {owner → deadline in ms of the server's clock}.
    Readers,
    /// Permits of a semaphore: ZSET {owner/i → deadline in ms of the server's clock, limit → n}.
    Permits,
    /// The last fencing token of the name: STRING.
    Token,
}

impl LockKey {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Named,
        Self::Queue,
        Self::Alive,
        Self::ReadWrite,
        Self::Readers,
        Self::Permits,
        Self::Token,
    ];

    /// This key of the lock of this name.
    #[must_use]
    pub fn of(self, name: &LockName) -> Arc<[u8]> {
        self.word().map_or_else(|| name.key(), |word| name.own(word))
    }

    /// What a key is by its form alone; `None` if no lock has such a key. Anybody may have written it.
    #[must_use]
    pub fn read(key: &[u8]) -> Option<(Self, LockName)> {
        let text = std::str::from_utf8(key).ok()?;
        if let Ok(name) = LockName::parse(text) {
            return Some((Self::Named, name));
        }
        let (name, word) = match text.strip_prefix("steadlock:{") {
            Some(rest) => rest.rsplit_once("}:")?,
            None => text.strip_prefix("steadlock::")?.rsplit_once(':')?,
        };
        let name = LockName::parse(name).ok()?;
        let is_word = |of: &Self| of.word().is_some_and(|own| own.as_str() == word);
        let found = Self::ALL.into_iter().find(is_word)?;
        // Which of the two forms it is follows from the name.
        (*found.of(&name) == *key).then_some((found, name))
    }

    const fn word(self) -> Option<Word> {
        let key = match self {
            Self::Named => Key::Name,
            Self::Queue => fair::QUEUE,
            Self::Alive => fair::ALIVE,
            Self::ReadWrite => read_write::STATE,
            Self::Readers => read_write::READERS,
            Self::Permits => semaphore::PERMITS,
            Self::Token => Key::Own(Word::TOKEN),
        };
        match key {
            Key::Own(word) => Some(word),
            Key::Name | Key::TokenIfDrawn => None,
        }
    }
}
