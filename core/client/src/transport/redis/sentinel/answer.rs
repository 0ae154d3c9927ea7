//! The answers of sentinels, and the choice among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadlock_protocol::Reply;
use steadlock_resp::replies::text;

use crate::transport::redis::address::Address;
use crate::transport::redis::failure::Failure;

/// The answer of one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) primary: Address,
    /// The number of the failover that made the server the primary. A higher number is newer.
    pub(super) epoch: u64,
}

/// A sentinel that another one names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OtherSentinel {
    pub(super) address: Address,
    /// The sentinel's id.
    pub(super) id: Option<Arc<str>>,
}

/// The decision on the answers of one round of questions to the sentinels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The known primary stays.
    Keep,
    Follow(Answer),
    /// No sentinel that answered knows a primary.
    NoPrimary,
}

/// Whether an answer is newer than the known one.
pub(super) fn is_newer(answer: &Answer, known: Option<&Answer>) -> bool {
    known.is_none_or(|known| answer.epoch > known.epoch)
}

/// Which answers are followed. An answer that is newer than the known one is always followed; each variant says which
/// other answers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trust {
    /// No other answer: no majority of the sentinels has answered, and there are connections to the known primary.
    Newer,
    /// Also an answer with another primary and the known epoch.
    Other,
    /// Also an answer with an older epoch: a majority has answered and there is no connection to the primary, so the
    /// sentinels may have been set up anew.
    Older,
}

/// Decides, when a round is over, whether the [`best`] answer is followed or the known primary stays.
pub(super) fn choose<'a>(answers: impl Iterator<Item = &'a Answer>, known: Option<&Answer>, trust: Trust) -> Choice {
    let Some(BestAnswer { answer: best, .. }) = best(answers, known) else {
        return Choice::NoPrimary;
    };
    match known {
        Some(known) if known == best => Choice::Keep,
        Some(known) if best.epoch < known.epoch && trust < Trust::Older => Choice::Keep,
        Some(known) if best.epoch == known.epoch && trust < Trust::Other => Choice::Keep,
        _ => Choice::Follow(best.clone()),
    }
}

/// The best answer of a round.
pub(super) struct BestAnswer<'a> {
    pub(super) answer: &'a Answer,
    /// The number of sentinels that gave it.
    pub(super) count: usize,
}

/// Returns the best answer. The answer with the highest epoch is best; among several, the one that most sentinels gave;
/// and then the one that names the known primary.
pub(super) fn best<'a>(answers: impl Iterator<Item = &'a Answer>, known: Option<&Answer>) -> Option<BestAnswer<'a>> {
    let mut counts: BTreeMap<(u64, &Address), BestAnswer<'a>> = BTreeMap::new();
    for answer in answers {
        let counted = counts
            .entry((answer.epoch, &answer.primary))
            .or_insert(BestAnswer { answer, count: 0 });
        counted.count += 1;
    }
    let is_known = |answer: &Answer| known.is_some_and(|known| known.primary == answer.primary);
    counts
        .into_values()
        .max_by_key(|counted| (counted.answer.epoch, counted.count, is_known(counted.answer)))
}

/// Reads the reply to `SENTINEL GET-MASTER-ADDR-BY-NAME`. `None` if the service is unknown.
pub(super) fn parse(reply: &Reply, epoch: u64) -> Result<Option<Answer>, Failure> {
    match reply {
        Reply::Nil => Ok(None),
        Reply::Array(parts) => {
            let host = parts.first().and_then(text);
            let port = parts.get(1).and_then(text).and_then(|port| port.parse().ok());
            let address = host.zip(port).and_then(|(host, port)| Address::announced(host, port));
            match address {
                Some(primary) => Ok(Some(Answer { primary, epoch })),
                None => Err(Failure::unavailable("the sentinel does not know the primary's address")),
            }
        }
        _ => Err(Failure::unavailable("the sentinel's answer is no address")),
    }
}

/// Reads the epoch in the reply to `SENTINEL MASTER`; 0 if it has none.
pub(super) fn epoch(reply: &Reply) -> u64 {
    field(reply, "config-epoch")
        .and_then(|epoch| epoch.parse().ok())
        .unwrap_or(0)
}

/// Reads the reply to `SENTINEL MYID`.
pub(super) fn id(reply: &Reply) -> Option<Arc<str>> {
    text(reply).filter(|id| !id.is_empty()).map(Arc::from)
}

