//! The script engine: Lua 5.1 with what Redis 7 lets scripts see.

mod convert;
mod random;

use std::sync::{Arc, Mutex, PoisonError};

use leasehold_protocol::Script;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use crate::data::Data;
use crate::reply::{Reply, StoreError};

/// The name under which scripts appear in error messages.
const CHUNK_NAME: &str = "@user_script";

/// Compiled scripts and the world they run in.
pub(crate) struct Engine {
    lua: Lua,
    environment: Table,
    run: Function,
    /// What EVALSHA finds, by the hex SHA-1 of the text. A table of Lua's, for
    /// there may be many: each value that Rust holds takes one of some thousand
    /// places.
    scripts: Table,
    /// Leasehold's own, by their place in `Script::ALL`; SCRIPT FLUSH leaves them.
    known: Vec<Option<Function>>,
}

impl Engine {
    pub(crate) fn new(data: &Arc<Mutex<Data>>) -> Self {
        Self::build(data).unwrap_or_else(|error| unreachable!("the sandbox is fixed text: {error}"))
    }

    fn build(data: &Arc<Mutex<Data>>) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let (environment, run) = lua
            .load(include_str!("sandbox.lua"))
            .set_name("@sandbox")
            .call(native(&lua, data)?)?;
        let scripts = lua.create_table()?;
        Ok(Self {
            lua,
            environment,
            run,
            scripts,
            known: vec![None; Script::ALL.len()],
        })
    }

    /// Compiles a script unless it is known, and gives the SHA-1 to call it by.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<String, StoreError> {
        let sha1 = sha1_hex(text);
        if self.find(&sha1).is_none() {
            let function = self.compile(text)?;
            self.scripts
                .raw_set(sha1.as_str(), function)
                .map_err(|error| StoreError::err(format!("Error compiling script (new function): {error}")))?;
        }
        Ok(sha1)
    }

    pub(crate) fn is_loaded(&self, sha1: &[u8]) -> bool {
        std::str::from_utf8(sha1).is_ok_and(|sha1| self.find(&sha1.to_ascii_lowercase()).is_some())
    }

    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        self.scripts.clear().map_err(|error| StoreError::err(error.to_string()))
    }

    /// Runs a loaded script.
    pub(crate) fn run(&self, sha1: &[u8], keys: &[&[u8]], args: &[&[u8]]) -> Result<Reply, StoreError> {
        let sha1 = std::str::from_utf8(sha1).map_err(|_| StoreError::no_script())?;
        let sha1 = sha1.to_ascii_lowercase();
        let function = self.find(&sha1).ok_or_else(StoreError::no_script)?;
        Ok(self.call(&function, &sha1, keys, args))
    }

    fn find(&self, sha1: &str) -> Option<Function> {
        self.scripts.raw_get(sha1).ok()
    }

    /// Runs one of Leasehold's scripts.
    pub(crate) fn run_known<K, A>(&mut self, script: Script, keys: &[K], args: &[A]) -> Reply
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        let Some(index) = Script::ALL.iter().position(|known| *known == script) else {
            return Reply::Error(StoreError::no_script());
        };
        if self.known[index].is_none() {
            match self.compile(script.text().as_bytes()) {
                Ok(function) => self.known[index] = Some(function),
                Err(error) => return Reply::Error(error),
            }
        }
        match &self.known[index] {
            Some(function) => self.call(function, script.sha1(), keys, args),
            None => Reply::Error(StoreError::no_script()),
        }
    }

    fn compile(&self, text: &[u8]) -> Result<Function, StoreError> {
        let body = without_shebang(text)?;
        if body.first() == Some(&0x1B) {
            // Compiled code, which could do anything; said in the words of Redis' parser.
            return Err(StoreError::err(
                "Error compiling script (new function): user_script:1: unexpected symbol near 'char(27)'",
            ));
        }
        self.lua
            .load(body.as_ref())
            .set_name(CHUNK_NAME)
            .set_mode(ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()
            .map_err(|error| {
                let cause = match &error {
                    mlua::Error::SyntaxError { message, .. } => message.clone(),
                    other => other.to_string(),
                };
                StoreError::err(format!("Error compiling script (new function): {cause}"))
            })
    }

    fn call<K: AsRef<[u8]>, A: AsRef<[u8]>>(&self, script: &Function, sha1: &str, keys: &[K], args: &[A]) -> Reply {
        self.try_call(script, sha1, keys, args)
            .unwrap_or_else(|error| Reply::Error(StoreError::err(format!("Error running script {sha1}: {error}"))))
    }

    fn try_call<K, A>(&self, script: &Function, sha1: &str, keys: &[K], args: &[A]) -> mlua::Result<Reply>
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        let keys = self.strings(keys)?;
        let args = self.strings(args)?;
        let (outcome, result, line): (i64, Value, Option<i64>) = self.run.call((script, keys, args))?;
        match outcome {
            1 => return convert::reply_of(&result),
            2 => return convert::reply_of_list(&result),
            _ => {}
        }
        let mut text = match &result {
            Value::String(text) => text.to_string_lossy(),
            other => format!("ERR {}", other.type_name()),
        };
        if let Some(line) = line {
            text += &format!(" script: {sha1}, on {CHUNK_NAME}:{line}.");
        }
        Ok(Reply::Error(StoreError::parse(&text)))
    }

    fn strings<B: AsRef<[u8]>>(&self, items: &[B]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(items.len(), 0)?;
        for (index, item) in items.iter().enumerate() {
            table.raw_set(index + 1, self.lua.create_string(item.as_ref())?)?;
        }
        Ok(table)
    }
}

