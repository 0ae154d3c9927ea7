//! `math.random` and `math.randomseed`, as Redis replaces them.
//!
//! The generator of C is shared by the whole process and differs between systems, so each store has a generator of its
//! own.

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Lua, MultiValue, Table, Value};

use super::convert;
use super::errors::ScriptError;
use crate::data::Data;
use crate::random::Random;

/// Adds both functions to `native`.
pub(super) fn install(lua: &Lua, native: &Table, data: &Arc<Mutex<Data>>) -> mlua::Result<()> {
    let random_data = Arc::clone(data);
    let random = lua.create_function(move |lua, args: MultiValue| {
        let drawn = random_data
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random()
            .next();
        let drawn = f64::from(drawn % Random::MAX) / f64::from(Random::MAX);
        let (low, high, checked) = match args.len() {
            0 => return Ok(drawn),
            1 => (1, int(lua, &args, 0, "random")?, 1),
            2 => (int(lua, &args, 0, "random")?, int(lua, &args, 1, "random")?, 2),
            _ => return Err(ScriptError::here(lua, "wrong number of arguments")),
        };
        if low > high {
            let what = format!("bad argument #{checked} to 'random' (interval is empty)");
            return Err(ScriptError::here(lua, &what));
        }
        let (low, high) = (f64::from(low), f64::from(high));
        Ok((drawn * (high - low + 1.0)).floor() + low)
    })?;
    native.set("random", random)?;

    let seed_data = Arc::clone(data);
    let randomseed = lua.create_function(move |lua, args: MultiValue| {
        let seed = int(lua, &args, 0, "randomseed")?;
        seed_data
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random()
            .seed(seed);
        Ok(())
    })?;
    native.set("randomseed", randomseed)
}

/// Converts an argument like a C cast to `int`: the low 32 bits of the whole part.
fn int(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<i32> {
    let given = args.get(index).cloned();
    let number = match &given {
        Some(value @ (Value::Integer(_) | Value::Number(_) | Value::String(_))) => lua.coerce_number(value.clone())?,
        _ => None,
    };
    let Some(number) = number else {
        let got = given.map_or("no value", |value| value.type_name());
        let what = format!(
            "bad argument #{} to '{function}' (number expected, got {got})",
            index + 1
        );
        return Err(ScriptError::here(lua, &what));
    };
    let low = convert::truncate(number) & 0xFFFF_FFFF;
    Ok(u32::try_from(low).unwrap_or_default().cast_signed())
}
