//! Tries each right on scratch keys and channels, which belong to no lock, and then removes the keys.

use steadlock::Error;
use steadlock::admin::{CallError, Reply, Scratch, Server};

use super::asking::no_answer_reason;
use crate::doctor::facts::{Fact, Layout, Writes};
use crate::doctor::rights::{CHANNEL, KEY, NO_SCRIPT, Need, Pattern, Probe, Rights, TTL_MS, Verdict, probes, verdict};
use crate::doctor::version::Version;

/// The words of a command.
type Words = Vec<Vec<u8>>;
type Answers = Vec<Result<Reply, CallError>>;

/// Returns whether the server accepts writes, and which rights the user lacks.
pub(super) async fn test(
    server: &mut Server,
    layout: Layout,
    version: &Fact<Version>,
    (scratch, braced): &(Scratch, Option<Scratch>),
) -> (Fact<Writes>, Rights) {
    let mut rights = Rights::default();
    let set = set_command(&scratch.key);
    let writes = match server.ask(&set).await {
        Ok(answer) => write_result(&answer),
        Err(error) => {
            rights.not_tested.push(no_answer_reason(&error));
            return (Fact::Unknown(no_answer_reason(&error)), rights);
        }
    };
    let result = async {
        test_commands(server, layout, version, scratch, &mut rights).await?;
        test_keys(server, scratch, braced.as_ref(), &mut rights).await?;
        test_combinations(server, layout, version, (scratch, braced.as_ref()), &mut rights).await?;
        test_channels(server, scratch, braced.as_ref(), &mut rights).await
    };
    if let Err(error) = result.await {
        rights.not_tested.push(no_answer_reason(&error));
    }
    let all = [Some(scratch), braced.as_ref()];
    let used = all
        .into_iter()
        .flatten()
        .flat_map(|scratch| [&scratch.key, &scratch.name]);
    // A user without the right to delete a key may still have the right to expire the key. A key that is not removed
    // ends by its TTL.
    let expire = |key| words(&["PEXPIRE"], key).into_iter().chain([b"0".to_vec()]).collect();
    let removals: Vec<Words> = used.flat_map(|key| [words(&["DEL"], key), expire(key)]).collect();
    let _ = server.ask_all(&removals).await;
    (writes, rights)
}

fn write_result(answer: &Result<Reply, CallError>) -> Fact<Writes> {
    match verdict_of_answer(answer) {
        Verdict::Allowed if answer.is_ok() => Fact::Known(Writes::Accepted),
        Verdict::Unavailable(code) => Fact::Known(Writes::Refused(code)),
        _ => Fact::Unknown("SET of a scratch key is refused".into()),
    }
}

async fn test_commands(
    server: &mut Server,
    layout: Layout,
    version: &Fact<Version>,
    scratch: &Scratch,
    rights: &mut Rights,
) -> Result<(), Error> {
    for probe in ordered_probes(layout, version) {
        if verdict_of(server, &command(probe, &scratch.key, &scratch.channel)).await? == Verdict::NoCommand {
            match probe.need {
                Need::Locks => rights.commands.push(probe.right),
                Need::Messages => rights.messages.push(probe.right),
                Need::Optional => rights.optional.push(probe.right),
            }
        }
    }
    Ok(())
}

/// Returns the probes with `DEL` last, because the other commands need the key.
fn ordered_probes(layout: Layout, version: &Fact<Version>) -> Vec<&'static Probe> {
    let all = probes(layout, version.known().copied());
    let (last, mut all): (Vec<_>, Vec<_>) = all.partition(|probe| probe.right == "del");
    all.extend(last);
    all
}

fn command(probe: &Probe, key: &[u8], channel: &[u8]) -> Words {
    let word = |word: &&str| match *word {
        KEY => key.to_vec(),
        CHANNEL => channel.to_vec(),
        word => word.as_bytes().to_vec(),
    };
    probe.words.iter().map(word).collect()
}

async fn test_keys(
    server: &mut Server,
    scratch: &Scratch,
    braced: Option<&Scratch>,
    rights: &mut Rights,
) -> Result<(), Error> {
    let forms = [
        (Some(&scratch.name), Pattern::Names),
        (Some(&scratch.key), Pattern::Own),
        (braced.map(|scratch| &scratch.key), Pattern::OwnOfBraced),
    ];
    for (key, pattern) in forms {
        let Some(key) = key else { continue };
        // Since Redis 7.0 reading and writing a key are separate rights. For a user without the commands SET and GET,
        // the other two commands test the key.
        let tests = [
            set_command(key),
            words(&["GET"], key),
            words(&["PEXPIRE"], key).into_iter().chain([TTL_MS.into()]).collect(),
            words(&["EXISTS"], key),
        ];
        for command in tests {
            if verdict_of(server, &command).await? == Verdict::NoKey {
                rights.keys.push(pattern);
                break;
            }
        }
    }
    Ok(())
}

