//! Commands on lists.

use super::args::{int, positive, range};
use crate::data::Data;
use crate::reply::{Reply, StoreError};
use crate::value::List;

type Outcome = Result<Reply, StoreError>;

pub(super) fn lpush(data: &mut Data, args: &[&[u8]]) -> Outcome {
    push(data, args, List::push_front)
}

pub(super) fn rpush(data: &mut Data, args: &[&[u8]]) -> Outcome {
    push(data, args, List::push_back)
}

fn push(data: &mut Data, args: &[&[u8]], push: fn(&mut List, Vec<u8>)) -> Outcome {
    data.keys().change_or_create(args[1], |list: &mut List| {
        for item in &args[2..] {
            push(list, item.to_vec());
        }
        Reply::count(list.len())
    })
}

pub(super) fn lpop(data: &mut Data, args: &[&[u8]]) -> Outcome {
    pop(data, args, "lpop", List::pop_front)
}

pub(super) fn rpop(data: &mut Data, args: &[&[u8]]) -> Outcome {
    pop(data, args, "rpop", List::pop_back)
}

fn pop(data: &mut Data, args: &[&[u8]], command: &str, pop: fn(&mut List) -> Option<Vec<u8>>) -> Outcome {
    match args[2..] {
        [] => Ok(Reply::bytes_or_nil(data.keys().change(args[1], pop)?.flatten())),
        [count] => {
            let count = positive(count)?;
            let mut budget = data.reply_budget();
            if let Some(list) = data.keys().read::<List>(args[1])? {
                // The check looks at the first items even if the command pops from the back. The number of items is
                // the same; only their sizes can differ.
                budget.spend_all(list.iter().take(count).map(Vec::len))?;
            }
            let items = data.keys().change(args[1], |list: &mut List| {
                let items = (0..count).map_while(|_| pop(list)).map(Reply::Bytes);
                items.collect()
            })?;
            Ok(items.map_or(Reply::NilArray, Reply::Array))
        }
        _ => Err(StoreError::arity(command)),
    }
}

pub(super) fn llen(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        data.keys().read::<List>(args[1])?.map_or(0, |list| list.len()),
    ))
}

pub(super) fn lindex(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let list = data.keys().read::<List>(args[1])?;
    let Some(list) = list else {
        return Ok(Reply::Nil);
    };
    let index = int(args[2])?;
    Ok(Reply::bytes_or_nil(
        list.range(range(index, index, list.len())).next().cloned(),
    ))
}

pub(super) fn lrange(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let (start, stop) = (int(args[2])?, int(args[3])?);
    let mut budget = data.reply_budget();
    let Some(list) = data.keys().read::<List>(args[1])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let items = list
        .range(range(start, stop, list.len()))
        .map(|item| budget.bytes(item));
    Ok(Reply::Array(items.collect::<Result<_, _>>()?))
}

pub(super) fn ltrim(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let (start, stop) = (int(args[2])?, int(args[3])?);
    data.keys().change(args[1], |list: &mut List| {
        let kept = range(start, stop, list.len());
        list.reduce(|items| {
            items.truncate(kept.end);
            items.drain(..kept.start);
        });
    })?;
    Ok(Reply::OK)
}

/// Removes items that are equal to the last argument: the first `count` of them. If `count` is negative, removes that
/// many of the last ones; if it is zero, all of them.
pub(super) fn lrem(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let count = int(args[2])?;
    let most = match usize::try_from(count.unsigned_abs()) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(most) => most,
    };
    let removed = data.keys().change(args[1], |list: &mut List| {
        let before = list.len();
        let mut left = most;
        let mut keep = |item: &Vec<u8>| {
            let is_removed = left > 0 && item == args[3];
            left -= usize::from(is_removed);
            !is_removed
        };
        list.reduce(|items| {
            if count < 0 {
                items.make_contiguous().reverse();
                items.retain(&mut keep);
                items.make_contiguous().reverse();
            } else {
                items.retain(&mut keep);
            }
        });
        before - list.len()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}
