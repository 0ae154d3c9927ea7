//! The words and numbers that rows are made of, as JavaScript gets them.

use napi_derive::napi;
use steadlock_javascript::{WIDTH, Words};

/// The words and numbers that rows are made of, told to JavaScript once.
#[napi(object, object_from_js = false)]
pub struct Vocabulary {
    pub width: u32,
    /// The names of the codes, by code.
    pub codes: Vec<&'static str>,
    pub outcomes: Vec<&'static str>,
    pub reasons: Vec<&'static str>,
    /// The names of all error kinds.
    pub kinds: Vec<&'static str>,
    /// The names of all kinds of lock.
    pub lock_kinds: Vec<&'static str>,
    /// What may become of an acquisition while its server is unavailable.
    pub policies: Vec<&'static str>,
}

/// The words and numbers that rows are made of.
#[napi(catch_unwind)]
pub fn vocabulary() -> Vocabulary {
    let words = Words::all();
    Vocabulary {
        width: WIDTH as u32,
        codes: words.codes,
        outcomes: words.outcomes,
        reasons: words.reasons,
        kinds: words.kinds,
        lock_kinds: words.lock_kinds,
        policies: words.policies,
    }
}
