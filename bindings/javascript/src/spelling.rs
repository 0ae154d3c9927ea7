//! The spelling of options and methods in messages: JavaScript's, in place of the core's.

use std::borrow::Cow;

use steadlock::host::Options;

/// The core's names of methods and of the options of locks that stand in its messages, as JavaScript has them.
/// `ci/api` compares them with the table of all languages, and the core's messages with this.
const NAMES: [(&str, &str); 6] = [
    ("fair_lock", "fairLock"),
    ("force_release", "forceRelease"),
    ("max_hold", "maxHoldMs"),
    ("multi_lock", "multiLock"),
    ("read_write_lock", "readWriteLock"),
    ("set_limit", "setLimit"),
];

/// The name that JavaScript has for one of the core's: `leaseMs` for `lease_ms`.
#[must_use]
pub fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    for (index, word) in name.split('_').enumerate() {
        let head = if index == 0 { "" } else { &word[..1] };
        camel.push_str(&head.to_ascii_uppercase());
        camel.push_str(&word[head.len()..]);
    }
    camel
}

/// Returns a message with JavaScript's spelling. Text in quotes is not changed, because it is a lock's name, a key or
/// the like.
#[must_use]
pub fn spelled(text: &str) -> Cow<'_, str> {
    if !text.contains('_') {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::with_capacity(text.len());
    let mut word = String::new();
    let mut is_quoted = false;
    let mut is_escaped = false;
    for letter in text.chars() {
        if letter == '_' || letter.is_ascii_alphanumeric() {
            word.push(letter);
            is_escaped = false;
            continue;
        }
        push_word(&mut spelled, &mut word, is_quoted);
        spelled.push(letter);
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
    }
    push_word(&mut spelled, &mut word, is_quoted);
    Cow::Owned(spelled)
}

fn push_word(spelled: &mut String, word: &mut String, is_quoted: bool) {
    let is_name = !is_quoted && word.contains('_');
    let known = NAMES.iter().find(|(core, _)| is_name && core == word);
    // Messages name an option without its unit.
    let in_messages = |core: &str| core.strip_suffix("_ms").unwrap_or(core) == word;
    let option = Options::ALL.iter().find(|(core, _)| is_name && in_messages(core));
    match (known, option) {
        (Some((_, name)), _) => spelled.push_str(name),
        (None, Some((core, _))) => spelled.push_str(&camel_case(core)),
        (None, None) => spelled.push_str(word),
    }
    word.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_options_are_spelled_as_in_javascript_and_names_of_locks_are_kept() {
        for (text, expected) in [
            ("max_hold has passed", "maxHoldMs has passed"),
            ("a max_hold", "a maxHoldMs"),
            (
                r#"set_limit of lock "max_hold": use set_limit"#,
                r#"setLimit of lock "max_hold": use setLimit"#,
            ),
            (r#"lock "a\" max_hold": max_hold"#, r#"lock "a\" max_hold": maxHoldMs"#),
            ("my_max_hold, max_holds", "my_max_hold, max_holds"),
            ("breaker_pause, tls_ca_file", "breakerPauseMs, tlsCaFile"),
            ("no name", "no name"),
        ] {
            assert_eq!(spelled(text), expected);
        }
    }
}
