//! A lock, as JavaScript names it.

use napi::bindgen_prelude::Object;
use napi::{Error, Status};
use steadlock::host::LockRef;

/// Returns the lock that a `NativeLock` names.
pub(crate) fn lock_ref(given: &Object<'_>) -> napi::Result<LockRef> {
    let kind: String = given.get("kind")?.ok_or_else(wrong)?;
    if kind == LockRef::COMPOSITE {
        let members: Vec<Object<'_>> = given.get("members")?.ok_or_else(wrong)?;
        let members = members.iter().map(lock_ref).collect::<napi::Result<_>>();
        return members.map(LockRef::All);
    }
    let name = given.get("name")?.ok_or_else(wrong)?;
    let number = |what| given.get(what).ok().flatten().unwrap_or(f64::NAN);
    LockRef::of(&kind, name, || (number("permits"), number("limit"))).map_err(|_| wrong())
}

fn wrong() -> Error {
    Error::new(Status::InvalidArg, "a lock is given that the package did not make")
}
