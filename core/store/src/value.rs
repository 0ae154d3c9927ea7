//! The values of keys, and their memory.

use std::collections::VecDeque;
use std::ops::Deref;

use indexmap::{IndexMap, IndexSet};

use crate::capacity::shrunk_capacity;
use crate::zset::SortedSet;

/// The fields of a hash, oldest first unless some were removed while the hash was large.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hash {
    fields: IndexMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

/// The members of a set, oldest first unless some were removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set {
    members: IndexSet<Vec<u8>>,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    items: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// The bytes of a field, a member and an item beside their content: the entry in the table, including the free space
/// that tables keep, and the overhead of the allocator.
const FIELD_BYTES: usize = 144;
const MEMBER_BYTES: usize = 96;
const ITEM_BYTES: usize = 64;

/// Up to this size a hash keeps its order when a field is removed, as in Redis. With more fields, keeping the order
/// would take too long.
const ORDERED_FIELDS: usize = 128;

impl Hash {
    /// Sets a field. Returns its previous value.
    pub(crate) fn insert(&mut self, field: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let before = self.fields.insert(field.to_vec(), value.to_vec());
        self.bytes += value.len();
        match &before {
            Some(before) => self.bytes -= before.len(),
            None => self.bytes += field.len() + FIELD_BYTES,
        }
        before
    }

    /// Removes a field. Returns whether it existed.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let removed = if self.fields.len() <= ORDERED_FIELDS {
            self.fields.shift_remove(field)
        } else {
            self.fields.swap_remove(field)
        };
        let Some(value) = removed else {
            return false;
        };
        self.bytes -= field.len() + value.len() + FIELD_BYTES;
        if let Some(capacity) = shrunk_capacity(self.fields.len(), self.fields.capacity()) {
            self.fields.shrink_to(capacity);
        }
        true
    }
}

impl Deref for Hash {
    type Target = IndexMap<Vec<u8>, Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl Set {
    /// Adds a member. Returns whether it is new.
    pub(crate) fn insert(&mut self, member: &[u8]) -> bool {
        let is_new = self.members.insert(member.to_vec());
        if is_new {
            self.bytes += member.len() + MEMBER_BYTES;
        }
        is_new
    }

    /// Removes a member. Returns whether it existed.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let existed = self.members.swap_remove(member);
        if existed {
            self.bytes -= member.len() + MEMBER_BYTES;
            if let Some(capacity) = shrunk_capacity(self.members.len(), self.members.capacity()) {
                self.members.shrink_to(capacity);
            }
        }
        existed
    }
}

impl Deref for Set {
    type Target = IndexSet<Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.members
    }
}

impl List {
    pub(crate) fn push_front(&mut self, item: Vec<u8>) {
        self.bytes += item.len() + ITEM_BYTES;
        self.items.push_front(item);
    }

    pub(crate) fn push_back(&mut self, item: Vec<u8>) {
        self.bytes += item.len() + ITEM_BYTES;
        self.items.push_back(item);
    }

    pub(crate) fn pop_front(&mut self) -> Option<Vec<u8>> {
        let item = self.items.pop_front();
        self.after_pop(item)
    }

    pub(crate) fn pop_back(&mut self) -> Option<Vec<u8>> {
        let item = self.items.pop_back();
        self.after_pop(item)
    }

    fn after_pop(&mut self, item: Option<Vec<u8>>) -> Option<Vec<u8>> {
        self.bytes -= item.as_ref().map_or(0, |item| item.len() + ITEM_BYTES);
        self.shrink();
        item
    }

    /// Applies a change that removes items and adds none, and counts the memory anew.
    pub(crate) fn reduce(&mut self, change: impl FnOnce(&mut VecDeque<Vec<u8>>)) {
        change(&mut self.items);
        self.bytes = self.items.iter().map(|item| item.len() + ITEM_BYTES).sum();
        self.shrink();
    }

    fn shrink(&mut self) {
        if let Some(capacity) = shrunk_capacity(self.items.len(), self.items.capacity()) {
            self.items.shrink_to(capacity);
        }
    }
}

impl Deref for List {
    type Target = VecDeque<Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.items
    }
}

/// The value of a key. Between commands no collection is empty, because its key is removed with the last element.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(Vec<u8>),
    Hash(Hash),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
}

impl Value {
    /// Returns the name of the type, as `TYPE` reports it.
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

    /// Returns the memory of the value. A collection updates its count with each change, so no element is visited.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::String(text) => text.capacity(),
            Self::Hash(hash) => hash.bytes,
            Self::List(list) => list.bytes,
            Self::Set(set) => set.bytes,
            Self::SortedSet(set) => set.bytes(),
        }
    }
}

/// A type of value that a command can request.
pub(crate) trait Kind: Sized {
    /// Returns an empty value of this type.
    fn empty() -> Value;
    /// Returns the value if it has this type.
    fn of(value: &Value) -> Option<&Self>;
    /// Returns the value if it has this type.
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