/// A refusal on its way through Lua.
#[derive(Debug)]
struct Refusal(StoreError);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refusal {}

/// An error as one of Lua's own functions would raise it: with the script's line.
#[derive(Debug)]
struct LuaProblem(String);

impl LuaProblem {
    fn here(lua: &Lua, what: &str) -> mlua::Error {
        let place = script_line(lua).map_or_else(String::new, |line| format!("user_script:{line}: "));
        mlua::Error::external(Self(format!("{place}{what}")))
    }
}

impl std::fmt::Display for LuaProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LuaProblem {}

fn raise(error: StoreError) -> mlua::Error {
    mlua::Error::external(Refusal(error))
}

/// The store's functions that the sandbox builds on.
fn native(lua: &Lua, data: &Arc<Mutex<Data>>) -> mlua::Result<Table> {
    let native = lua.create_table()?;

    let call_data = Arc::clone(data);
    let call = lua.create_function(move |lua, args: MultiValue| match execute(&call_data, &args) {
        Reply::Error(error) => Err(raise(error)),
        reply => convert::value_of(lua, reply),
    })?;
    native.set("call", call)?;

    let pcall_data = Arc::clone(data);
    let pcall =
        lua.create_function(move |lua, args: MultiValue| convert::value_of(lua, execute(&pcall_data, &args)))?;
    native.set("pcall", pcall)?;

    let sha1hex = lua.create_function(|lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(raise(StoreError::err("wrong number of arguments")));
        }
        let text = lua.coerce_string(args[0].clone())?;
        Ok(text.map_or_else(|| sha1_hex(b""), |text| sha1_hex(&text.as_bytes())))
    })?;
    native.set("sha1hex", sha1hex)?;

    random::install(lua, &native, data)?;

    // Nobody reads what scripts log; wrong calls still fail as in Redis.
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
    native.set("log", log)?;

    let setresp = lua.create_function(|_, version: Value| match version {
        Value::Integer(2) => Ok(()),
        _ => Err(raise(StoreError::err("RESP version must be 2."))),
    })?;
    native.set("setresp", setresp)?;

    // What a script sees of an error: its text, and whether it comes in a table.
    let describe = lua.create_function(|_, error: Value| {
        let Value::Error(error) = &error else {
            return Ok((error.type_name().to_owned(), false));
        };
        Ok(match error.downcast_ref::<Refusal>() {
            Some(refusal) => (refusal.to_string(), true),
            None => match error.downcast_ref::<LuaProblem>() {
                Some(problem) => (problem.to_string(), false),
                None => (error.to_string().lines().next().unwrap_or_default().to_owned(), false),
            },
        })
    })?;
    native.set("describe", describe)?;

    native.set("line", lua.create_function(|lua, ()| Ok(script_line(lua)))?)?;
    Ok(native)
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
    data.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .execute_in_script(&args)
}

/// The line of the innermost function of a script that is on the stack.
fn script_line(lua: &Lua) -> Option<usize> {
    for level in 0..MAX_FRAMES {
        let line = lua.inspect_stack(level, |frame| {
            (frame.source().source.as_deref() == Some(CHUNK_NAME))
                .then(|| frame.current_line())
                .flatten()
        })?;
        if line.is_some() {
            return line;
        }
    }
    None
}

/// How deep the innermost script function is looked for.
const MAX_FRAMES: usize = 50;

/// The body of a script that may begin with `#!lua`, its lines still numbered as they were.
fn without_shebang(text: &[u8]) -> Result<std::borrow::Cow<'_, [u8]>, StoreError> {
    if !text.starts_with(b"#!") {
        return Ok(text.into());
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Err(StoreError::err("Invalid script shebang"));
    };
    let line = String::from_utf8_lossy(&text[2..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "lua" {
        return Err(StoreError::err(format!(
            "Unexpected engine in script shebang: #!{engine}"
        )));
    }
    if let Some(unknown) = words.find(|word| !word.starts_with("flags=")) {
        return Err(StoreError::err(format!("Unknown lua shebang option: {unknown}")));
    }
    Ok(text[end..].into())
}

pub(crate) fn sha1_hex(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
