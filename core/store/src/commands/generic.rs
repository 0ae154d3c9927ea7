//! Commands on keys of any type.

use super::args::{int, is, strict_int};
use crate::data::Data;
use crate::reply::{EXCERPT_BYTES, Reply, StoreError, excerpt};

type Outcome = Result<Reply, StoreError>;

/// The unit of a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// Returns the time `amount` after `base_ms`, if it can be expressed in milliseconds.
pub(super) fn expiry_after(base_ms: i64, amount: i64, unit: Unit) -> Option<i64> {
    let millis = match unit {
        Unit::Seconds => amount.checked_mul(1_000)?,
        Unit::Milliseconds => amount,
    };
    base_ms.checked_add(millis)
}

pub(super) fn del(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        args[1..].iter().filter(|key| data.keys().remove(key)).count(),
    ))
}

pub(super) fn exists(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        args[1..].iter().filter(|key| data.keys().contains(key)).count(),
    ))
}

pub(super) fn type_of(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::Status(data.keys().type_name(args[1]).unwrap_or("none").into()))
}

pub(super) fn expire(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let now_ms = data.keys().now_ms();
    set_expiry(data, args, now_ms, Unit::Seconds, "expire")
}

pub(super) fn pexpire(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let now_ms = data.keys().now_ms();
    set_expiry(data, args, now_ms, Unit::Milliseconds, "pexpire")
}

pub(super) fn expireat(data: &mut Data, args: &[&[u8]]) -> Outcome {
    set_expiry(data, args, 0, Unit::Seconds, "expireat")
}

pub(super) fn pexpireat(data: &mut Data, args: &[&[u8]]) -> Outcome {
    set_expiry(data, args, 0, Unit::Milliseconds, "pexpireat")
}

/// The conditions for setting an expiry.
#[derive(Default)]
struct ExpiryRule {
    without_ttl: bool,
    with_ttl: bool,
    if_later: bool,
    if_earlier: bool,
}

impl ExpiryRule {
    fn parse(options: &[&[u8]]) -> Result<Self, StoreError> {
        let mut rule = Self::default();
        for option in options {
            if is(option, "nx") {
                rule.without_ttl = true;
            } else if is(option, "xx") {
                rule.with_ttl = true;
            } else if is(option, "gt") {
                rule.if_later = true;
            } else if is(option, "lt") {
                rule.if_earlier = true;
            } else {
                let excerpt = excerpt(option, EXCERPT_BYTES);
                return Err(StoreError::err(format!("Unsupported option {excerpt}")));
            }
        }
        if rule.without_ttl && (rule.with_ttl || rule.if_later || rule.if_earlier) {
            return Err(StoreError::err(
                "NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if rule.if_later && rule.if_earlier {
            return Err(StoreError::err("GT and LT options at the same time are not compatible"));
        }
        Ok(rule)
    }

    /// Returns whether the expiry of a key may change from `before` to `at`.
    fn allows(&self, before: Option<i64>, at: i64) -> bool {
        match before {
            // A key without a TTL counts as one that expires later than any other.
            None => !self.with_ttl && !self.if_later,
            Some(before) => !self.without_ttl && (!self.if_later || at > before) && (!self.if_earlier || at < before),
        }
    }
}

fn set_expiry(data: &mut Data, args: &[&[u8]], base_ms: i64, unit: Unit, command: &str) -> Outcome {
    let rule = ExpiryRule::parse(&args[3..])?;
    let at = expiry_after(base_ms, int(args[2])?, unit)
        .ok_or_else(|| StoreError::err(format!("invalid expire time in '{command}' command")))?;
    let Some(before) = data.keys().expires_at(args[1]) else {
        return Ok(Reply::Int(0));
    };
    if !rule.allows(before, at) {
        return Ok(Reply::Int(0));
    }
    data.keys().set_expiry(args[1], Some(at));
    Ok(Reply::Int(1))
}

pub(super) fn persist(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let has_ttl = data.keys().expires_at(args[1]).flatten().is_some();
    if has_ttl {
        data.keys().set_expiry(args[1], None);
    }
    Ok(Reply::flag(has_ttl))
}

pub(super) fn pttl(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::Int(remaining_ms(data, args[1])))
}

pub(super) fn ttl(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let remaining = remaining_ms(data, args[1]);
    Ok(Reply::Int(if remaining < 0 {
        remaining
    } else {
        remaining.saturating_add(500) / 1_000
    }))
}

/// Returns the TTL in milliseconds; -2 without the key, -1 without a TTL.
fn remaining_ms(data: &mut Data, key: &[u8]) -> i64 {
    match data.keys().expires_at(key) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => at.saturating_sub(data.keys().now_ms()).max(0),
    }
}

pub(super) fn keys(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let mut budget = data.reply_budget();
    let pattern = data.pattern(args[1]);
    let keys = data.keys().matching(&pattern).map(|(key, _)| budget.bytes(key));
    let keys = Reply::Array(keys.collect::<Result<_, _>>()?);
    pattern.finish()?;
    Ok(keys)
}

/// Returns all matching keys at once. The cursor and `COUNT` are checked and have no effect.
pub(super) fn scan(data: &mut Data, args: &[&[u8]]) -> Outcome {
    strict_int(args[1])
        .filter(|cursor| *cursor >= 0)
        .ok_or_else(|| StoreError::err("invalid cursor"))?;
    let (mut pattern, mut wanted) = (&b"*"[..], None);
    for option in args[2..].chunks(2) {
        match option {
            [name, value] if is(name, "match") => pattern = value,
            [name, value] if is(name, "type") => wanted = Some(*value),
            [name, value] if is(name, "count") => {
                if int(value)? < 1 {
                    return Err(StoreError::syntax());
                }
            }
            _ => return Err(StoreError::syntax()),
        }
    }
    let mut budget = data.reply_budget();
    let pattern = data.pattern(pattern);
    let keys = data
        .keys()
        .matching(&pattern)
        .filter(|(_, name)| wanted.is_none_or(|wanted| is(wanted, name)))
        .map(|(key, _)| budget.bytes(key));
    let keys = Reply::Array(keys.collect::<Result<_, _>>()?);
    pattern.finish()?;
    Ok(Reply::Array(vec![Reply::bytes("0"), keys]))
}

pub(super) fn dbsize(data: &mut Data, _args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(data.keys().counts().0))
}

pub(super) fn flushall(data: &mut Data, args: &[&[u8]]) -> Outcome {
    match args[1..] {
        [] => {}
        [mode] if is(mode, "sync") || is(mode, "async") => {}
        _ => return Err(StoreError::syntax()),
    }
    data.keys().clear();
    Ok(Reply::OK)
}