/// Reads the reply to `SENTINEL SENTINELS`.
pub(super) fn others(reply: &Reply) -> Vec<OtherSentinel> {
    let Reply::Array(all) = reply else { return Vec::new() };
    let other = |one| {
        Some(OtherSentinel {
            address: Address::announced(field(one, "ip")?, field(one, "port")?.parse().ok()?)?,
            id: field(one, "runid").filter(|id| !id.is_empty()).map(Arc::from),
        })
    };
    all.iter().filter_map(other).collect()
}

/// Whether an event is about the service: `mymaster …`, or `slave … @ mymaster …`.
pub(super) fn is_about(event: &str, service: &str) -> bool {
    event.split(' ').any(|word| word == service)
}

fn field<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    let Reply::Array(pairs) = reply else { return None };
    let of_name = |pair: &&[Reply]| text(&pair[0]) == Some(name);
    pairs.chunks_exact(2).find(of_name).and_then(|pair| text(&pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(port: u16, epoch: u64) -> Answer {
        Answer {
            primary: Address::new("h", port),
            epoch,
        }
    }

    fn words(words: &[&str]) -> Reply {
        Reply::Array(words.iter().map(|word| Reply::Bytes((*word).into())).collect())
    }

    #[test]
    fn the_newest_answer_wins_then_the_most_frequent_then_the_known_one() {
        let known = answer(1, 4);
        for (answers, trust, expected) in [
            (vec![], Trust::Other, Choice::NoPrimary),
            (
                vec![answer(1, 4), answer(2, 5), answer(1, 4)],
                Trust::Newer,
                Choice::Follow(answer(2, 5)),
            ),
            (
                vec![answer(2, 4), answer(2, 4), answer(1, 4)],
                Trust::Other,
                Choice::Follow(answer(2, 4)),
            ),
            (vec![answer(2, 4)], Trust::Newer, Choice::Keep),
            (vec![answer(2, 4), answer(1, 4)], Trust::Other, Choice::Keep),
            (vec![answer(1, 4), answer(0, 4)], Trust::Older, Choice::Keep),
            (vec![answer(2, 3), answer(2, 3)], Trust::Other, Choice::Keep),
            (
                vec![answer(2, 3), answer(2, 3), answer(3, 3)],
                Trust::Older,
                Choice::Follow(answer(2, 3)),
            ),
            (vec![answer(1, 6)], Trust::Newer, Choice::Follow(answer(1, 6))),
        ] {
            assert_eq!(choose(answers.iter(), Some(&known), trust), expected, "{answers:?}");
        }
        assert_eq!(
            choose([answer(7, 0)].iter(), None, Trust::Newer),
            Choice::Follow(answer(7, 0))
        );
    }

    #[test]
    fn replies_of_sentinels_are_parsed() {
        assert_eq!(parse(&words(&["h", "7"]), 3).unwrap(), Some(answer(7, 3)));
        assert_eq!(parse(&Reply::Nil, 3).unwrap(), None);
        for odd in [
            words(&[]),
            words(&["", "7"]),
            words(&["h", "x"]),
            words(&["h\u{1b}[2J", "7"]),
            Reply::Int(1),
        ] {
            assert!(parse(&odd, 0).is_err(), "{odd:?}");
        }
        assert_eq!(epoch(&words(&["name", "shop", "config-epoch", "12"])), 12);
        assert_eq!(epoch(&words(&["name", "shop"])), 0);
        let reply = Reply::Array(vec![
            words(&["ip", "h", "port", "7", "runid", "a"]),
            words(&["ip", "h", "port", "8", "runid", ""]),
            words(&["ip", "h"]),
            words(&["ip", "h\nERROR", "port", "9", "runid", "a"]),
        ]);
        let other = |port, id: Option<&str>| OtherSentinel {
            address: Address::new("h", port),
            id: id.map(Arc::from),
        };
        assert_eq!(others(&reply), [other(7, Some("a")), other(8, None)]);
        assert_eq!(id(&Reply::Bytes(b"a".to_vec())).as_deref(), Some("a"));
        assert_eq!(id(&Reply::Nil), None);
    }

    #[test]
    fn events_of_other_services_are_ignored() {
        assert!(is_about("shop 10.0.0.1 6379 10.0.0.2 6379", "shop"));
        assert!(is_about(
            "slave 10.0.0.2:6379 10.0.0.2 6379 @ shop 10.0.0.1 6379",
            "shop"
        ));
        assert!(!is_about("shop-2 10.0.0.1 6379 10.0.0.2 6379", "shop"));
    }
}
