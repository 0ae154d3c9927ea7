//! Findings about the user's rights on one server.

use crate::access_rules::drop_covered_keys;
use crate::doctor::catalogue::{Check, Finding};
use crate::doctor::facts::{Facts, Server};
use crate::doctor::rights::{Pattern, Rights};

pub(super) fn check(facts: &Facts, server: &Server) -> Vec<Finding> {
    let mut all = Vec::new();
    let rights = &server.rights;
    let with_plus = |names: &[&str]| {
        let words: Vec<String> = names.iter().map(|name| format!("+{name}")).collect();
        words.join(" ")
    };
    if !rights.commands.is_empty() {
        let missing = with_plus(&rights.commands);
        all.push(Finding::new(
            Check::MissingCommand,
            format!("the user lacks {missing}: locks that need it fail as Misconfigured"),
            "paste the access line below, or add what is missing to the user's rules",
        ));
    }
    if !rights.messages.is_empty() {
        let missing = with_plus(&rights.messages);
        all.push(Finding::new(
            Check::MissingMessages,
            format!("the user lacks {missing}: {BY_POLLING}"),
            format!("add {missing} to the user's rules"),
        ));
    }
    patterns(facts, rights, &mut all);
    in_different_selectors(facts, rights, &mut all);
    if !rights.optional.is_empty() {
        let missing = with_plus(&rights.optional);
        all.push(Finding::new(
            Check::MissingOptional,
            format!("the user lacks {missing}: nothing fails, but the server notes each refusal in its ACL log"),
            format!("add {missing} to the user's rules"),
        ));
    }
    for why in &rights.not_tested {
        all.push(Finding::new(
            Check::CannotTell,
            format!("cannot tell whether a right is missing: {why}"),
            "try again when the server answers",
        ));
    }
    all.into_iter().map(|finding| finding.at(&server.name)).collect()
}

fn patterns(facts: &Facts, rights: &Rights, all: &mut Vec<Finding>) {
    let (keys, keys_of_braced) = split(facts, &rights.keys);
    let (channels, channels_of_braced) = split(facts, &rights.channels);
    if !keys.is_empty() {
        all.push(Finding::new(
            Check::MissingKeys,
            format!("the user may not use keys of {keys}: locks with such keys fail as Misconfigured"),
            format!(
                "add {keys} to the user's rules, or give doctor by --key-prefix what the names of your locks begin with"
            ),
        ));
    }
    if !channels.is_empty() {
        all.push(Finding::new(
            Check::MissingChannels,
            format!("the user may not use channels of {channels}: {BY_POLLING}"),
            format!("add {channels} to the user's rules"),
        ));
    }
    let of_braced: Vec<String> = [keys_of_braced, channels_of_braced]
        .into_iter()
        .filter(|patterns| !patterns.is_empty())
        .collect();
    if !of_braced.is_empty() {
        let missing = of_braced.join(" ");
        all.push(Finding::new(
            Check::MissingForBraces,
            format!("the user lacks {missing}, which locks need whose names have a brace"),
            format!("add {missing} to the user's rules, unless no name has a brace"),
        ));
    }
}

/// Adds findings for rights that the user has, but in different selectors.
fn in_different_selectors(facts: &Facts, rights: &Rights, all: &mut Vec<Finding>) {
    let mut groups: Vec<(&[Pattern], Vec<&str>)> = Vec::new();
    for (right, patterns) in &rights.in_different_selectors {
        match groups.iter_mut().find(|(known, _)| known == patterns) {
            Some((_, rights)) => rights.push(right),
            None => groups.push((patterns, vec![right])),
        }
    }
    for (patterns, rights) in groups {
        let (plain, of_braced) = split(facts, patterns);
        let keys = [plain, of_braced].join(" ");
        let rights: Vec<String> = rights.iter().map(|right| format!("+{right}")).collect();
        let rights = rights.join(" ");
        let (check, who) = if patterns.iter().any(|pattern| pattern.is_for_braced()) {
            (Check::MissingForBraces, "locks whose names have a brace")
        } else {
            (Check::MissingKeys, "locks")
        };
        let all_of = if patterns.len() > 1 { "all together" } else { "on these" };
        all.push(Finding::new(
            check,
            format!(
                "no single selector of the user has {rights} and keys of {} {all_of}: {who} that need it fail as \
                 Misconfigured",
                keys.trim()
            ),
            "put the commands and the keys of locks into one place of the user's rules, as the access line below has them",
        ));
    }
}

const BY_POLLING: &str = "waiters are not notified of releases and work by polling only, every 500–750 ms";

/// Splits the patterns, as texts, into those for all names and those that only names with a brace need.
fn split(facts: &Facts, patterns: &[Pattern]) -> (String, String) {
    let mut needed: Vec<String> = patterns.iter().map(|pattern| pattern.of(&facts.prefix)).collect();
    drop_covered_keys(&mut needed);
    let of = |braced: bool| {
        let mut texts: Vec<String> = Vec::new();
        for pattern in patterns.iter().filter(|pattern| pattern.is_for_braced() == braced) {
            let text = pattern.of(&facts.prefix);
            if needed.contains(&text) && !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts.join(" ")
    };
    (of(false), of(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::{Layout, samples};

    fn findings_for(rights: Rights) -> Vec<Finding> {
        let mut facts = samples::facts(Layout::OneServer, &["a:6379"]);
        facts.servers[0].rights = rights;
        check(&facts, &facts.servers[0])
    }

    #[test]
    fn without_publish_locks_work_by_polling() {
        let findings = findings_for(Rights {
            messages: vec!["publish"],
            ..Rights::default()
        });
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].check, Check::MissingMessages);
        assert!(findings[0].says.contains("polling"), "{findings:?}");
        assert_eq!(findings[0].remedy, "add +publish to the user's rules");
    }

    #[test]
    fn a_missing_pattern_is_reported_as_rules_write_it() {
        let findings = findings_for(Rights {
            keys: vec![Pattern::Names, Pattern::OwnOfBraced],
            channels: vec![Pattern::OwnChannels],
            ..Rights::default()
        });
        let checks: Vec<_> = findings.iter().map(|one| one.check).collect();
        assert_eq!(
            checks,
            [Check::MissingKeys, Check::MissingChannels, Check::MissingForBraces]
        );
        assert!(findings[0].says.contains("~orders:*"), "{findings:?}");
        assert!(findings[1].says.contains("&steadlock:{orders:*"), "{findings:?}");
        assert!(findings[2].says.contains("~steadlock::orders:*"), "{findings:?}");
    }
}