/// Tries each command on keys of each form, and a script on keys of two forms together. Since Redis 7.0 a user can have
/// each right in some selector, but no single selector with all rights that one command needs.
async fn test_combinations(
    server: &mut Server,
    layout: Layout,
    version: &Fact<Version>,
    (scratch, braced): (&Scratch, Option<&Scratch>),
    rights: &mut Rights,
) -> Result<(), Error> {
    let mut forms = vec![
        (&scratch.name, vec![Pattern::Names]),
        (&scratch.key, vec![Pattern::Own]),
    ];
    let mut pairs = vec![(scratch, vec![Pattern::Names, Pattern::Own])];
    if let Some(braced) = braced {
        forms.push((&braced.key, vec![Pattern::OwnOfBraced]));
        pairs.push((braced, vec![Pattern::Names, Pattern::OwnOfBraced]));
    }
    let mut tests: Vec<(&'static str, Vec<Pattern>, Words)> = Vec::new();
    for (key, patterns) in forms {
        let probes = ordered_probes(layout, version).into_iter();
        let of_keys = probes.filter(|probe| probe.words.contains(&KEY));
        tests.push(("set", patterns.clone(), set_command(key)));
        tests.extend(of_keys.map(|probe| (probe.right, patterns.clone(), command(probe, key, &[]))));
    }
    for (scratch, patterns) in pairs {
        let both = words(&["EVALSHA", NO_SCRIPT, "2"], &scratch.name).into_iter();
        tests.push(("evalsha", patterns, both.chain([scratch.key.to_vec()]).collect()));
    }
    let commands: Vec<Words> = tests.iter().map(|(_, _, command)| command.clone()).collect();
    let answers: Answers = server.ask_all(&commands).await?;
    for ((right, patterns, _), answer) in tests.into_iter().zip(&answers) {
        let is_refused = matches!(verdict_of_answer(answer), Verdict::NoCommand | Verdict::NoKey);
        // Other findings already name the commands and keys that the user lacks altogether.
        let is_reported = rights.commands.contains(&right)
            || patterns.iter().any(|pattern| rights.keys.contains(pattern))
            || rights.in_different_selectors.contains(&(right, patterns.clone()));
        if is_refused && !is_reported {
            rights.in_different_selectors.push((right, patterns));
        }
    }
    Ok(())
}

async fn test_channels(
    server: &mut Server,
    scratch: &Scratch,
    braced: Option<&Scratch>,
    rights: &mut Rights,
) -> Result<(), Error> {
    let forms = [
        (Some(&scratch.redisson_channel), Pattern::Redisson),
        (
            braced.map(|scratch| &scratch.redisson_channel),
            Pattern::RedissonOfBraced,
        ),
        (Some(&scratch.channel), Pattern::OwnChannels),
        (braced.map(|scratch| &scratch.channel), Pattern::OwnChannelsOfBraced),
    ];
    for (channel, pattern) in forms {
        let Some(channel) = channel else { continue };
        let publish: Words = words(&["PUBLISH"], channel).into_iter().chain([Vec::new()]).collect();
        let subscribe = words(&["SUBSCRIBE"], channel);
        let mut is_missing = verdict_of(server, &publish).await? == Verdict::NoChannel;
        is_missing |= verdict_of(server, &subscribe).await? == Verdict::NoChannel;
        // The connection must not stay subscribed, whether or not the server refused.
        verdict_of(server, &words(&["UNSUBSCRIBE"], channel)).await?;
        if is_missing {
            rights.channels.push(pattern);
        }
    }
    Ok(())
}

async fn verdict_of(server: &mut Server, command: &Words) -> Result<Verdict, Error> {
    let answers: Answers = server.ask_all(std::slice::from_ref(command)).await?;
    Ok(answers.first().map_or(Verdict::Allowed, verdict_of_answer))
}

fn verdict_of_answer(answer: &Result<Reply, CallError>) -> Verdict {
    match answer {
        Err(CallError::Server { code, message }) => verdict(code, message),
        _ => Verdict::Allowed,
    }
}

fn words(start: &[&str], key: &[u8]) -> Words {
    start
        .iter()
        .map(|word| word.as_bytes())
        .chain([key])
        .map(Into::into)
        .collect()
}

/// Returns a command that sets a string with a TTL.
fn set_command(key: &[u8]) -> Words {
    words(&["SET"], key)
        .into_iter()
        .chain([b"1".to_vec(), b"PX".to_vec(), TTL_MS.into()])
        .collect()
}
