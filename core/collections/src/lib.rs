//! The collections of Steadlock's protocol and client: sorted maps and sets, tables of ids, and decimal digits.
//!
//! The standard library compiles a tree once for each pair of key and value types, and a browser has to load all that
//! code; it returns the entries of a hash table in another order in each run, so one seed would not give one history.
//! The sorted maps of libraries are compiled once for each pair too, or are one list in which an insertion moves all
//! later entries. [`Table`] only adds an order to the standard library's hash table, and [`Digits`] is thirty lines:
//! neither is worth a dependency.

#![warn(clippy::too_many_lines)]

mod digits;
mod sorted;
mod table;

pub use digits::Digits;
pub use sorted::{IntoEntries, IntoKeys, SortedMap, SortedSet};
pub use table::Table;
