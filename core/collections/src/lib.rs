//! The collections of Steadlock's protocol and client: sorted maps and sets, tables of ids, and decimal digits.
//!
//! A tree of the standard library is compiled anew for each pair of key and value types, and a browser has to load all
//! that code. The standard library's hash table returns its entries in another order in each run, so a simulation could
//! not repeat a history from its seed. The sorted maps of other libraries are also compiled for each pair, or are one
//! list in which an insertion moves all later entries. [`Table`] only adds an order and a cheap hash to the standard
//! library's hash table, and [`Digits`] is thirty lines, so neither is worth a dependency.

#![warn(clippy::too_many_lines)]

mod digits;
mod sorted;
mod table;

pub use digits::Digits;
pub use sorted::{IntoEntries, IntoKeys, SortedMap, SortedSet};
pub use table::Table;
