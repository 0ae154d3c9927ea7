//! What a key can hold.

use std::collections::VecDeque;

use indexmap::{IndexMap, IndexSet};

use crate::zset::SortedSet;

/// A hash's fields, oldest first.
pub(crate) type Hash = IndexMap<Vec<u8>, Vec<u8>>;
/// A set's members, oldest first unless some were removed.
pub(crate) type Set = IndexSet<Vec<u8>>;
/// A list.
pub(crate) type List = VecDeque<Vec<u8>>;

/// The value of a key. Collections are never empty: the key goes with the last element.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(Vec<u8>),
    Hash(Hash),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
}

impl Value {
    /// As `TYPE` says it.
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::Hash(hash) => hash.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Set(set) => set.is_empty(),
            Self::SortedSet(set) => set.len() == 0,
        }
    }
}

/// One kind of value, so that a command can ask for it by its type.
pub(crate) trait Kind: Sized {
    /// An empty one.
    fn empty() -> Value;
    /// The value, if it is of this kind.
    fn of(value: &Value) -> Option<&Self>;
    /// The value, if it is of this kind.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
}

macro_rules! kind {
    ($type:ty, $variant:ident) => {
        impl Kind for $type {
            fn empty() -> Value {
                Value::$variant(Self::default())
            }

            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$variant(inner) => Some(inner),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(inner) => Some(inner),
                    _ => None,
                }
            }
        }
    };
}

kind!(Vec<u8>, String);
kind!(Hash, Hash);
kind!(List, List);
kind!(Set, Set);
kind!(SortedSet, SortedSet);
