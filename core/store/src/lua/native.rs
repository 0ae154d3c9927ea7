//! The native functions that the sandbox uses.

use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Lua, MultiValue, Table, Value};

use super::budget::ScriptBudget;
use super::errors::{raise, script_line, visible_form};
use super::{convert, random};
use crate::data::Data;
use crate::dispatch;
use crate::limits::STEPS_PER_COMMAND;
use crate::reply::{Reply, StoreError};

/// Returns the table of the native functions, which is the sandbox's argument.
pub(super) fn native(lua: &Lua, data: &Arc<Mutex<Data>>, budget: &Arc<ScriptBudget>) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    install_calls(lua, &native, data, budget)?;
    let exceeded_budget = Arc::clone(budget);
    native.set(
        "is_exceeded",
        lua.create_function(move |_, ()| Ok(exceeded_budget.is_exceeded()))?,
    )?;
    install_sha1hex(lua, &native, budget)?;
    random::install(lua, &native, data)?;
    install_log(lua, &native)?;
    let setresp = lua.create_function(|_, version: Value| match version {
        Value::Integer(2) => Ok(()),
        _ => Err(raise(StoreError::err("RESP version must be 2."))),
    })?;
    native.set("setresp", setresp)?;
    native.set(
        "describe",
        lua.create_function(|_, error: Value| Ok(visible_form(&error)))?,
    )?;
    native.set("line", lua.create_function(|lua, ()| Ok(script_line(lua)))?)?;
    Ok(native)
}

/// Adds `redis.call` and `redis.pcall`.
fn install_calls(lua: &Lua, native: &Table, data: &Arc<Mutex<Data>>, budget: &Arc<ScriptBudget>) -> mlua::Result<()> {
    let (call_data, call_budget) = (Arc::clone(data), Arc::clone(budget));
    let call = lua.create_function(move |lua, args: MultiValue| {
        call_budget.charge(STEPS_PER_COMMAND)?;
        match execute(&call_data, &args) {
            Reply::Error(error) => Err(raise(error)),
            reply => convert::value_of(lua, reply),
        }
    })?;
    native.set("call", call)?;

    let (pcall_data, pcall_budget) = (Arc::clone(data), Arc::clone(budget));
    let pcall = lua.create_function(move |lua, args: MultiValue| {
        pcall_budget.charge(STEPS_PER_COMMAND)?;
        convert::value_of(lua, execute(&pcall_data, &args))
    })?;
    native.set("pcall", pcall)
}

/// Executes a command of a script.
fn execute(data: &Mutex<Data>, args: &MultiValue) -> Reply {
    if args.is_empty() {
        return Reply::Error(StoreError::err(
            "Please specify at least one argument for this redis lib call",
        ));
    }
    let mut words = Vec::with_capacity(args.len());
    for arg in args {
        let Some(word) = convert::argument(arg) else {
            return Reply::Error(StoreError::err(
                "Lua redis lib command arguments must be strings or integers",
            ));
        };
        words.push(word);
    }
    let args: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    dispatch::run_in_script(&mut data.lock().unwrap_or_else(PoisonError::into_inner), &args)
}

fn install_sha1hex(lua: &Lua, native: &Table, budget: &Arc<ScriptBudget>) -> mlua::Result<()> {
    let budget = Arc::clone(budget);
    let sha1hex = lua.create_function(move |lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(raise(StoreError::err("wrong number of arguments")));
        }
        let text = lua.coerce_string(args[0].clone())?;
        let length = text.as_ref().map_or(0, |text| text.as_bytes().len());
        budget.charge(u64::try_from(length / 4).unwrap_or(u64::MAX))?;
        Ok(text.map_or_else(|| sha1_hex(b""), |text| sha1_hex(&text.as_bytes())))
    })?;
    native.set("sha1hex", sha1hex)
}

/// Returns the SHA-1 of a text, in the form that EVALSHA uses.
pub(super) fn sha1_hex(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

/// Adds `redis.log`, which discards its messages. Wrong calls fail as in Redis.
fn install_log(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let log = lua.create_function(|_, args: MultiValue| {
        let level = match args.front() {
            Some(Value::Integer(level)) => Some(*level),
            Some(Value::Number(level)) => Some(convert::truncate(*level)),
            _ => None,
        };
        let why = match level {
            _ if args.len() < 2 => "redis.log() requires two arguments or more.",
            None => "First argument must be a number (log level).",
            Some(0..=3) => return Ok(()),
            Some(_) => "Invalid debug level.",
        };
        Err(raise(StoreError::err(why)))
    })?;
    native.set("log", log)
}
