//! Parses commands from JSON: `["SET", "key", 1]`, or an array of such arrays.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use steadlock_store::server::ExternalClient;

/// The words of a command. The first one is its name.
pub(super) type Words = Vec<Vec<u8>>;

/// Parses one command, or returns an error message.
pub(super) fn command(json: &[u8]) -> Result<Words, String> {
    read(json, Command(&mut Budget::default()))
}

/// Parses several commands, or returns an error message.
pub(super) fn commands(json: &[u8]) -> Result<Vec<Words>, String> {
    match read(json, Commands(&mut Budget::default()))? {
        commands if commands.is_empty() => Err("there are no commands".into()),
        commands => Ok(commands),
    }
}

/// Returns the memory that the words take.
pub(super) fn memory(words: &Words) -> usize {
    words.iter().map(|word| word.len() + WORD_OVERHEAD).sum()
}

/// The memory that a word takes beside its content.
const WORD_OVERHEAD: usize = 48;
/// The limit on the length of an error message. serde repeats the unexpected input in it.
const MAX_ERROR_CHARACTERS: usize = 128;

fn read<'a, S: DeserializeSeed<'a>>(json: &'a [u8], seed: S) -> Result<S::Value, String> {
    let mut from = serde_json::Deserializer::from_slice(json);
    let value = seed.deserialize(&mut from).and_then(|value| {
        from.end()?;
        Ok(value)
    });
    value.map_err(|error| error.to_string().chars().take(MAX_ERROR_CHARACTERS).collect())
}

/// The number of words and bytes that a request can still have.
struct Budget {
    words: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            words: ExternalClient::WORDS,
            bytes: ExternalClient::REQUEST_BYTES,
        }
    }
}

impl Budget {
    fn take<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        let left = self.bytes.checked_sub(bytes + WORD_OVERHEAD);
        let (Some(bytes), Some(words)) = (left, self.words.checked_sub(1)) else {
            return Err(E::custom("it is too large"));
        };
        (self.bytes, self.words) = (bytes, words);
        Ok(())
    }
}

struct Commands<'a>(&'a mut Budget);

impl<'de> DeserializeSeed<'de> for Commands<'_> {
    type Value = Vec<Words>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Commands<'_> {
    type Value = Vec<Words>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of commands")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut commands = Vec::new();
        while let Some(command) = items.next_element_seed(Command(self.0))? {
            commands.push(command);
        }
        Ok(commands)
    }
}

struct Command<'a>(&'a mut Budget);

impl<'de> DeserializeSeed<'de> for Command<'_> {
    type Value = Words;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Command<'_> {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a command: an array of strings and numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        // An empty command takes memory too.
        self.0.take(0)?;
        let mut words = Vec::new();
        while let Some(item) = items.next_element::<&RawValue>()? {
            let word = word(item.get()).map_err(A::Error::custom)?;
            self.0.take(word.len())?;
            words.push(word);
        }
        Ok(words)
    }
}

/// Returns the content of a string. Numbers and booleans keep their text.
fn word(json: &str) -> Result<Vec<u8>, String> {
    match json.as_bytes().first() {
        Some(b'"') => match serde_json::from_str::<String>(json) {
            Ok(text) if text.len() > ExternalClient::WORD_BYTES => Err("an argument is too large".into()),
            Ok(text) => Ok(text.into_bytes()),
            Err(error) => Err(error.to_string()),
        },
        Some(b'-' | b'0'..=b'9' | b't' | b'f') => Ok(json.as_bytes().to_vec()),
        Some(b'n') => Err("null is not an argument".into()),
        _ => Err("arrays and objects are not arguments".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Words {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn numbers_and_truth_values_stay_as_they_are_written() {
        let json = br#" ["SET", "a\u00e9\n", 1.50, -0, 12345678901234567890, 1e21, true] "#;
        let expected = words(&["SET", "aé\n", "1.50", "-0", "12345678901234567890", "1e21", "true"]);
        assert_eq!(command(json).unwrap(), expected);
        assert_eq!(
            commands(br#"[["GET","a"],["PING"]]"#).unwrap(),
            [words(&["GET", "a"]), words(&["PING"])]
        );
    }

    #[test]
    fn invalid_commands_are_refused_with_a_short_message() {
        for (json, why) in [
            ("", "EOF"),
            ("{}", "a command: an array of strings and numbers"),
            ("[\"GET\"", "EOF"),
            ("[\"GET\"] x", "trailing characters"),
            ("[\"GET\", null]", "null is not an argument"),
            ("[\"GET\", [\"a\"]]", "arrays and objects are not arguments"),
            ("[\"GET\", \"\\ud800\"]", "hex escape"),
        ] {
            let error = command(json.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        }
        let long = format!("\"{}\"", "x".repeat(10_000));
        assert!(command(long.as_bytes()).unwrap_err().len() <= MAX_ERROR_CHARACTERS);
        assert!(commands(b"[\"GET\", \"a\"]").is_err());
        assert_eq!(commands(b"[]").unwrap_err(), "there are no commands");
    }

    #[test]
    fn too_many_words_and_too_large_ones_are_refused() {
        let many = format!("[{}1]", "1,".repeat(ExternalClient::WORDS));
        assert!(command(many.as_bytes()).unwrap_err().contains("too large"));
        let empty = format!("[{}[]]", "[],".repeat(ExternalClient::WORDS));
        assert!(commands(empty.as_bytes()).unwrap_err().contains("too large"));
        let large = format!("[\"{}\"]", "x".repeat(ExternalClient::WORD_BYTES + 1));
        assert!(command(large.as_bytes()).unwrap_err().contains("too large"));
    }
}
