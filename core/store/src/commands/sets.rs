//! Commands on sets.

use crate::data::Data;
use crate::reply::{Reply, StoreError};
use crate::value::Set;

type Outcome = Result<Reply, StoreError>;

pub(super) fn sadd(data: &mut Data, args: &[&[u8]]) -> Outcome {
    data.keys().change_or_create(args[1], |set: &mut Set| {
        Reply::count(args[2..].iter().filter(|member| set.insert(member)).count())
    })
}

pub(super) fn srem(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let removed = data.keys().change(args[1], |set: &mut Set| {
        args[2..].iter().filter(|member| set.remove(member)).count()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

pub(super) fn sismember(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let set = data.keys().read::<Set>(args[1])?;
    Ok(Reply::flag(set.is_some_and(|set| set.contains(args[2]))))
}

pub(super) fn scard(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        data.keys().read::<Set>(args[1])?.map_or(0, |set| set.len()),
    ))
}

pub(super) fn smembers(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let mut budget = data.reply_budget();
    let set = data.keys().read::<Set>(args[1])?;
    let members = set.into_iter().flat_map(|set| set.iter());
    let members = members.map(|member| budget.bytes(member));
    Ok(Reply::Set(members.collect::<Result<_, _>>()?))
}
