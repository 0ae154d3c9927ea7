//! The script engine: Lua 5.1 with most of what Redis 7 offers to scripts.

mod budget;
mod convert;
mod errors;
mod native;
mod random;
mod script_cache;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use steadlock_protocol::Script;

use self::budget::ScriptBudget;
pub(crate) use self::budget::TimeLimit;
use self::convert::BoundedReply;
use self::errors::{CHUNK_NAME, client_error};
use self::native::{native, sha1_hex};
pub(crate) use self::script_cache::Origin;
use self::script_cache::{ScriptCache, is_own_script};
use crate::data::Data;
use crate::limits::{Limits, Scripts};
use crate::reply::{Reply, StoreError};

/// Compiled scripts, and the environment in which they run.
pub(crate) struct Engine {
    lua: Lua,
    environment: Table,
    run: Function,
    /// A function that drops the last script's KEYS and ARGV.
    clear_arguments: Function,
    /// The scripts that EVALSHA can run.
    cache: ScriptCache,
    /// Steadlock's own scripts for `run_own`, by their position in `Script::ALL`. SCRIPT FLUSH does not remove them.
    own: Vec<Option<Function>>,
    limits: Limits,
    budget: Arc<ScriptBudget>,
}

impl Engine {
    pub(crate) fn new(data: &Arc<Mutex<Data>>, limits: Limits, time_limit: Option<Arc<dyn TimeLimit>>) -> Self {
        Self::build(data, limits, time_limit).unwrap_or_else(|error| unreachable!("the sandbox is fixed text: {error}"))
    }

