//! Functions of Lua's libraries that could run or grow without end, in their
//! bounded form: searching, `gsub`, `rep` and `unpack`.

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::convert;
use super::guard::Guard;
use super::pattern::{Capture, Matcher, Problem};
use super::problem::{LuaProblem, not_enough_memory};
use crate::limits::UNPACKED;

/// Bytes of a pattern that make it more than plain text.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// Adds them to the functions that the sandbox builds on. No text is built that is longer than `most_bytes`.
pub(super) fn install(lua: &Lua, native: &Table, guard: &Arc<Guard>, most_bytes: usize) -> mlua::Result<()> {
    let own = Arc::clone(guard);
    native.set(
        "find",
        lua.create_function(move |lua, args: MultiValue| search(lua, &args, &own, true))?,
    )?;
    let own = Arc::clone(guard);
    native.set(
        "match",
        lua.create_function(move |lua, args: MultiValue| search(lua, &args, &own, false))?,
    )?;
    let own = Arc::clone(guard);
    native.set(
        "gsub",
        lua.create_function(move |lua, args: MultiValue| gsub(lua, &args, &own, most_bytes))?,
    )?;
    native.set("gsub_arguments", lua.create_function(gsub_arguments)?)?;
    native.set(
        "gmatch_arguments",
        lua.create_function(|lua, args: MultiValue| {
            Ok((text(lua, &args, 0, "gmatch")?, text(lua, &args, 1, "gmatch")?))
        })?,
    )?;
    let own = Arc::clone(guard);
    native.set(
        "next_match",
        lua.create_function(move |lua, args| next_match(lua, args, &own))?,
    )?;
    native.set(
        "rep",
        lua.create_function(move |lua, args: MultiValue| rep(lua, &args, most_bytes))?,
    )?;
    native.set(
        "unpack",
        lua.create_function(|lua, args: MultiValue| unpack(lua, &args))?,
    )?;
    native.set(
        "raise",
        lua.create_function(|lua, what: String| Err::<(), _>(LuaProblem::here(lua, &what)))?,
    )
}

/// `string.find` and `string.match`.
fn search(lua: &Lua, args: &MultiValue, guard: &Guard, is_find: bool) -> mlua::Result<MultiValue> {
    let function = if is_find { "find" } else { "match" };
    let subject = text(lua, args, 0, function)?;
    let pattern = text(lua, args, 1, function)?;
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let init = optional_int(lua, args, 2, function)?.unwrap_or(1);
    let from = place(init, subject.len());
    let is_plain = is_find && (is_true(args.get(3)) || !until_nul(&pattern).iter().any(|byte| SPECIALS.contains(byte)));
    let mut found = MultiValue::new();
    if is_plain {
        match plain(&subject, &pattern, from, guard)? {
            Some(at) => {
                found.push_back(integer(at + 1));
                found.push_back(integer(at + pattern.len()));
            }
            None => found.push_back(Value::Nil),
        }
        return Ok(found);
    }
    let (pattern, is_anchored) = anchor(until_nul(&pattern));
    let mut matcher = Matcher::new(&subject, pattern, guard);
    let result = first_match(&mut matcher, subject.len(), from, is_anchored).and_then(|range| {
        let captures = matcher.captures()?;
        matcher.charge()?;
        Ok(range.map(|range| (range, captures)))
    });
    let Some(((start, end), captures)) = result.map_err(|problem| raised(lua, problem))? else {
        found.push_back(Value::Nil);
        return Ok(found);
    };
    if is_find {
        found.push_back(integer(start + 1));
        found.push_back(integer(end));
    } else if captures.is_empty() {
        found.push_back(Value::String(lua.create_string(&subject[start..end])?));
    }
    push_captures(lua, &subject, &captures, &mut found)?;
    Ok(found)
}

/// The first match from a place on.
fn first_match(
    matcher: &mut Matcher<'_>,
    length: usize,
    from: usize,
    is_anchored: bool,
) -> Result<Option<(usize, usize)>, Problem> {
    for start in from..=length {
        if let Some(end) = matcher.match_at(start)? {
            return Ok(Some((start, end)));
        }
        if is_anchored {
            break;
        }
    }
    Ok(None)
}

fn push_captures(lua: &Lua, subject: &[u8], captures: &[Capture], into: &mut MultiValue) -> mlua::Result<()> {
    for capture in captures {
        into.push_back(match *capture {
            Capture::Range(start, end) => Value::String(lua.create_string(&subject[start..end])?),
            Capture::Position(place) => integer(place),
        });
    }
    Ok(())
}

