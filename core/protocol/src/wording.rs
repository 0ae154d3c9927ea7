//! What went wrong on a server, in words that say what to do.

use crate::kinds::Keys;
use crate::name::Word;
use crate::reply::CallError;

/// What a server's error means for a lock.
pub(crate) fn explain(keys: &Keys, code: &str, message: &str) -> String {
    match code {
        "WRONGTYPE" => "the key of this name holds something that is not a lock; choose another name".into(),
        "LEASEHOLD_TOKEN" => {
            let key = keys.name.own(Word::TOKEN);
            let key = String::from_utf8_lossy(&key);
            format!("{message}; delete the key {key} after checking who wrote it")
        }
        "LEASEHOLD_LIMIT" => format!("{message}; ask with that one, or change it by set_limit"),
        _ => refused(code, message),
    }
}

/// Why a call came to nothing, and what to do.
pub(crate) fn in_words(failure: &CallError) -> String {
    match failure {
        CallError::Server { code, message } => refused(code, message),
        CallError::Disconnected(cause) => {
            format!("the connection closed before the answer came ({cause}); try again")
        }
    }
}

/// A server's error, and what to do if it may pass.
fn refused(code: &str, message: &str) -> String {
    let advice = match code {
        "OOM" => "; make room on it, or raise its maxmemory",
        "READONLY" | "MASTERDOWN" => "; it is a replica: connect to the primary",
        "LOADING" | "BUSY" => "; try again when it serves",
        "NOREPLICAS" => "; its replicas are missing, and it is set to want some for each write",
        "MISCONF" => "; its log says why it cannot save",
        _ => "",
    };
    format!("the server refused: {code} {}{advice}", message.trim_end_matches('.'))
}