    fn build(data: &Arc<Mutex<Data>>, limits: Limits, time_limit: Option<Arc<dyn TimeLimit>>) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let budget = ScriptBudget::new(limits.script_steps, time_limit);
        let (environment, run, clear_arguments) = lua
            .load(include_str!("lua/sandbox.lua"))
            .set_name("@sandbox")
            .call(native(&lua, data, &budget)?)?;
        // CVE-2025-49844: the collector may free the name of a script while the parser still uses it. Lua keeps one
        // object for equal short strings, so this reference keeps the name.
        lua.set_named_registry_value("steadlock.chunk_name", CHUNK_NAME)?;
        budget.install(&lua)?;
        let cache = ScriptCache::new(&lua, limits)?;
        lua.set_memory_limit(limits.lua_bytes)?;
        Ok(Self {
            cache,
            lua,
            environment,
            run,
            clear_arguments,
            own: vec![None; Script::ALL.len()],
            limits,
            budget,
        })
    }

    /// Compiles a script unless it is known. Returns the SHA-1 by which it is called.
    pub(crate) fn load(&mut self, text: &[u8], origin: Origin) -> Result<String, StoreError> {
        let sha1 = sha1_hex(text);
        if self.cache.touch(&sha1, origin)? {
            return Ok(sha1);
        }
        if self.limits.scripts == Scripts::Own && !is_own_script(&sha1) {
            return Err(StoreError::err(FOREIGN_SCRIPT));
        }
        if text.len() > self.limits.script_text {
            return Err(StoreError::err(format!(
                "Error compiling script (new function): the script is longer than {} bytes",
                self.limits.script_text
            )));
        }
        let is_bounded = self.limits.lua_bytes > 0;
        // The collector is stopped, so the growth of the heap is the memory of the script.
        if is_bounded {
            self.lua.gc_stop();
        }
        let before = self.lua.used_memory();
        let compiled = self.compile(text);
        let bytes = self.lua.used_memory().saturating_sub(before);
        if is_bounded {
            self.lua.gc_restart();
        }
        let cached = compiled.and_then(|function| self.cache.insert(&sha1, &function, bytes, origin));
        if cached.is_err() {
            self.collect_garbage();
        }
        cached.map(|()| sha1)
    }

    #[cfg(feature = "server")]
    pub(crate) fn is_over_time(&self) -> bool {
        self.budget.is_over_time()
    }

    pub(crate) fn is_loaded(&self, sha1: &[u8]) -> bool {
        std::str::from_utf8(sha1).is_ok_and(|sha1| self.cache.find(&sha1.to_ascii_lowercase()).is_some())
    }

    /// Returns the number of scripts that are kept for EVALSHA.
    #[cfg(feature = "server")]
    pub(crate) fn scripts(&self) -> usize {
        self.cache.len()
    }

    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        self.cache.clear()
    }

    /// Runs a script of the cache.
    pub(crate) fn run(&self, sha1: &[u8], keys: &[&[u8]], args: &[&[u8]]) -> Result<Reply, StoreError> {
        let sha1 = std::str::from_utf8(sha1).map_err(|_| StoreError::no_script())?;
        let sha1 = sha1.to_ascii_lowercase();
        let function = self.cache.find(&sha1).ok_or_else(StoreError::no_script)?;
        Ok(self.call(&function, &sha1, self.cache.is_own(&sha1), keys, args))
    }

    /// Runs one of Steadlock's scripts.
    pub(crate) fn run_own<K, A>(&mut self, script: Script, keys: &[K], args: &[A]) -> Reply
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        let Some(index) = Script::ALL.iter().position(|own| *own == script) else {
            return Reply::Error(StoreError::no_script());
        };
        if self.own[index].is_none() {
            match self.compile(script.text().as_bytes()) {
                Ok(function) => self.own[index] = Some(function),
                Err(error) => return Reply::Error(error),
            }
        }
        match &self.own[index] {
            Some(function) => self.call(function, script.sha1(), true, keys, args),
            None => Reply::Error(StoreError::no_script()),
        }
    }

    fn compile(&self, text: &[u8]) -> Result<Function, StoreError> {
        let body = without_shebang(text)?;
        if body.first() == Some(&0x1B) {
            // Compiled code could do anything, so it is refused, with the error text of Redis' parser.
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

    fn call<K: AsRef<[u8]>, A: AsRef<[u8]>>(
        &self,
        script: &Function,
        sha1: &str,
        is_own: bool,
        keys: &[K],
        args: &[A],
    ) -> Reply {
        // A memory limit makes every step of a script slower. Steadlock's own scripts need no limit: they keep no more
        // data than their arguments and their reply.
        let sent: usize = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
            + args.iter().map(|arg| arg.as_ref().len()).sum::<usize>();
        let is_trusted = is_own && self.limits.lua_bytes > 0 && sent < TRUSTED_BYTES;
        if is_trusted {
            let _ = self.lua.set_memory_limit(0);
        }
        // A script that used up its budget left a hook that runs after every instruction. The hook would slow this
        // script down.
        let begun = if self.budget.restart() {
            self.budget.install(&self.lua)
        } else {
            Ok(())
        };
        // `mlua` panics if a call has more arguments than it can pass.
        let ended = catch_unwind(AssertUnwindSafe(|| {
            begun.and_then(|()| self.try_call(script, sha1, keys, args))
        }));
        if is_trusted {
            let _ = self.lua.set_memory_limit(self.limits.lua_bytes);
        }
        let reply = match ended {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::Error(client_error(sha1, &error)),
            Err(_) => Reply::Error(StoreError::err(format!("Error running script {sha1}: stack overflow"))),
        };
        if self.limits.lua_bytes > 0 && self.lua.used_memory() > self.limits.lua_bytes / 2 {
            self.collect_garbage();
        }
        reply
    }

    /// Frees everything that no script needs any more.
    fn collect_garbage(&self) {
        // Each call can fail if memory is exhausted. The next script then fails as well.
        let _ = self.clear_arguments.call::<()>(());
        let _ = self.lua.gc_collect();
    }

    fn try_call<K, A>(&self, script: &Function, sha1: &str, keys: &[K], args: &[A]) -> mlua::Result<Reply>
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        let keys = self.strings(keys)?;
        let args = self.strings(args)?;
        let (outcome, result, line): (i64, Value, Option<i64>) = self.run.call((script, keys, args))?;
        // The numbers are VALUE and LIST of `sandbox.lua`.
        match outcome {
            1 => return convert::reply_of(&result, &mut BoundedReply::new(&self.limits, &self.budget)),
            2 => return convert::reply_of_list(&result, &mut BoundedReply::new(&self.limits, &self.budget)),
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

/// The refusal of a script that is not Steadlock's. It names the version, because a client of another version may have
/// other scripts.
const FOREIGN_SCRIPT: &str = concat!(
    "this server runs only the scripts of Steadlock ",
    env!("CARGO_PKG_VERSION"),
    "; `steadlock serve --scripts any` runs all, and then a client can hang or crash it"
);

/// One of Steadlock's scripts runs without a memory limit if its keys and arguments have fewer bytes than this.
const TRUSTED_BYTES: usize = 64 * 1024;

/// Returns the body of a script that can begin with `#!lua`. The line numbers stay the same.
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
