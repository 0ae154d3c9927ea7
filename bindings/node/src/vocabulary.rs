//! The vocabulary of the rows in the form for JavaScript.

use napi_derive::napi;
use steadlock_javascript::{WIDTH, Words};

/// The words of which rows are made, and the width of a row. JavaScript reads them once.
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
    /// The ways in which an acquisition can end while its server is unavailable.
    pub policies: Vec<&'static str>,
    /// The options of a client.
    pub option_names: Vec<String>,
    /// Which values each option takes: `flag`, `number`, `text`, `texts`, `range`, `table` or `on_unavailable`.
    pub option_kinds: Vec<&'static str>,
}

/// Returns the words of which rows are made, and the width of a row.
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
        option_names: words.option_names,
        option_kinds: words.option_kinds,
    }
}
