//! Tests of properties that the keys and channels of all kinds have for any name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use super::{Channel, Key};
use crate::ids::NodeId;
use crate::name::{KeyPrefix, LockName, Word, hash_tag};
use crate::owner::{ClientId, OwnerId};
use crate::run::{RunEnd, RunKey, RunTerms};
use crate::script::Script;

const REDISSON: &str = "redisson_lock__channel:";

/// Returns the words of all keys and channels, including those that no lock uses.
fn words() -> BTreeSet<Word> {
    let own = |key: &Key| match key {
        Key::Own(word) => Some(*word),
        Key::Name | Key::TokenIfDrawn | Key::DoneIfKeyed => None,
    };
    let of = |kind: Kind| {
        let spec = kind.spec();
        let channel = match spec.channel {
            Some(Channel::Own(word)) => Some(word),
            Some(Channel::Redisson) | None => None,
        };
        spec.keys.iter().filter_map(own).chain(channel)
    };
    let mut words: BTreeSet<Word> = Kind::each().into_iter().flat_map(of).collect();
    for word in [Word::PRIMARY, Word::CLIENT, Word::SCRATCH, Word::SCRATCH_CHANNEL] {
        assert!(words.insert(word), "a word is used for one thing");
    }
    words
}

fn client(seed: u64) -> ClientId {
    ClientId::random(&mut || seed)
}

/// Returns a number below `bound`, drawn by a small seeded generator (xorshift64*).
fn random(state: &mut u64, bound: usize) -> usize {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    let drawn = usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap();
    drawn.checked_rem(bound).unwrap()
}

