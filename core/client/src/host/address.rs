//! Which lock an operation is about.
//!
//! A binding names a lock by one text, its *address*, which the package makes
//! once for each lock object:
//!
//! ```text
//! address   = kind NUL name                         lock, mutex, fair_lock, read_lock, write_lock
//!           | "semaphore" NUL wanted NUL limit NUL name
//!           | "multi" NUL { length NUL address }     length of the address in bytes of UTF-8
//! ```
//!
//! No name holds NUL, so that no name can be taken for another address.

use leasehold_protocol::{Error, ErrorKind, Kind, Operation, shown};

/// A lock: one, or several as one.
#[derive(Clone, PartialEq, Eq)]
pub enum LockRef {
    /// One lock.
    One(Kind, String),
    /// Several, all or none.
    All(Vec<(Kind, String)>),
    /// An address that is yet to be read.
    Address(String),
}

/// What separates the parts of an address.
const NUL: char = '\0';
/// What the address of several locks begins with.
const SEVERAL: &str = "multi";

impl Default for LockRef {
    fn default() -> Self {
        Self::One(Kind::Lock, String::new())
    }
}

/// Names as messages show them.
impl std::fmt::Debug for LockRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockRef({:?})", shown(&self.address()))
    }
}

impl From<String> for LockRef {
    fn from(address: String) -> Self {
        Self::Address(address)
    }
}

impl LockRef {
    /// The locks, of which several are to be taken as one.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that is none, and for a semaphore's
    /// numbers out of their range.
    pub(crate) fn parse(self) -> Result<Locks, Error> {
        match self {
            Self::One(kind, name) => Ok(Locks::One(kind, name)),
            Self::All(locks) => Ok(Locks::All(locks)),
            Self::Address(address) => match address.split_once(NUL) {
                Some((SEVERAL, members)) => Ok(Locks::All(parse_members(members)?)),
                _ => parse_one(&address).map(|(kind, name)| Locks::One(kind, name)),
            },
        }
    }

    /// Several locks as one.
    pub(crate) fn several<'a>(locks: impl IntoIterator<Item = &'a Self>) -> Self {
        let members = locks.into_iter().map(|lock| {
            let address = lock.address();
            format!("{}{NUL}{address}", address.len())
        });
        Self::Address(format!("{SEVERAL}{NUL}{}", members.collect::<String>()))
    }

    /// A semaphore's permits; the numbers are checked when it is used.
    #[cfg(feature = "native")]
    pub(crate) fn semaphore(wanted: u32, limit: u32, name: &str) -> Self {
        Self::Address(format!("semaphore{NUL}{wanted}{NUL}{limit}{NUL}{name}"))
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::One(kind, name) => address_of(*kind, name),
            Self::All(locks) => {
                let members: Vec<Self> = locks
                    .iter()
                    .map(|(kind, name)| Self::One(*kind, name.clone()))
                    .collect();
                Self::several(&members).address()
            }
            Self::Address(address) => address.clone(),
        }
    }
}

/// An address that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    One(Kind, String),
    All(Vec<(Kind, String)>),
}

fn address_of(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Semaphore(permits) => {
            let (wanted, limit) = (permits.wanted(), permits.limit());
            format!("{}{NUL}{wanted}{NUL}{limit}{NUL}{name}", kind.name())
        }
        _ => format!("{}{NUL}{name}", kind.name()),
    }
}

fn parse_one(address: &str) -> Result<(Kind, String), Error> {
    let (kind, rest) = address.split_once(NUL).ok_or_else(malformed)?;
    if kind != "semaphore" {
        return Ok((Kind::parse(kind, 0, 0)?, rest.to_owned()));
    }
    let mut parts = rest.splitn(3, NUL);
    let mut next = || parts.next().ok_or_else(malformed);
    let (wanted, limit, name) = (number(next()?)?, number(next()?)?, next()?);
    Ok((Kind::parse(kind, wanted, limit)?, name.to_owned()))
}

fn parse_members(mut members: &str) -> Result<Vec<(Kind, String)>, Error> {
    let mut locks = Vec::new();
    while !members.is_empty() {
        let (length, rest) = members.split_once(NUL).ok_or_else(malformed)?;
        let length: usize = length.parse().map_err(|_| malformed())?;
        let (member, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        locks.push(parse_one(member)?);
        members = rest;
    }
    Ok(locks)
}

/// A count as a host gives it; what no count can be is out of every range.
fn number(text: &str) -> Result<u32, Error> {
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if is_count => Ok(u32::MAX),
        Err(_) => Err(Error::new(
            ErrorKind::InvalidArgument,
            Operation::Acquire,
            // It may be anything, also a URL that was passed in a number's place.
            "a semaphore counts in whole numbers; give 1 or more",
        )),
    }
}

fn malformed() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Operation::Acquire,
        "this is no lock's address; make locks by the client's methods",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_protocol::Permits;

    fn parse(address: &str) -> Result<Locks, Error> {
        LockRef::from(address.to_owned()).parse()
    }

    #[test]
    fn an_address_names_what_it_was_made_of() {
        let semaphore = Kind::Semaphore(Permits::new(2, 5).unwrap());
        let locks = [
            (Kind::Lock, "a"),
            (Kind::Mutex, "ä:{x}"),
            (Kind::Fair, "a"),
            (Kind::Read, "a"),
            (Kind::Write, "a"),
            (semaphore, "a"),
        ]
        .map(|(kind, name)| (kind, name.to_owned()));
        for (kind, name) in locks.clone() {
            let address = LockRef::One(kind, name.clone()).address();
            assert_eq!(parse(&address).unwrap(), Locks::One(kind, name), "{address:?}");
        }
        let all = LockRef::All(locks.to_vec()).address();
        assert_eq!(parse(&all).unwrap(), Locks::All(locks.to_vec()));
    }

    #[test]
    fn a_name_is_never_read_as_something_else() {
        let sly = "x\u{0}9\u{0}mutex\u{0}b";
        let address = LockRef::All(vec![(Kind::Lock, sly.into())]).address();
        assert_eq!(parse(&address).unwrap(), Locks::All(vec![(Kind::Lock, sly.into())]));
        let address = LockRef::One(Kind::Lock, sly.into()).address();
        assert_eq!(parse(&address).unwrap(), Locks::One(Kind::Lock, sly.into()));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for address in [
            "",
            "a",
            "spin\0a",
            "semaphore\0a",
            "semaphore\x001\x000\0a",
            "semaphore\x00-1\x005\0a",
            "semaphore\x006\x005\0a",
            "semaphore\x0099999999999\x0099999999999\0a",
            "multi\x009\0lock\0a",
            "multi\0x\0lock\0a",
        ] {
            assert_eq!(
                parse(address).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{address:?}"
            );
        }
    }
}
