//! Converts between Lua's values and replies, by Redis' rules for scripts that use RESP2.

use std::borrow::Cow;

use mlua::{BorrowedBytes, Lua, Table, Value};

use super::budget::ScriptBudget;
use super::errors::raise;
use crate::float;
use crate::limits::{Limits, REPLY_DEPTH};
use crate::reply::{Reply, ReplyBudget, StoreError};

/// The budget of a reply while it is converted. A small table can become a huge reply, because a table that occurs
/// several times is copied each time.
pub(crate) struct BoundedReply<'a> {
    remaining: ReplyBudget,
    script_budget: &'a ScriptBudget,
}

impl<'a> BoundedReply<'a> {
    pub(crate) const fn new(limits: &Limits, script_budget: &'a ScriptBudget) -> Self {
        Self {
            remaining: ReplyBudget::new(limits),
            script_budget,
        }
    }

    fn spend(&mut self, bytes: usize) -> mlua::Result<()> {
        self.script_budget.charge(STEPS_PER_ITEM)?;
        self.remaining.spend(bytes).map_err(raise)
    }
}

/// The steps that an element of a reply counts for.
const STEPS_PER_ITEM: u64 = 20;

/// An argument of `redis.call`.
pub(crate) enum Word {
    /// A string of Lua.
    Lua(BorrowedBytes),
    /// A number, in C's format.
    Formatted(String),
}

impl AsRef<[u8]> for Word {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lua(bytes) => bytes,
            Self::Formatted(text) => text.as_bytes(),
        }
    }
}

/// Converts a value to an argument of `redis.call`; `None` if it cannot be one.
pub(crate) fn argument(value: &Value) -> Option<Word> {
    Some(match value {
        Value::String(text) => Word::Lua(text.as_bytes()),
        Value::Integer(number) => Word::Formatted(if number.unsigned_abs() < 100_000_000_000_000_000 {
            number.to_string()
        } else {
            // Lua itself has only floats, so an integer of more than 17 digits is written as a float.
            float::format(lossy_f64(*number))
        }),
        Value::Number(number) => Word::Formatted(float::format(*number)),
        _ => return None,
    })
}

/// Converts a reply to a value for a script.
pub(crate) fn value_of(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        Reply::Int(number) => Value::Integer(number),
        Reply::Double(number) => Value::String(lua.create_string(float::format(number))?),
        Reply::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(status) => field(lua, "ok", &status)?,
        Reply::Error(error) => field(lua, "err", &error.to_string())?,
        Reply::Array(items) | Reply::Set(items) => list(lua, items)?,
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            list(lua, pairs.into_iter().flat_map(|(key, value)| [key, value]).collect())?
        }
    })
}

/// Converts a script's result to a reply for its client.
pub(crate) fn reply_of(value: &Value, budget: &mut BoundedReply<'_>) -> mlua::Result<Reply> {
    nested_reply_of(value, 0, budget)
}

/// Converts a result that the sandbox found to be a list: a table with none of the fields `err`, `ok`, `double`, `map`
/// and `set`.
pub(crate) fn reply_of_list(value: &Value, budget: &mut BoundedReply<'_>) -> mlua::Result<Reply> {
    match value {
        Value::Table(table) => items(table, 0, budget),
        other => reply_of(other, budget),
    }
}

/// Truncates a Lua number like a C cast on x86: towards zero, and to the lowest number if it is out of range.
pub(crate) fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        #[expect(clippy::cast_possible_truncation, reason = "in range, and truncation is the rule")]
        let whole = number as i64;
        whole
    } else {
        i64::MIN
    }
}

fn nested_reply_of(value: &Value, depth: usize, budget: &mut BoundedReply<'_>) -> mlua::Result<Reply> {
    Ok(match value {
        Value::String(text) => {
            let text = text.as_bytes();
            budget.spend(text.len())?;
            return Ok(Reply::Bytes(text.to_vec()));
        }
        Value::Table(_) if depth >= REPLY_DEPTH => Reply::Error(StoreError::err("reached lua stack limit")),
        Value::Table(table) => reply_of_table(table, depth, budget)?,
        other => {
            budget.spend(0)?;
            match other {
                Value::Integer(number) => Reply::Int(*number),
                Value::Number(number) => Reply::Int(truncate(*number)),
                Value::Boolean(true) => Reply::Int(1),
                _ => Reply::Nil,
            }
        }
    })
}

fn reply_of_table(table: &Table, depth: usize, budget: &mut BoundedReply<'_>) -> mlua::Result<Reply> {
    if let Value::String(text) = table.raw_get::<Value>("err")? {
        budget.spend(text.as_bytes().len())?;
        let text = text.to_string_lossy();
        return Ok(Reply::Error(StoreError::parse(&text)));
    }
    if let Value::String(text) = table.raw_get::<Value>("ok")? {
        budget.spend(text.as_bytes().len())?;
        return Ok(Reply::Status(Cow::Owned(single_line(&text.to_string_lossy()))));
    }
    if let Some(number) = table.raw_get::<Option<f64>>("double").ok().flatten() {
        budget.spend(0)?;
        return Ok(Reply::Double(number));
    }
    if let Value::Table(map) = table.raw_get::<Value>("map")? {
        budget.spend(0)?;
        let pairs = map.pairs::<Value, Value>().map(|pair| {
            let (key, value) = pair?;
            Ok((
                nested_reply_of(&key, depth + 1, budget)?,
                nested_reply_of(&value, depth + 1, budget)?,
            ))
        });
        return Ok(Reply::Map(pairs.collect::<mlua::Result<_>>()?));
    }
    if let Value::Table(set) = table.raw_get::<Value>("set")? {
        budget.spend(0)?;
        let members = set
            .pairs::<Value, Value>()
            .map(|pair| nested_reply_of(&pair?.0, depth + 1, budget));
        return Ok(Reply::Set(members.collect::<mlua::Result<_>>()?));
    }
    items(table, depth, budget)
}

/// Returns the elements of a list, up to the first nil.
fn items(table: &Table, depth: usize, budget: &mut BoundedReply<'_>) -> mlua::Result<Reply> {
    budget.spend(0)?;
    let mut items = Vec::new();
    for index in 1.. {
        let item: Value = table.raw_get(index)?;
        if item.is_nil() {
            break;
        }
        items.push(nested_reply_of(&item, depth + 1, budget)?);
    }
    Ok(Reply::Array(items))
}

fn field(lua: &Lua, name: &str, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, text)?;
    Ok(Value::Table(table))
}

fn list(lua: &Lua, items: Vec<Reply>) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for (index, item) in items.into_iter().enumerate() {
        table.raw_set(index + 1, value_of(lua, item)?)?;
    }
    Ok(Value::Table(table))
}

fn single_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

#[expect(clippy::cast_precision_loss, reason = "it was a Lua number, a float, before")]
fn lossy_f64(number: i64) -> f64 {
    number as f64
}