/// Returns all texts of these characters, from one character to `length`.
fn texts(characters: &[&str], length: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut last = vec![String::new()];
    for _ in 0..length {
        last = last
            .iter()
            .flat_map(|start| characters.iter().map(move |character| format!("{start}{character}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// Returns texts that could be mistaken for something else.
fn adversarial(count: usize) -> Vec<String> {
    const PARTS: &[&str] = &[
        "{",
        "}",
        ":",
        "::",
        ".",
        "a",
        "b",
        "a:",
        "b:",
        "{a:",
        "{b}",
        "steadlock",
        "steadlock:",
        "redisson_",
        "token",
        ":token",
        "fair",
        "grants",
        ":grants:",
        "channel",
        "rw",
        "-readers",
        "*",
        "ä",
        " ",
    ];
    let mut state = 7;
    let word = |state: &mut u64| PARTS[random(state, PARTS.len())];
    let text = |_| (0..=random(&mut state, 8)).map(|_| word(&mut state)).collect();
    (0..count).map(text).collect()
}

/// Returns names: all short ones with braces and colons, and longer ones.
fn names() -> BTreeSet<LockName> {
    let all = texts(&["{", "}", ":", "a"], 6).into_iter().chain(adversarial(10_000));
    let names: BTreeSet<LockName> = all.filter_map(|text| LockName::parse(&text).ok()).collect();
    assert!(names.len() > 5_000, "{}", names.len());
    names
}

/// Returns all calls for a name, of all kinds.
fn calls(name: &LockName) -> Vec<(Kind, Invocation)> {
    let owner = OwnerId::random(client(1), &mut || 5);
    let attempt = Attempt {
        owner: &owner,
        ttl: Duration::from_secs(30),
        fencing: true,
        waits: true,
        inside: None,
        client: None,
    };
    let of = |kind: Kind| {
        let run = RunTerms::default().key(RunKey::parse("a:{b}").unwrap());
        let keys = Keys::new(kind, name, NodeId::default()).with_run(Some(Arc::new(run)));
        let mut calls = vec![
            keys.acquire(&attempt),
            keys.renew(&owner, attempt.ttl),
            keys.release(&owner, &RunEnd::Succeeded.into()),
            keys.inspect(),
            keys.force(),
        ];
        calls.extend(keys.poll(&[QueueEntry {
            owner: owner.clone(),
            fencing: true,
        }]));
        calls.extend(kind.permits().map(|_| keys.set_limit(4)));
        calls.extend((kind == Kind::Leader).then(|| keys.leadership()));
        calls.extend((kind == Kind::Once).then(|| keys.last_run()));
        calls.into_iter().map(move |call| (kind, call)).collect::<Vec<_>>()
    };
    Kind::each().into_iter().flat_map(of).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the keys of a name, and its channels.
fn keys_and_channels(name: &LockName) -> (BTreeSet<String>, BTreeSet<String>) {
    let calls = calls(name);
    let keys = calls.iter().flat_map(|(_, call)| &call.keys).map(|key| text(key));
    let channels = Kind::each().into_iter().filter_map(|kind| {
        let keys = Keys::new(kind, name, NodeId::default());
        keys.channel().map(|channel| text(&channel))
    });
    (
        keys.collect(),
        channels
            .chain(["grants", "leader-grants"].map(|word| text(&name.grants(word, client(1)))))
            .collect(),
    )
}

/// Whether a key or a channel matches one of the patterns by which an access list confines a client to a prefix.
fn is_inside(prefix: &str, text: &str) -> bool {
    let braced = format!("{{{prefix}");
    let derived = |rest: &str, other: &str| rest.starts_with(&braced) || rest.starts_with(other);
    text.starts_with(prefix)
        || text
            .strip_prefix("steadlock:")
            .is_some_and(|rest| derived(rest, &format!(":{prefix}")))
        || text.strip_prefix(REDISSON).is_some_and(|rest| derived(rest, prefix))
}

#[test]
fn no_two_names_share_a_key_or_a_channel_of_ours() {
    let mut seen = BTreeMap::new();
    let words = words();
    for name in names() {
        let words = words.iter().map(|word| (word.as_str(), name.own(*word)));
        let grants = [
            ("grants 1", name.grants("grants", client(1))),
            ("grants 2", name.grants("grants", client(2))),
            ("leader grants", name.grants("leader-grants", client(1))),
        ];
        let done = [("a", "done a"), ("a:token", "done a:token")];
        let done = done.map(|(key, what)| (what, RunKey::parse(key).unwrap().done(&name)));
        for (what, key) in words
            .into_iter()
            .chain(grants)
            .chain(done)
            .chain([("record", name.key())])
        {
            let before = seen.insert(key, (name.clone(), what));
            assert_eq!(before, None, "shared with {what} of {name:?}");
        }
    }
}

#[test]
fn each_key_is_recognised_by_its_form() {
    let of_kinds = |key: &Key| *key != Key::TokenIfDrawn;
    let mut keys: BTreeSet<Arc<[u8]>> = BTreeSet::new();
    for name in names() {
        for of in LockKey::ALL {
            assert_eq!(
                LockKey::read(&of.of(&name)),
                Some((of, name.clone())),
                "{of:?} of {name:?}"
            );
            keys.insert(of.of(&name));
        }
        for kind in Kind::each() {
            for key in kind.spec().keys.iter().filter(|key| of_kinds(key)) {
                let written = match key {
                    Key::Own(word) => name.own(*word),
                    Key::Name | Key::TokenIfDrawn | Key::DoneIfKeyed => name.key(),
                };
                assert!(keys.contains(&written), "{kind:?} of {name:?}");
            }
        }
    }
    for odd in [
        "",
        "steadlock:x",
        "steadlock:{x}",
        "steadlock:{x}:",
        "steadlock:{x}:nothing",
        "steadlock:{}:fair",
        "steadlock::x:fair",
        "steadlock:{{x}}:fair",
        "steadlock:{x}:channel",
        "redisson_lock__channel:{x}",
    ] {
        assert_eq!(LockKey::read(odd.as_bytes()), None, "{odd}");
    }
    assert_eq!(LockKey::read(&[0xff]), None);
}

#[test]
fn the_record_of_each_kind_is_at_a_key_that_tools_know() {
    for kind in Kind::each() {
        let of = LockKey::of_record(kind.name()).unwrap();
        for name in names() {
            assert_eq!(of.of(&name), Keys::new(kind, &name, NodeId(0)).record, "{kind:?}");
        }
    }
    assert_eq!(LockKey::of_record("spin"), None);
}

#[test]
fn a_word_is_of_letters_and_hyphens() {
    for word in words() {
        let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        assert!(word.as_str().chars().all(is_letter), "{word:?}");
    }
}

#[test]
fn kinds_with_a_record_of_ours_in_common_keep_one_another_out() {
    let record = |kind: Kind| *kind.spec().keys.first().unwrap();
    let has_own = |kind: &Kind| record(*kind) != Key::Name;
    for one in Kind::each().into_iter().filter(has_own) {
        for other in Kind::each().into_iter().filter(has_own) {
            let is_related = one == other || one.spec().excludes.contains(&other.gate());
            assert_eq!(record(one) == record(other), is_related, "{one:?} and {other:?}");
        }
    }
}

#[test]
fn a_key_is_the_name_or_ours_and_a_channel_is_ours_or_redissons() {
    let words = words();
    for name in names() {
        let mut own: BTreeSet<String> = words.iter().map(|word| text(&name.own(*word))).collect();
        own.insert(text(&RunKey::parse("a:{b}").unwrap().done(&name)));
        let (keys, channels) = keys_and_channels(&name);
        for key in keys {
            assert!(key == name.as_str() || own.contains(&key), "{key}");
        }
        for channel in channels {
            let grants = ["grants", "leader-grants"].map(|word| text(&name.grants(word, client(1))));
            let known = [text(&name.redisson_channel())];
            let is_known = known.contains(&channel) || grants.contains(&channel);
            assert!(own.contains(&channel) || is_known, "{channel}");
        }
    }
}

#[test]
fn every_key_and_every_channel_is_in_the_names_slot() {
    for name in names() {
        let (keys, channels) = keys_and_channels(&name);
        for each in keys.iter().chain(&channels) {
            assert_eq!(hash_tag(each.as_bytes()), hash_tag(name.as_str().as_bytes()), "{each}");
        }
    }
}

#[test]
fn a_prefix_holds_all_keys_and_channels_of_its_names_and_of_no_others() {
    let all = texts(&["{", "}", ":", "a", "b"], 3).into_iter().chain(adversarial(50));
    let prefixes: BTreeMap<String, KeyPrefix> = all
        .filter_map(|text| Some((text.clone(), KeyPrefix::parse(&text).ok()?)))
        .collect();
    assert!(prefixes.len() > 20, "{}", prefixes.len());
    let rests = texts(&["{", "}", ":", "a"], 3).into_iter().chain(adversarial(300));
    let rests: BTreeSet<String> = rests.collect();
    let inside = prefixes
        .values()
        .flat_map(|prefix| rests.iter().filter_map(|rest| prefix.name(rest).ok()));
    let outside = rests.iter().filter_map(|rest| LockName::parse(rest).ok());
    let names: BTreeSet<LockName> = inside.chain(outside).collect();
    for name in names {
        let (keys, channels) = keys_and_channels(&name);
        for prefix in prefixes.keys() {
            let is_its_own = name.as_str().starts_with(prefix);
            // Redisson uses one channel for a name and for the same text in braces.
            let starts_with_tag = name.as_str().starts_with('{') || prefix.starts_with('{');
            let is_shared = |each: &str| each.starts_with(REDISSON) && starts_with_tag;
            for each in keys.iter().chain(&channels) {
                assert!(
                    is_inside(prefix, each) == is_its_own || is_shared(each),
                    "{each} and the prefix {prefix:?}"
                );
            }
        }
    }
}

#[test]
fn the_names_of_another_tenant_are_outside_however_they_are_written() {
    let tenant = |name: &str| {
        let (keys, channels) = keys_and_channels(&LockName::parse(name).unwrap());
        keys.into_iter()
            .chain(channels)
            .filter(|each| is_inside("a:", each))
            .collect::<Vec<_>>()
    };
    for name in ["b:{a:x}", "b:a:x", "b:{a:}", ":a:x", "aa:x", "::{a:x}", "b:}{a:x}"] {
        assert_eq!(tenant(name), Vec::<String>::new(), "{name}");
    }
    // Only Redisson's channel of this name matches the patterns. An extra message on that channel wakes waiters for
    // nothing.
    assert_eq!(tenant("{a:x}"), ["redisson_lock__channel:{a:x}"]);
}

#[test]
fn a_script_is_called_as_its_head_says() {
    for (kind, call) in calls(&LockName::parse("x").unwrap()) {
        let head = |what: &str| call.script.source().matches(&format!("\n-- {what}[")).count();
        // The last key of these scripts is only for a leader.
        let is_for_leader = call.script.parts().contains(&"fair") && kind != Kind::Leader;
        let call_keys = call.keys.len() + usize::from(is_for_leader);
        assert_eq!(call_keys, head("KEYS"), "{} of {kind:?}", call.script.file());
        if call.script != Script::FairPoll {
            assert_eq!(call.args.len(), head("ARGV"), "{} of {kind:?}", call.script.file());
        }
    }
}

#[test]
fn no_channel_is_named_as_a_key() {
    for name in ["x", "{t}:x"].map(|name| LockName::parse(name).unwrap()) {
        let (keys, channels) = keys_and_channels(&name);
        assert_eq!(keys.intersection(&channels).next(), None);
    }
}

#[test]
fn the_record_of_a_lock_is_renewed_and_released_by_one_key() {
    let name = LockName::parse("x").unwrap();
    let owner = OwnerId::random(client(1), &mut || 5);
    for kind in Kind::each() {
        let keys = Keys::new(kind, &name, NodeId::default());
        assert_eq!(keys.renew(&owner, Duration::from_secs(1)).keys.len(), 1, "{kind:?}");
        // The release of a fair lock can grant the lock to the next waiter. The release of the last reader also changes
        // the state: it ends the precedence of readers.
        let needed = match kind {
            Kind::Fair => 4,
            Kind::Leader => 5,
            // The release of a run also writes the history of the job.
            Kind::Read | Kind::Once => 2,
            _ => 1,
        };
        assert_eq!(
            keys.release(&owner, &RunEnd::Succeeded.into()).keys.len(),
            needed,
            "{kind:?}"
        );
    }
}
