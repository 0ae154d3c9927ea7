//! Commands on sorted sets.

use super::args::{float, int, is, positive, range};
use crate::data::Data;
use crate::float;
use crate::reply::{Reply, ReplyBudget, StoreError};
use crate::zset::SortedSet;

type Outcome = Result<Reply, StoreError>;

/// The options of `ZADD`.
#[derive(Default)]
struct AddRule {
    only_new: bool,
    only_existing: bool,
    if_greater: bool,
    if_less: bool,
    count_changed: bool,
    increment: bool,
}

impl AddRule {
    /// Parses the options. Also returns the arguments after them.
    fn parse<'a>(args: &'a [&'a [u8]]) -> Result<(Self, &'a [&'a [u8]]), StoreError> {
        let mut rule = Self::default();
        let mut rest = args;
        while let [option, after @ ..] = rest {
            let flag = if is(option, "nx") {
                &mut rule.only_new
            } else if is(option, "xx") {
                &mut rule.only_existing
            } else if is(option, "gt") {
                &mut rule.if_greater
            } else if is(option, "lt") {
                &mut rule.if_less
            } else if is(option, "ch") {
                &mut rule.count_changed
            } else if is(option, "incr") {
                &mut rule.increment
            } else {
                break;
            };
            *flag = true;
            rest = after;
        }
        if rest.is_empty() || !rest.len().is_multiple_of(2) {
            return Err(StoreError::syntax());
        }
        if rule.only_new && rule.only_existing {
            return Err(StoreError::err("XX and NX options at the same time are not compatible"));
        }
        if (rule.if_greater && rule.if_less) || (rule.only_new && (rule.if_greater || rule.if_less)) {
            return Err(StoreError::err(
                "GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if rule.increment && rest.len() > 2 {
            return Err(StoreError::err("INCR option supports a single increment-element pair"));
        }
        Ok((rule, rest))
    }

    /// Returns the new score of a member; `None` if the rule forbids the change.
    fn score(&self, before: Option<f64>, given: f64) -> Result<Option<f64>, StoreError> {
        let Some(before) = before else {
            return Ok((!self.only_existing).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increment { before + given } else { given };
        if score.is_nan() {
            return Err(StoreError::err("resulting score is not a number (NaN)"));
        }
        let is_refused = (self.if_greater && score <= before) || (self.if_less && score >= before);
        Ok((!is_refused).then_some(score))
    }
}

pub(super) fn zadd(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let (rule, rest) = AddRule::parse(&args[2..])?;
    let mut pairs = Vec::with_capacity(rest.len() / 2);
    for pair in rest.chunks_exact(2) {
        pairs.push((float(pair[0])?, pair[1]));
    }
    data.keys().change_or_create(args[1], |set: &mut SortedSet| {
        let (mut added, mut changed, mut last) = (0, 0, None);
        for (given, member) in pairs {
            let before = set.score(member);
            let score = rule.score(before, given)?;
            last = score;
            let Some(score) = score else { continue };
            match before {
                None => added += 1,
                #[expect(clippy::float_cmp, reason = "any difference is a change")]
                Some(before) if before != score => changed += 1,
                Some(_) => continue,
            }
            set.insert(member, score);
        }
        Ok(if rule.increment {
            last.map_or(Reply::Nil, Reply::Double)
        } else {
            Reply::count(added + if rule.count_changed { changed } else { 0 })
        })
    })?
}

pub(super) fn zincrby(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let by = float(args[2])?;
    let rule = AddRule {
        increment: true,
        ..AddRule::default()
    };
    data.keys().change_or_create(args[1], |set: &mut SortedSet| {
        let score = rule.score(set.score(args[3]), by)?.unwrap_or(by);
        set.insert(args[3], score);
        Ok(Reply::Double(score))
    })?
}

pub(super) fn zscore(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let set = data.keys().read::<SortedSet>(args[1])?;
    let score = set.and_then(|set| set.score(args[2]));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

pub(super) fn zrank(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let set = data.keys().read::<SortedSet>(args[1])?;
    let rank = set.and_then(|set| set.iter().position(|(member, _)| member == args[2]));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

pub(super) fn zcard(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::count(
        data.keys().read::<SortedSet>(args[1])?.map_or(0, SortedSet::len),
    ))
}

pub(super) fn zrem(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let removed = data.keys().change(args[1], |set: &mut SortedSet| {
        args[2..].iter().filter(|member| set.remove(member).is_some()).count()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

/// An end of a range of scores.
#[derive(Clone, Copy)]
struct Bound {
    score: f64,
    is_open: bool,
}

impl Bound {
    fn parse(text: &[u8]) -> Result<Self, StoreError> {
        let (text, is_open) = match text {
            [b'(', rest @ ..] => (rest, true),
            _ => (text, false),
        };
        let score = float::parse(text).ok_or_else(|| StoreError::err("min or max is not a float"))?;
        Ok(Self { score, is_open })
    }

    fn is_below(self, score: f64) -> bool {
        self.score < score || (!self.is_open && self.score <= score)
    }

    fn is_above(self, score: f64) -> bool {
        self.score > score || (!self.is_open && self.score >= score)
    }
}

/// Returns the members between two bounds, lowest score first.
fn between(set: &SortedSet, low: Bound, high: Bound) -> impl Iterator<Item = (&[u8], f64)> {
    set.at_least(low.score)
        .skip_while(move |(_, score)| !low.is_below(*score))
        .take_while(move |(_, score)| high.is_above(*score))
}

pub(super) fn zcount(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let (low, high) = (Bound::parse(args[2])?, Bound::parse(args[3])?);
    let set = data.keys().read::<SortedSet>(args[1])?;
    Ok(Reply::count(set.map_or(0, |set| between(set, low, high).count())))
}

pub(super) fn zremrangebyscore(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let (low, high) = (Bound::parse(args[2])?, Bound::parse(args[3])?);
    let removed = data.keys().change(args[1], |set: &mut SortedSet| {
        let members: Vec<Vec<u8>> = between(set, low, high).map(|(member, _)| member.to_vec()).collect();
        members.iter().filter(|member| set.remove(member).is_some()).count()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

/// The options of `ZRANGE` and `ZRANGEBYSCORE`.
#[derive(Default)]
struct RangeOptions {
    by_score: bool,
    reversed: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl RangeOptions {
    fn parse(options: &[&[u8]], is_zrange: bool) -> Result<Self, StoreError> {
        let mut parsed = Self::default();
        let mut rest = options;
        while let [option, after @ ..] = rest {
            rest = after;
            if is(option, "withscores") {
                parsed.with_scores = true;
            } else if is_zrange && is(option, "byscore") {
                parsed.by_score = true;
            } else if is_zrange && is(option, "rev") {
                parsed.reversed = true;
            } else if let ([offset, count, after @ ..], true) = (rest, is(option, "limit")) {
                parsed.limit = Some((int(offset)?, int(count)?));
                rest = after;
            } else {
                return Err(StoreError::syntax());
            }
        }
        if is_zrange && parsed.limit.is_some() && !parsed.by_score {
            return Err(StoreError::err(
                "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        Ok(parsed)
    }
}

pub(super) fn zrange(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let options = RangeOptions::parse(&args[4..], true)?;
    if options.by_score {
        let (low, high) = if options.reversed { (3, 2) } else { (2, 3) };
        return range_by_score(data, args[1], args[low], args[high], &options);
    }
    let (start, stop) = (int(args[2])?, int(args[3])?);
    let mut budget = data.reply_budget();
    let Some(set) = data.keys().read::<SortedSet>(args[1])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let positions = range(start, stop, set.len());
    let (skip, take) = (positions.start, positions.len());
    if options.reversed {
        members(set.iter().rev().skip(skip).take(take), &options, &mut budget)
    } else {
        members(set.iter().skip(skip).take(take), &options, &mut budget)
    }
}

pub(super) fn zrangebyscore(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let options = RangeOptions::parse(&args[4..], false)?;
    range_by_score(data, args[1], args[2], args[3], &options)
}

fn range_by_score(data: &mut Data, key: &[u8], low: &[u8], high: &[u8], options: &RangeOptions) -> Outcome {
    let (low, high) = (Bound::parse(low)?, Bound::parse(high)?);
    let mut budget = data.reply_budget();
    let Some(set) = data.keys().read::<SortedSet>(key)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let mut found: Vec<(&[u8], f64)> = between(set, low, high).collect();
    if options.reversed {
        found.reverse();
    }
    let (offset, count) = options.limit.unwrap_or((0, -1));
    // A negative offset returns nothing, and a negative count returns all members from the offset on.
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let take = usize::try_from(count).unwrap_or(usize::MAX);
    members(found.into_iter().skip(skip).take(take), options, &mut budget)
}

fn members<'a>(
    found: impl Iterator<Item = (&'a [u8], f64)>,
    options: &RangeOptions,
    budget: &mut ReplyBudget,
) -> Outcome {
    if options.with_scores {
        let pairs = found.map(|(member, score)| {
            budget.spend(0)?;
            Ok((budget.bytes(member)?, Reply::Double(score)))
        });
        Ok(Reply::Pairs(pairs.collect::<Result<_, StoreError>>()?))
    } else {
        let members = found.map(|(member, _)| budget.bytes(member));
        Ok(Reply::Array(members.collect::<Result<_, _>>()?))
    }
}

pub(super) fn zpopmin(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let count = match args[2..] {
        [] => 1,
        [count] => positive(count)?,
        _ => return Err(StoreError::syntax()),
    };
    let mut budget = data.reply_budget();
    if let Some(set) = data.keys().read::<SortedSet>(args[1])? {
        budget.spend_all(set.iter().take(count).map(|(member, _)| member.len()))?;
    }
    let popped = data.keys().change(args[1], |set: &mut SortedSet| {
        let lowest: Vec<(Vec<u8>, f64)> = set.iter().take(count).map(|(m, s)| (m.to_vec(), s)).collect();
        for (member, _) in &lowest {
            set.remove(member);
        }
        lowest
    })?;
    let pairs = popped
        .into_iter()
        .flatten()
        .map(|(member, score)| (Reply::Bytes(member), Reply::Double(score)));
    Ok(if args.len() > 2 {
        Reply::Pairs(pairs.collect())
    } else {
        Reply::Array(pairs.flat_map(|(member, score)| [member, score]).collect())
    })
}
