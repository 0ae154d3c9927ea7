//! Commands on scripts, which the script engine executes. The engine runs other commands through the table of commands.
//! The table must therefore not depend on the engine, and only names the commands on scripts (`Scripting`).

use super::Scripting;
use super::args::{int, is};
use crate::lua::{Engine, Origin};
use crate::reply::{Reply, StoreError};

type Outcome = Result<Reply, StoreError>;
type Words<'a> = &'a [&'a [u8]];

pub(crate) fn run(command: Scripting, engine: &mut Engine, args: &[&[u8]]) -> Outcome {
    match command {
        Scripting::Eval => eval(engine, args),
        Scripting::EvalSha => evalsha(engine, args),
        Scripting::Script => script(engine, args),
    }
}

fn eval(engine: &mut Engine, args: &[&[u8]]) -> Outcome {
    let (keys, argv) = keys_and_args(args)?;
    let sha1 = engine.load(args[1], Origin::Eval)?;
    engine.run(sha1.as_bytes(), keys, argv)
}

fn evalsha(engine: &mut Engine, args: &[&[u8]]) -> Outcome {
    if args[1].len() != SHA1_DIGITS {
        return Err(StoreError::no_script());
    }
    let (keys, argv) = keys_and_args(args)?;
    engine.run(args[1], keys, argv)
}

/// The length of a script's digest.
const SHA1_DIGITS: usize = 40;

/// Splits `EVAL script count key… arg…` into KEYS and ARGV.
fn keys_and_args<'a>(args: &'a [&'a [u8]]) -> Result<(Words<'a>, Words<'a>), StoreError> {
    let count = int(args[2])?;
    let rest = &args[3..];
    match usize::try_from(count) {
        Err(_) => Err(StoreError::err("Number of keys can't be negative")),
        Ok(count) => rest
            .split_at_checked(count)
            .ok_or_else(|| StoreError::err("Number of keys can't be greater than number of args")),
    }
}

fn script(engine: &mut Engine, args: &[&[u8]]) -> Outcome {
    let (subcommand, rest) = (args[1], &args[2..]);
    if is(subcommand, "load") {
        let [text] = rest else {
            return Err(StoreError::arity("script|load"));
        };
        return engine.load(text, Origin::Load).map(Reply::bytes);
    }
    if is(subcommand, "exists") {
        if rest.is_empty() {
            return Err(StoreError::arity("script|exists"));
        }
        let found = rest.iter().map(|sha1| Reply::flag(engine.is_loaded(sha1)));
        return Ok(Reply::Array(found.collect()));
    }
    if is(subcommand, "flush") {
        match rest {
            [] => {}
            [mode] if is(mode, "sync") || is(mode, "async") => {}
            _ => return Err(StoreError::err("SCRIPT FLUSH only support SYNC|ASYNC option")),
        }
        return engine.flush().map(|()| Reply::OK);
    }
    Err(super::server::unknown_subcommand("SCRIPT", subcommand))
}
