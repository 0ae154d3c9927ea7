//! A lock, as JavaScript names it.

use js_sys::Array;
use steadlock::host::LockRef;
use wasm_bindgen::JsValue;

use crate::object::field;

/// Returns the lock that a `NativeLock` names.
#[inline(never)]
pub(crate) fn lock_ref(given: &JsValue) -> LockRef {
    let text = |name| field(given, name).as_string().unwrap_or_default();
    let number = |name| field(given, name).as_f64().unwrap_or(f64::NAN);
    let kind = text("kind");
    if kind == LockRef::COMPOSITE {
        let members = Array::from(&field(given, "members"));
        return LockRef::All(members.iter().map(|member| lock_ref(&member)).collect());
    }
    LockRef::of(&kind, text("name"), || (number("permits"), number("limit"))).unwrap_or_default()
}
