//! Commands on hashes.

use super::args::{int, is, strict_int};
use crate::data::Data;
use crate::reply::{Reply, StoreError};
use crate::value::Hash;

type Outcome = Result<Reply, StoreError>;

pub(super) fn hset(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let pairs = pairs(args, "hset")?;
    data.keys().change_or_create(args[1], |hash: &mut Hash| {
        let added = pairs.filter(|(field, value)| hash.insert(field, value).is_none());
        Reply::count(added.count())
    })
}

pub(super) fn hmset(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let pairs = pairs(args, "hmset")?;
    data.keys().change_or_create(args[1], |hash: &mut Hash| {
        for (field, value) in pairs {
            hash.insert(field, value);
        }
        Reply::OK
    })
}

fn pairs<'a>(
    args: &'a [&'a [u8]],
    command: &str,
) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a>, StoreError> {
    if !args.len().is_multiple_of(2) {
        return Err(StoreError::arity(command));
    }
    Ok(args[2..].chunks_exact(2).map(|pair| (pair[0], pair[1])))
}

pub(super) fn hsetnx(data: &mut Data, args: &[&[u8]]) -> Outcome {
    data.keys().change_or_create(args[1], |hash: &mut Hash| {
        let is_new = !hash.contains_key(args[2]);
        if is_new {
            hash.insert(args[2], args[3]);
        }
        Reply::flag(is_new)
    })
}

pub(super) fn hget(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let hash = data.keys().read::<Hash>(args[1])?;
    Ok(Reply::bytes_or_nil(hash.and_then(|hash| hash.get(args[2])).cloned()))
}

pub(super) fn hmget(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let mut budget = data.reply_budget();
    let hash = data.keys().read::<Hash>(args[1])?;
    let values = args[2..]
        .iter()
        .map(|field| budget.bytes_or_nil(hash.and_then(|hash| hash.get(*field))));
    Ok(Reply::Array(values.collect::<Result<_, _>>()?))
}

pub(super) fn hexists(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let hash = data.keys().read::<Hash>(args[1])?;
    Ok(Reply::flag(hash.is_some_and(|hash| hash.contains_key(args[2]))))
}

pub(super) fn hlen(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        data.keys().read::<Hash>(args[1])?.map_or(0, |hash| hash.len()),
    ))
}

pub(super) fn hdel(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let removed = data.keys().change(args[1], |hash: &mut Hash| {
        args[2..].iter().filter(|field| hash.remove(field)).count()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

pub(super) fn hgetall(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let mut budget = data.reply_budget();
    let hash = data.keys().read::<Hash>(args[1])?;
    let pairs = hash
        .into_iter()
        .flat_map(|hash| hash.iter())
        .map(|(field, value)| Ok((budget.bytes(field)?, budget.bytes(value)?)));
    Ok(Reply::Map(pairs.collect::<Result<_, StoreError>>()?))
}

pub(super) fn hkeys(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let mut budget = data.reply_budget();
    let hash = data.keys().read::<Hash>(args[1])?;
    let fields = hash.into_iter().flat_map(|hash| hash.keys());
    let fields = fields.map(|field| budget.bytes(field));
    Ok(Reply::Array(fields.collect::<Result<_, _>>()?))
}

pub(super) fn hvals(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let mut budget = data.reply_budget();
    let hash = data.keys().read::<Hash>(args[1])?;
    let values = hash.into_iter().flat_map(|hash| hash.values());
    let values = values.map(|value| budget.bytes(value));
    Ok(Reply::Array(values.collect::<Result<_, _>>()?))
}

pub(super) fn hincrby(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let by = int(args[3])?;
    let number = match data.keys().read::<Hash>(args[1])?.and_then(|hash| hash.get(args[2])) {
        None => 0,
        Some(text) => strict_int(text).ok_or_else(|| StoreError::err("hash value is not an integer"))?,
    };
    let sum = number
        .checked_add(by)
        .ok_or_else(|| StoreError::err("increment or decrement would overflow"))?;
    data.keys().change_or_create(args[1], |hash: &mut Hash| {
        hash.insert(args[2], sum.to_string().as_bytes());
    })?;
    Ok(Reply::Int(sum))
}

/// Draws fields at random: without a count one field, with a positive count up to that many different fields, with a
/// negative count that many fields, possibly repeated.
pub(super) fn hrandfield(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let Some(count) = args.get(2) else {
        let (keys, random) = data.keys_and_random();
        let hash = keys.read::<Hash>(args[1])?;
        let field = hash.and_then(|hash| hash.get_index(random.below(hash.len())));
        return Ok(Reply::bytes_or_nil(field.map(|(field, _)| field.clone())));
    };
    let count = int(count)?;
    let with_values = match args[3..] {
        [] => false,
        [option] if is(option, "withvalues") => true,
        _ => return Err(StoreError::syntax()),
    };
    if count.unsigned_abs() > MAX_DRAWN {
        return Err(StoreError::err("value is out of range"));
    }
    let mut budget = data.reply_budget();
    let (keys, random) = data.keys_and_random();
    let Some(hash) = keys.read::<Hash>(args[1])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let indexes: Vec<usize> = if count < 0 {
        (0..wanted).map(|_| random.below(hash.len())).collect()
    } else {
        let mut indexes: Vec<usize> = (0..hash.len()).collect();
        for index in 0..wanted.min(hash.len()) {
            indexes.swap(index, index + random.below(hash.len() - index));
        }
        indexes.truncate(wanted);
        indexes
    };
    let drawn = indexes
        .into_iter()
        .filter_map(|index| hash.get_index(index))
        .map(|(field, value)| {
            Ok((
                budget.bytes(field)?,
                budget.bytes(if with_values { value } else { b"" })?,
            ))
        });
    let drawn: Vec<_> = drawn.collect::<Result<_, StoreError>>()?;
    Ok(if with_values {
        Reply::Pairs(drawn)
    } else {
        Reply::Array(drawn.into_iter().map(|(field, _)| field).collect())
    })
}

/// The limit on the fields that one command draws.
const MAX_DRAWN: u64 = 1_000_000;
