//! Test vectors: the replies and commands with which all our readers and writers of RESP are tested. See
//! ci/resp/README.md.

use serde_json::Value as Json;

/// Returns one table of the vectors.
pub(crate) fn rows(of: &str) -> Vec<Json> {
    let mut vectors: Json = serde_json::from_str(include_str!("../../../ci/resp/vectors.json")).unwrap();
    let Json::Array(rows) = vectors[of].take() else {
        panic!("no {of}")
    };
    assert!(!rows.is_empty(), "{of}");
    rows
}

/// Returns the bytes of a text of the vectors, which has one character for each byte.
pub(crate) fn bytes(text: &Json) -> Vec<u8> {
    let text = text.as_str().unwrap();
    text.chars().map(|byte| u8::try_from(byte).unwrap()).collect()
}
