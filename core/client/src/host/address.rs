//! The lock that an operation is about.
//!
//! A binding names a lock by one text, its *address*, which the package makes once for each lock object:
//!
//! ```text
//! address   = kind NUL name                         lock, mutex, fair_lock, read_lock, write_lock
//!           | "semaphore" NUL wanted NUL limit NUL name
//!           | "multi" NUL { length NUL address }     length of the address in bytes of UTF-8
//! ```
//!
//! Names cannot contain NUL, so no name can be mistaken for part of an address.

use steadlock_protocol::{Error, ErrorKind, Kind, LockName, Operation, Subject, shown};

/// A lock: a single or a composite one.
#[derive(Clone, PartialEq, Eq)]
pub enum LockRef {
    /// A single lock.
    One(Kind, String),
    /// A composite lock of these members.
    All(Vec<(Kind, String)>),
    /// An address that has not been parsed yet.
    Address(String),
}

/// The separator between the parts of an address.
const NUL: char = '\0';
/// The beginning of a composite lock's address.
const SEVERAL: &str = "multi";

impl Default for LockRef {
    fn default() -> Self {
        Self::One(Kind::Lock, String::new())
    }
}

/// Shows names as messages do.
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
    /// Parses the lock. `full` turns a caller's name into the full name.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed address, for a semaphore's numbers out of their range, and for invalid names.
    pub(crate) fn parse(self, full: impl Fn(&str) -> Result<LockName, Error>) -> Result<Subject, Error> {
        match self {
            Self::One(kind, name) => Ok(Subject::One(kind, full(&name)?)),
            Self::All(locks) => {
                let all = locks.into_iter().map(|(kind, name)| Ok((kind, full(&name)?)));
                all.collect::<Result<_, Error>>().map(Subject::All)
            }
            Self::Address(address) => match address.split_once(NUL) {
                Some((SEVERAL, members)) => parse_members(members, full).map(Subject::All),
                _ => {
                    let (kind, name) = parse_one(&address)?;
                    Ok(Subject::One(kind, full(name)?))
                }
            },
        }
    }

    /// Makes a composite lock of these locks.
    pub(crate) fn several<'a>(locks: impl IntoIterator<Item = &'a Self>) -> Self {
        let members = locks.into_iter().map(|lock| {
            let address = lock.address();
            format!("{}{NUL}{address}", address.len())
        });
        Self::Address(format!("{SEVERAL}{NUL}{}", members.collect::<String>()))
    }

    /// Makes a lock of a semaphore's permits. The numbers are checked when it is used.
    #[cfg(feature = "native")]
    pub(crate) fn semaphore(wanted: u32, limit: u32, name: &str) -> Self {
        Self::Address(format!("semaphore{NUL}{wanted}{NUL}{limit}{NUL}{name}"))
    }

    /// Returns the name of the lock's kind; `multi_lock` for a composite lock.
    #[cfg(all(feature = "tracing", feature = "native"))]
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::One(kind, _) => kind.name(),
            Self::All(_) => "multi_lock",
            Self::Address(address) => match address.split_once(NUL) {
                Some((SEVERAL, _)) => "multi_lock",
                kind => kind.map_or("", |(kind, _)| kind),
            },
        }
    }

    /// Returns the lock's address.
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

fn address_of(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Semaphore(permits) => {
            let (wanted, limit) = (permits.wanted(), permits.limit());
            format!("{}{NUL}{wanted}{NUL}{limit}{NUL}{name}", kind.name())
        }
        _ => format!("{}{NUL}{name}", kind.name()),
    }
}

fn parse_one(address: &str) -> Result<(Kind, &str), Error> {
    let (kind, rest) = address.split_once(NUL).ok_or_else(malformed)?;
    if kind != "semaphore" {
        return Ok((Kind::parse(kind, 0, 0)?, rest));
    }
    let mut parts = rest.splitn(3, NUL);
    let mut next = || parts.next().ok_or_else(malformed);
    let (wanted, limit, name) = (number(next()?)?, number(next()?)?, next()?);
    let kind = Kind::parse(kind, wanted, limit).map_err(|error| error.with_lock(name))?;
    Ok((kind, name))
}

fn parse_members(
    mut members: &str,
    full: impl Fn(&str) -> Result<LockName, Error>,
) -> Result<Vec<(Kind, LockName)>, Error> {
    let mut locks = Vec::new();
    while !members.is_empty() {
        let (length, rest) = members.split_once(NUL).ok_or_else(malformed)?;
        let length: usize = length.parse().map_err(|_| malformed())?;
        let (member, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
        let (kind, name) = parse_one(member)?;
        locks.push((kind, full(name)?));
        members = rest;
    }
    Ok(locks)
}

/// Parses a count. A number beyond `u32` becomes the largest one, which the check of the range then refuses.
fn number(text: &str) -> Result<u32, Error> {
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if is_count => Ok(u32::MAX),
        Err(_) => Err(Error::new(
            ErrorKind::InvalidArgument,
            Operation::Acquire,
            // The message does not quote the text: it can be anything, even a URL with a password in a number's place.
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
    use steadlock_protocol::Permits;

    /// Full names for tests. Shows a NUL in a name as text; elsewhere such a name is refused.
    fn full(name: &str) -> Result<LockName, Error> {
        LockName::parse(&name.replace(NUL, "/NUL/"))
    }

    fn parse(address: &str) -> Result<Subject, Error> {
        LockRef::from(address.to_owned()).parse(full)
    }

    fn one((kind, name): (Kind, String)) -> (Kind, LockName) {
        (kind, full(&name).unwrap())
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
            let wanted = Subject::from(one((kind, name)));
            assert_eq!(parse(&address).unwrap(), wanted, "{address:?}");
        }
        let all = LockRef::All(locks.to_vec()).address();
        assert_eq!(parse(&all).unwrap(), Subject::All(locks.map(one).to_vec()));
    }

    #[test]
    fn a_name_is_never_read_as_something_else() {
        let sly = "x\u{0}9\u{0}mutex\u{0}b";
        let address = LockRef::All(vec![(Kind::Lock, sly.into())]).address();
        let wanted = one((Kind::Lock, sly.into()));
        assert_eq!(parse(&address).unwrap(), Subject::All(vec![wanted.clone()]));
        let address = LockRef::One(Kind::Lock, sly.into()).address();
        assert_eq!(parse(&address).unwrap(), Subject::from(wanted));
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
