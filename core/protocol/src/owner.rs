//! The owners of records on the server.

use std::fmt;
use std::sync::Arc;

use steadlock_collections::Digits;

/// A source of randomness, which the driver supplies: the operating system's generator in production, a seeded one in
/// tests.
pub trait Entropy: Send {
    /// Returns 64 random bits. They must not repeat in a cloned process, fork or VM snapshot.
    fn next_u64(&mut self) -> u64;
}

impl<F: FnMut() -> u64 + Send> Entropy for F {
    fn next_u64(&mut self) -> u64 {
        self()
    }
}

/// The random id of one client: a version 4 UUID, as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId([u8; Self::LENGTH]);

impl ClientId {
    const LENGTH: usize = 36;

    /// Draws a new id from `entropy`.
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

/// The owner id of one hold: `<client uuid>:<n>`, where n is 63 random bits that are drawn for one request. All
/// attempts of the request use this id, until a release for the id is owed: later attempts use a new one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId {
    client: Arc<ClientId>,
    number: u64,
}

impl OwnerId {
    /// The length of the longest owner id, in bytes.
    const MOST: usize = ClientId::LENGTH + 1 + Digits::MAX_LEN;

    /// Draws a new owner id of `client`.
    pub fn random(client: impl Into<Arc<ClientId>>, entropy: &mut dyn Entropy) -> Self {
        Self {
            client: client.into(),
            number: entropy.next_u64() >> 1,
        }
    }

    /// Parses an owner id that a server or a message names; `None` if it does not belong to `client`.
    pub(crate) fn of_client(client: &Arc<ClientId>, text: &[u8]) -> Option<Self> {
        let digits = text.strip_prefix(&client.0)?.strip_prefix(b":")?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        // Only the canonical form of a number is accepted.
        let is_ours = number <= u64::MAX >> 1 && Digits::of(number).as_bytes() == digits;
        is_ours.then(|| Self {
            client: Arc::clone(client),
            number,
        })
    }

    /// Splits the owner id of a record into client and number. Accepts the ids of Steadlock, and those of Redisson,
    /// whose number is that of a thread. A negative number, which a program with Redisson can choose, becomes 0.
    /// Returns `None` for any other text. The rule of the scripts, `is_owner` of `lua/parts/form.lua`, also accepts
    /// numbers in other forms, such as `01`.
    #[must_use]
    pub fn parts(text: &str) -> Option<(&str, u64)> {
        let (client, digits) = text.split_once(':')?;
        let is_of_uuid = |(position, byte): (usize, u8)| match position {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        if client.len() != ClientId::LENGTH || !client.bytes().enumerate().all(is_of_uuid) {
            return None;
        }
        let (digits, is_negative) = digits.strip_prefix('-').map_or((digits, false), |rest| (rest, true));
        let number = digits.parse().ok()?;
        // Only the canonical form of a number is accepted.
        let is_number = Digits::of(number).as_bytes() == digits.as_bytes();
        is_number.then_some((client, if is_negative { 0 } else { number }))
    }

    /// Returns the bytes for the wire. They are not stored, because a client may have many owner ids.
    #[must_use]
    pub fn wire(&self) -> Arc<[u8]> {
        let digits = Digits::of(self.number);
        let digits = digits.as_bytes();
        let mut text = [b':'; Self::MOST];
        let (client, rest) = text.split_at_mut(ClientId::LENGTH);
        client.copy_from_slice(&self.client.0);
        let end = digits.len().saturating_add(1);
        if let Some(place) = rest.get_mut(1..end) {
            place.copy_from_slice(digits);
        }
        text.get(..ClientId::LENGTH.saturating_add(end))
            .unwrap_or_default()
            .into()
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.number)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_recognised_by_its_text_alone() {
        let client = |seed: u64| {
            let mut next = seed;
            Arc::new(ClientId::random(&mut move || {
                next += 1;
                next
            }))
        };
        let (ours, others) = (client(1), client(100));
        for number in [0, 1, 10, u64::MAX] {
            let owner = OwnerId::random(Arc::clone(&ours), &mut || number);
            let text = owner.wire();
            assert_eq!(String::from_utf8_lossy(&text), format!("{ours}:{}", number >> 1));
            assert_eq!(owner.to_string().as_bytes(), &*text);
            assert_eq!(OwnerId::of_client(&ours, &text), Some(owner.clone()));
            assert_eq!(OwnerId::of_client(&others, &text), None);
            let whole = owner.to_string();
            assert_eq!(OwnerId::parts(&whole), Some((&*ours.to_string(), number >> 1)));
            assert_eq!(OwnerId::parts(&whole.replace('-', "")), None);
            assert_eq!(OwnerId::parts(&format!("x{whole}")), None);
            assert_eq!(OwnerId::parts(&format!("{ours}:-7")), Some((&*ours.to_string(), 0)));
        }
        for number in [
            "",
            "+1",
            "01",
            " 1",
            "1 ",
            "9223372036854775808",
            "99999999999999999999",
        ] {
            let text = format!("{ours}:{number}");
            assert_eq!(OwnerId::of_client(&ours, text.as_bytes()), None, "{text}");
            // 9223372036854775808 is too large for Steadlock, but another library may use it.
            assert_eq!(
                OwnerId::parts(&text).is_some(),
                number == "9223372036854775808",
                "{text}"
            );
        }
    }
}
