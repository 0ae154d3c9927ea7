//! The spelling of options and methods in messages: JavaScript's, in place of the core's.

use std::borrow::Cow;

/// The names in the core's messages, and the same names in JavaScript. `ci/api` compares this table with the table of
/// all languages, and the core's messages with this table.
const NAMES: [(&str, &str); 22] = [
    ("address_map", "addressMap"),
    ("breaker_failures", "breakerFailures"),
    ("breaker_pause", "breakerPauseMs"),
    ("client_info", "clientInfo"),
    ("client_label", "clientLabel"),
    ("command_timeout", "commandTimeoutMs"),
    ("connect_timeout", "connectTimeoutMs"),
    ("fair_lock", "fairLock"),
    ("force_release", "forceRelease"),
    ("key_prefix", "keyPrefix"),
    ("max_hold", "maxHoldMs"),
    ("metrics_groups", "metricsGroups"),
    ("metrics_queues", "metricsQueues"),
    ("multi_lock", "multiLock"),
    ("on_unavailable", "onUnavailable"),
    ("read_write_lock", "readWriteLock"),
    ("retry_interval", "retryIntervalMs"),
    ("set_limit", "setLimit"),
    ("tls_ca_file", "tlsCaFile"),
    ("tls_cert_file", "tlsCertFile"),
    ("tls_key_file", "tlsKeyFile"),
    ("tls_server_name", "tlsServerName"),
];

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
        put(&mut spelled, &mut word, is_quoted);
        spelled.push(letter);
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
    }
    put(&mut spelled, &mut word, is_quoted);
    Cow::Owned(spelled)
}

fn put(spelled: &mut String, word: &mut String, is_quoted: bool) {
    let known = NAMES.iter().find(|(core, _)| !is_quoted && core == word);
    spelled.push_str(known.map_or(word, |(_, name)| name));
    word.clear();
}

#[cfg(test)]
mod tests {
    use super::spelled;

    #[test]
    fn names_of_options_are_javascripts_and_those_of_locks_are_their_own() {
        for (text, told) in [
            ("max_hold has passed", "maxHoldMs has passed"),
            ("a max_hold", "a maxHoldMs"),
            (
                r#"set_limit of lock "max_hold": use set_limit"#,
                r#"setLimit of lock "max_hold": use setLimit"#,
            ),
            (r#"lock "a\" max_hold": max_hold"#, r#"lock "a\" max_hold": maxHoldMs"#),
            ("my_max_hold, max_holds", "my_max_hold, max_holds"),
            ("no name", "no name"),
        ] {
            assert_eq!(spelled(text), told);
        }
    }
}