/// A search for the very bytes.
fn plain(subject: &[u8], wanted: &[u8], from: usize, guard: &Guard) -> mlua::Result<Option<usize>> {
    let Some(first) = wanted.first() else {
        return Ok(Some(from));
    };
    let (mut at, mut steps) = (from, 0_usize);
    while at + wanted.len() <= subject.len() {
        let last = subject.len() - wanted.len();
        let Some(skip) = subject[at..=last].iter().position(|byte| byte == first) else {
            break;
        };
        at += skip;
        let same = subject[at..].iter().zip(wanted).take_while(|(a, b)| a == b).count();
        if same == wanted.len() {
            return Ok(Some(at));
        }
        at += 1;
        steps += skip / 16 + same / 4 + 1;
        if steps > 4_096 {
            guard.charge(std::mem::take(&mut steps) as u64)?;
        }
    }
    Ok(None)
}

/// `string.gsub` with a text to put in.
fn gsub(lua: &Lua, args: &MultiValue, guard: &Guard, most_bytes: usize) -> mlua::Result<(LuaString, i64)> {
    let subject = text(lua, args, 0, "gsub")?;
    let pattern = text(lua, args, 1, "gsub")?;
    let most = optional_int(lua, args, 3, "gsub")?;
    if !matches!(
        args.get(2),
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_))
    ) {
        return Err(LuaProblem::here(
            lua,
            "bad argument #3 to 'gsub' (string/function/table expected)",
        ));
    }
    let replacement = text(lua, args, 2, "gsub")?;
    let (subject, pattern, replacement) = (subject.as_bytes(), pattern.as_bytes(), replacement.as_bytes());
    let (pattern, is_anchored) = anchor(until_nul(&pattern));
    let mut matcher = Matcher::new(&subject, pattern, guard);
    let (mut out, mut count, mut at) = (Vec::new(), 0, 0);
    let most = most.unwrap_or(i64::MAX);
    while count < most {
        if out.len() > most_bytes {
            return Err(not_enough_memory());
        }
        let end = matcher.match_at(at).map_err(|problem| raised(lua, problem))?;
        if let Some(end) = end {
            count += 1;
            let added = put_in(&mut out, &replacement, &subject, (at, end), &matcher, most_bytes);
            added.map_err(|problem| raised(lua, problem))?;
        }
        match end {
            Some(end) if end > at => at = end,
            _ if at < subject.len() => {
                out.push(subject[at]);
                at += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    matcher.charge().map_err(|problem| raised(lua, problem))?;
    out.extend_from_slice(&subject[at..]);
    if out.len() > most_bytes {
        return Err(not_enough_memory());
    }
    Ok((lua.create_string(out)?, count))
}

/// Appends a replacement, with its `%0` to `%9` filled in.
fn put_in(
    out: &mut Vec<u8>,
    replacement: &[u8],
    subject: &[u8],
    (start, end): (usize, usize),
    matcher: &Matcher<'_>,
    most_bytes: usize,
) -> Result<(), Problem> {
    let mut bytes = replacement.iter();
    while let Some(byte) = bytes.next() {
        if out.len() > most_bytes {
            return Err(Problem::Over(not_enough_memory()));
        }
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        // At the end of the text C finds the NUL after it.
        let digit = bytes.next().copied().unwrap_or(0);
        if !digit.is_ascii_digit() {
            out.push(digit);
            continue;
        }
        if digit == b'0' {
            out.extend_from_slice(&subject[start..end]);
            continue;
        }
        match matcher.one(usize::from(digit - b'1'), (start, end))? {
            Capture::Range(start, end) => out.extend_from_slice(&subject[start..end]),
            Capture::Position(place) => out.extend_from_slice(place.to_string().as_bytes()),
        }
    }
    Ok(())
}

/// What `gsub` with a function or a table begins with: text, pattern, the most replacements, whether it is anchored.
fn gsub_arguments(lua: &Lua, args: MultiValue) -> mlua::Result<(LuaString, LuaString, f64, bool)> {
    let subject = text(lua, &args, 0, "gsub")?;
    let pattern = text(lua, &args, 1, "gsub")?;
    let most = optional_int(lua, &args, 3, "gsub")?;
    let bytes = pattern.as_bytes();
    let (bare, is_anchored) = anchor(until_nul(&bytes));
    let bare = lua.create_string(bare)?;
    #[expect(clippy::cast_precision_loss, reason = "more than any text has bytes")]
    let most = most.map_or(f64::INFINITY, |most| most as f64);
    drop(bytes);
    Ok((subject, bare, most, is_anchored))
}

/// The first match from a place on: its place, the place after it, its captures, the whole if there are none;
/// only the first if one is enough.
fn next_match(
    lua: &Lua,
    (subject, pattern, from, is_anchored, is_one): (LuaString, LuaString, usize, bool, bool),
    guard: &Guard,
) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let mut matcher = Matcher::new(&subject, until_nul(&pattern), guard);
    let from = from.saturating_sub(1);
    let result = first_match(&mut matcher, subject.len(), from, is_anchored).and_then(|range| {
        let captures = match range {
            Some(range) if is_one => vec![matcher.one(0, range)?],
            Some(_) => matcher.captures()?,
            None => Vec::new(),
        };
        matcher.charge()?;
        Ok(range.map(|range| (range, captures)))
    });
    let mut found = MultiValue::new();
    if let Some(((start, end), captures)) = result.map_err(|problem| raised(lua, problem))? {
        found.push_back(integer(start + 1));
        found.push_back(integer(end + 1));
        if captures.is_empty() {
            found.push_back(Value::String(lua.create_string(&subject[start..end])?));
        }
        push_captures(lua, &subject, &captures, &mut found)?;
    }
    Ok(found)
}

/// `string.rep`
fn rep(lua: &Lua, args: &MultiValue, most_bytes: usize) -> mlua::Result<LuaString> {
    let piece = text(lua, args, 0, "rep")?;
    let count = int(lua, args, 1, "rep")?;
    let piece = piece.as_bytes();
    let count = usize::try_from(count).unwrap_or(0);
    if piece.is_empty() || count == 0 {
        return lua.create_string("");
    }
    match piece.len().checked_mul(count) {
        Some(length) if length <= most_bytes => lua.create_string(piece.repeat(count)),
        _ => Err(not_enough_memory()),
    }
}

/// `unpack`
fn unpack(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let Some(Value::Table(list)) = args.front() else {
        return Err(bad_argument(lua, args, 0, "unpack", "table"));
    };
    let first = optional_int(lua, args, 1, "unpack")?.map_or(1, as_c_int);
    let last = match optional_int(lua, args, 2, "unpack")? {
        Some(last) => as_c_int(last),
        None => i32::try_from(list.raw_len()).unwrap_or(i32::MAX),
    };
    if first > last {
        return Ok(MultiValue::new());
    }
    if f64::from(last) - f64::from(first) >= UNPACKED {
        return Err(LuaProblem::here(lua, "too many results to unpack"));
    }
    (first..=last).map(|index| list.raw_get(index)).collect()
}

/// An argument as a text; numbers are written, as everywhere in Lua.
fn text(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<LuaString> {
    match args.get(index) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => lua
            .coerce_string(number.clone())?
            .ok_or_else(|| bad_argument(lua, args, index, function, "string")),
        _ => Err(bad_argument(lua, args, index, function, "string")),
    }
}

fn int(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<i64> {
    let number = match args.get(index) {
        Some(value @ (Value::Integer(_) | Value::Number(_) | Value::String(_))) => lua.coerce_number(value.clone())?,
        _ => None,
    };
    let number = number.ok_or_else(|| bad_argument(lua, args, index, function, "number"))?;
    Ok(convert::truncate(number))
}

fn optional_int(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<Option<i64>> {
    match args.get(index) {
        None | Some(Value::Nil) => Ok(None),
        Some(_) => int(lua, args, index, function).map(Some),
    }
}

/// The low 32 bits, as C casts.
fn as_c_int(number: i64) -> i32 {
    u32::try_from(number & 0xFFFF_FFFF).unwrap_or_default().cast_signed()
}

fn bad_argument(lua: &Lua, args: &MultiValue, index: usize, function: &str, expected: &str) -> mlua::Error {
    let got = args.get(index).map_or("no value", lua_type);
    let number = index + 1;
    LuaProblem::here(
        lua,
        &format!("bad argument #{number} to '{function}' ({expected} expected, got {got})"),
    )
}

fn lua_type(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

/// What Lua says, and where it says it.
fn raised(lua: &Lua, problem: Problem) -> mlua::Error {
    match problem {
        Problem::Malformed(why) => LuaProblem::here(lua, &why),
        Problem::Over(error) => error,
    }
}

/// C's idea of a pattern: up to its first NUL.
fn until_nul(pattern: &[u8]) -> &[u8] {
    pattern.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn anchor(pattern: &[u8]) -> (&[u8], bool) {
    match pattern {
        [b'^', rest @ ..] => (rest, true),
        _ => (pattern, false),
    }
}

/// Where a search that begins at `init` begins, counted from zero.
fn place(init: i64, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let init = if init < 0 {
        init.saturating_add(length + 1)
    } else {
        init
    };
    usize::try_from((init - 1).clamp(0, length)).unwrap_or(0)
}

fn integer(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn is_true(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Nil | Value::Boolean(false)))
}
