//! Who a record on the server belongs to.

use std::fmt;
use std::sync::Arc;

use crate::digits::Digits;

/// Where randomness comes from. The driver supplies it; the operating system's
/// generator in production, a seeded one in tests.
pub trait Entropy: Send {
    /// 64 bits. They must not repeat in a cloned process, fork or VM snapshot.
    fn next_u64(&mut self) -> u64;
}

impl<F: FnMut() -> u64 + Send> Entropy for F {
    fn next_u64(&mut self) -> u64 {
        self()
    }
}

/// The random id of one client: a version 4 UUID, as text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientId([u8; Self::LENGTH]);

impl ClientId {
    const LENGTH: usize = 36;

    /// A new id drawn from `entropy`.
    pub fn random(entropy: &mut dyn Entropy) -> Self {
        let bits = (u128::from(entropy.next_u64()) << 64) | u128::from(entropy.next_u64());
        let version = (bits & !(0xf << 76)) | (0x4 << 76);
        let variant = (version & !(0b11 << 62)) | (0b10 << 62);
        let mut digits = format!("{variant:032x}").into_bytes().into_iter();
        Self(std::array::from_fn(|position| match position {
            8 | 13 | 18 | 23 => b'-',
            _ => digits.next().unwrap_or(b'0'),
        }))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientId({self})")
    }
}

/// The owner of one hold: `<client uuid>:<n>`, n being 63 random bits drawn for
/// one request. It serves all tries of that request and, once a release for it
/// has been sent, is never used again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OwnerId(Arc<[u8]>);

impl OwnerId {
    /// A new owner id of `client`.
    pub fn random(client: ClientId, entropy: &mut dyn Entropy) -> Self {
        let number = Digits::of(entropy.next_u64() >> 1);
        Self([&client.0, b":".as_slice(), number.as_bytes()].concat().into())
    }

    /// The owner id that a server or a message names, if it is one of `client`.
    pub(crate) fn of_client(client: ClientId, text: &[u8]) -> Option<Self> {
        let number = text.strip_prefix(&client.0)?.strip_prefix(b":")?;
        let is_number = (1..=19).contains(&number.len()) && number.iter().all(u8::is_ascii_digit);
        is_number.then(|| Self(text.into()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes that go over the wire.
    #[must_use]
    pub fn wire(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}
