//! Commands on strings.

use super::args::{int, is, strict_int};
use super::generic::{Unit, expiry_after};
use crate::data::Data;
use crate::reply::{Reply, StoreError};
use crate::value::Value;

type Outcome = Result<Reply, StoreError>;

pub(super) fn get(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::bytes_or_nil(data.keys().read::<Vec<u8>>(args[1])?.cloned()))
}

/// The options of `SET`.
#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_existing: bool,
    return_old: bool,
    keep_ttl: bool,
    expires_at_ms: Option<i64>,
}

impl SetOptions {
    fn parse(options: &[&[u8]], now_ms: i64) -> Result<Self, StoreError> {
        let mut parsed = Self::default();
        let mut expiry: Option<(Unit, bool, &[u8])> = None;
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            let is_first_ttl = expiry.is_none() && !parsed.keep_ttl;
            if is(option, "nx") && !parsed.only_existing {
                parsed.only_new = true;
            } else if is(option, "xx") && !parsed.only_new {
                parsed.only_existing = true;
            } else if is(option, "get") {
                parsed.return_old = true;
            } else if is(option, "keepttl") && expiry.is_none() {
                parsed.keep_ttl = true;
            } else if let Some((unit, is_absolute)) = ttl_option(option).filter(|_| is_first_ttl) {
                let amount = rest.next().ok_or_else(StoreError::syntax)?;
                expiry = Some((unit, is_absolute, amount));
            } else {
                return Err(StoreError::syntax());
            }
        }
        if let Some((unit, is_absolute, amount)) = expiry {
            let amount = int(amount)?;
            let base_ms = if is_absolute { 0 } else { now_ms };
            let at = expiry_after(base_ms, amount, unit).filter(|_| amount > 0);
            parsed.expires_at_ms = Some(at.ok_or_else(|| invalid_expiry("set"))?);
        }
        Ok(parsed)
    }
}

/// Returns the unit of a TTL option of `SET`, and whether the option names a point in time.
fn ttl_option(option: &[u8]) -> Option<(Unit, bool)> {
    [
        ("ex", Unit::Seconds, false),
        ("px", Unit::Milliseconds, false),
        ("exat", Unit::Seconds, true),
        ("pxat", Unit::Milliseconds, true),
    ]
    .into_iter()
    .find(|(word, ..)| is(option, word))
    .map(|(_, unit, is_absolute)| (unit, is_absolute))
}

pub(super) fn set(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let (key, value) = (args[1], args[2]);
    let options = SetOptions::parse(&args[3..], data.keys().now_ms())?;
    let old = if options.return_old {
        Reply::bytes_or_nil(data.keys().read::<Vec<u8>>(key)?.cloned())
    } else {
        Reply::Nil
    };
    let before = data.keys().expires_at(key);
    if (options.only_new && before.is_some()) || (options.only_existing && before.is_none()) {
        return Ok(old);
    }
    let expires_at_ms = if options.keep_ttl {
        before.flatten()
    } else {
        options.expires_at_ms
    };
    data.keys().set(key, Value::String(value.to_vec()), expires_at_ms);
    Ok(if options.return_old { old } else { Reply::OK })
}

pub(super) fn setnx(data: &mut Data, args: &[&[u8]]) -> Outcome {
    if data.keys().contains(args[1]) {
        return Ok(Reply::Int(0));
    }
    data.keys().set(args[1], Value::String(args[2].to_vec()), None);
    Ok(Reply::Int(1))
}

pub(super) fn setex(data: &mut Data, args: &[&[u8]]) -> Outcome {
    set_with_ttl(data, args, Unit::Seconds, "setex")
}

pub(super) fn psetex(data: &mut Data, args: &[&[u8]]) -> Outcome {
    set_with_ttl(data, args, Unit::Milliseconds, "psetex")
}

fn set_with_ttl(data: &mut Data, args: &[&[u8]], unit: Unit, command: &str) -> Outcome {
    let amount = int(args[2])?;
    let at = expiry_after(data.keys().now_ms(), amount, unit)
        .filter(|_| amount > 0)
        .ok_or_else(|| invalid_expiry(command))?;
    data.keys().set(args[1], Value::String(args[3].to_vec()), Some(at));
    Ok(Reply::OK)
}

pub(super) fn getset(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let old = data.keys().read::<Vec<u8>>(args[1])?.cloned();
    data.keys().set(args[1], Value::String(args[2].to_vec()), None);
    Ok(Reply::bytes_or_nil(old))
}

pub(super) fn getdel(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let old = data.keys().read::<Vec<u8>>(args[1])?.cloned();
    data.keys().remove(args[1]);
    Ok(Reply::bytes_or_nil(old))
}

pub(super) fn append(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let length = data.keys().read::<Vec<u8>>(args[1])?.map_or(0, Vec::len);
    if length.saturating_add(args[2].len()) > data.limits().value_bytes {
        return Err(StoreError::value_too_large());
    }
    data.keys().change_or_create(args[1], |value: &mut Vec<u8>| {
        value.extend_from_slice(args[2]);
        Reply::count(value.len())
    })
}

pub(super) fn strlen(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(data.keys().read::<Vec<u8>>(args[1])?.map_or(0, Vec::len)))
}

pub(super) fn mget(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let mut budget = data.reply_budget();
    let values = args[1..].iter().map(|key| {
        // A key of another type counts as missing here.
        budget.bytes_or_nil(data.keys().read::<Vec<u8>>(key).ok().flatten())
    });
    Ok(Reply::Array(values.collect::<Result<_, _>>()?))
}

pub(super) fn mset(data: &mut Data, args: &[&[u8]]) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(StoreError::arity("mset"));
    }
    for pair in args[1..].chunks_exact(2) {
        data.keys().set(pair[0], Value::String(pair[1].to_vec()), None);
    }
    Ok(Reply::OK)
}

pub(super) fn incr(data: &mut Data, args: &[&[u8]]) -> Outcome {
    add(data, args[1], 1)
}

pub(super) fn decr(data: &mut Data, args: &[&[u8]]) -> Outcome {
    add(data, args[1], -1)
}

pub(super) fn incrby(data: &mut Data, args: &[&[u8]]) -> Outcome {
    add(data, args[1], int(args[2])?)
}

pub(super) fn decrby(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let by = int(args[2])?
        .checked_neg()
        .ok_or_else(|| StoreError::err("decrement would overflow"))?;
    add(data, args[1], by)
}

fn add(data: &mut Data, key: &[u8], by: i64) -> Outcome {
    let number = match data.keys().read::<Vec<u8>>(key)? {
        None => 0,
        Some(text) => strict_int(text).ok_or_else(StoreError::not_an_integer)?,
    };
    let sum = number
        .checked_add(by)
        .ok_or_else(|| StoreError::err("increment or decrement would overflow"))?;
    // The value is changed in place, which keeps the TTL.
    data.keys()
        .change_or_create(key, |value: &mut Vec<u8>| *value = sum.to_string().into_bytes())?;
    Ok(Reply::Int(sum))
}

fn invalid_expiry(command: &str) -> StoreError {
    StoreError::err(format!("invalid expire time in '{command}' command"))
}
