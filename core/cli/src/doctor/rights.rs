//! The rights that locks need, how the doctor tests each of them, and the line that grants them.
//!
//! The doctor tries each command on scratch keys, which belong to no lock: one key of each form that locks use. Since
//! Redis 7.0 a user can have several selectors, and each grants commands only on its own keys. A script names keys of
//! two forms, so the doctor also tries a script with keys of both forms. If the user may use `SET`, each scratch key
//! holds a string with a TTL. A command for hashes or sorted sets then writes nothing: the server checks the user's
//! rights first, and then answers `WRONGTYPE`.

use super::layout::Layout;
use super::version::Version;
use crate::access_rules::{Role, Rule};

/// The rights that locks use and the user lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Commands without which locks fail.
    pub(crate) commands: Vec<&'static str>,
    /// Commands without which waiters receive no notifications and poll instead.
    pub(crate) messages: Vec<&'static str>,
    /// Commands without which locks work, but the server logs each refusal.
    pub(crate) optional: Vec<&'static str>,
    pub(crate) keys: Vec<Pattern>,
    /// Commands and keys that the user may use, but not together: they are in different selectors.
    pub(crate) in_different_selectors: Vec<(&'static str, Vec<Pattern>)>,
    pub(crate) channels: Vec<Pattern>,
    /// The reasons why rights could not be tested.
    pub(crate) not_tested: Vec<String>,
}

/// The purpose of a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Locks,
    Messages,
    Optional,
}

/// The command that tests a right.
#[derive(Debug)]
pub(crate) struct Probe {
    /// The right, as an access list names it.
    pub(crate) right: &'static str,
    pub(crate) need: Need,
    /// The words of the command, with the placeholders [`KEY`] and [`CHANNEL`].
    pub(crate) words: &'static [&'static str],
}

/// A placeholder for the scratch key.
pub(crate) const KEY: &str = "(key)";
/// A placeholder for the scratch channel.
pub(crate) const CHANNEL: &str = "(channel)";
/// The TTL of a scratch key in milliseconds, in case the doctor cannot remove it.
pub(crate) const TTL_MS: &str = "30000";

/// The digest of a script that does not exist.
pub(crate) const NO_SCRIPT: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

const fn probe(right: &'static str, need: Need, words: &'static [&'static str]) -> Probe {
    Probe { right, need, words }
}

/// The rights that a program with locks needs on every server, in the order of SECURITY.md.
const BASIC_PROBES: &[Probe] = &[
    probe("evalsha", Need::Locks, &["EVALSHA", NO_SCRIPT, "1", KEY]),
    probe("script|load", Need::Locks, &["SCRIPT", "LOAD", "return 1"]),
    probe("subscribe", Need::Messages, &["SUBSCRIBE", CHANNEL]),
    probe("unsubscribe", Need::Messages, &["UNSUBSCRIBE", CHANNEL]),
    probe("publish", Need::Messages, &["PUBLISH", CHANNEL, ""]),
    probe("time", Need::Locks, &["TIME"]),
    probe("get", Need::Locks, &["GET", KEY]),
    probe("set", Need::Locks, &["SET", KEY, "1", "PX", TTL_MS]),
    probe("del", Need::Locks, &["DEL", KEY]),
    probe("exists", Need::Locks, &["EXISTS", KEY]),
    probe("pttl", Need::Locks, &["PTTL", KEY]),
    probe("pexpire", Need::Locks, &["PEXPIRE", KEY, TTL_MS]),
    probe("hdel", Need::Locks, &["HDEL", KEY, "field"]),
    probe("hexists", Need::Locks, &["HEXISTS", KEY, "field"]),
    probe("hget", Need::Locks, &["HGET", KEY, "field"]),
    probe("hmget", Need::Locks, &["HMGET", KEY, "field"]),
    probe("hrandfield", Need::Locks, &["HRANDFIELD", KEY]),
    // Neither creates a key, which a user without `DEL` and `PEXPIRE` could not remove: the first lacks a value, and
    // the second only changes members.
    probe("hset", Need::Locks, &["HSET", KEY, "field", "1", "other"]),
    probe("zadd", Need::Locks, &["ZADD", KEY, "XX", "1", "member"]),
    probe("zcard", Need::Locks, &["ZCARD", KEY]),
    probe("zcount", Need::Locks, &["ZCOUNT", KEY, "0", "1"]),
    probe("zpopmin", Need::Locks, &["ZPOPMIN", KEY]),
    probe("zrange", Need::Locks, &["ZRANGE", KEY, "0", "0"]),
    probe("zrangebyscore", Need::Locks, &["ZRANGEBYSCORE", KEY, "0", "1"]),
    probe("zrem", Need::Locks, &["ZREM", KEY, "member"]),
    probe("zscore", Need::Locks, &["ZSCORE", KEY, "member"]),
];

const CLUSTER_PROBES: &[Probe] = &[
    probe("cluster|slots", Need::Locks, &["CLUSTER", "SLOTS"]),
    probe("asking", Need::Locks, &["ASKING"]),
];

const SHARDED_CHANNEL_PROBES: &[Probe] = &[
    probe("ssubscribe", Need::Messages, &["SSUBSCRIBE", CHANNEL]),
    probe("sunsubscribe", Need::Messages, &["SUNSUBSCRIBE", CHANNEL]),
    probe("spublish", Need::Messages, &["SPUBLISH", CHANNEL, ""]),
];

const REDLOCK_PROBES: &[Probe] = &[probe("info", Need::Optional, &["INFO", "server"])];

const SETINFO_PROBES: &[Probe] = &[probe(
    "client|setinfo",
    Need::Optional,
    &["CLIENT", "SETINFO", "LIB-NAME", "steadlock"],
)];

/// Returns the probes for a server of this layout and version. An unknown version counts as the oldest one.
pub(crate) fn probes(layout: Layout, version: Option<Version>) -> impl Iterator<Item = &'static Probe> {
    let is_cluster = layout == Layout::Cluster;
    let has_sharded = is_cluster && version.is_some_and(Version::has_sharded_channels);
    let has_setinfo = version.is_some_and(Version::supports_setinfo);
    let some = |probes: &'static [Probe], holds: bool| if holds { probes } else { &[] };
    BASIC_PROBES
        .iter()
        .chain(some(CLUSTER_PROBES, is_cluster))
        .chain(some(SHARDED_CHANNEL_PROBES, has_sharded))
        .chain(some(REDLOCK_PROBES, layout == Layout::RedLock))
        .chain(some(SETINFO_PROBES, has_setinfo))
}

/// A pattern of keys or of channels that locks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// Keys that are the names themselves.
    Names,
    /// All other keys of a name without a brace.
    Own,
    /// All other keys of a name with a brace.
    OwnOfBraced,
    /// Channels that Redisson uses, too, of a name without a brace.
    Redisson,
    RedissonOfBraced,
    OwnChannels,
    OwnChannelsOfBraced,
}

impl Pattern {
    /// Returns whether only names with a brace need this pattern.
    pub(crate) const fn is_for_braced(self) -> bool {
        matches!(
            self,
            Self::OwnOfBraced | Self::RedissonOfBraced | Self::OwnChannelsOfBraced
        )
    }

    /// Returns the pattern as an access list has it, for names with this prefix.
    pub(crate) fn of(self, prefix: &str) -> String {
        if prefix.is_empty() {
            return match self {
                Self::Names => "~*",
                Self::Own | Self::OwnOfBraced => "~steadlock:*",
                Self::Redisson | Self::RedissonOfBraced => "&redisson_lock__channel:*",
                Self::OwnChannels | Self::OwnChannelsOfBraced => "&steadlock:*",
            }
            .into();
        }
        let start = match self {
            Self::Names => "~",
            Self::Own => "~steadlock:{",
            Self::OwnOfBraced => "~steadlock::",
            Self::Redisson => "&redisson_lock__channel:{",
            Self::RedissonOfBraced => "&redisson_lock__channel:",
            Self::OwnChannels => "&steadlock:{",
            Self::OwnChannelsOfBraced => "&steadlock::",
        };
        format!("{start}{prefix}*")
    }
}

/// Returns the line that gives a program all rights that its locks need here. The user replaces `PASSWORD`.
pub(crate) fn access_line(layout: Layout, version: Option<Version>, prefix: &str, database: i64) -> String {
    let extra = probes(layout, version)
        .skip(BASIC_PROBES.len())
        .map(|probe| probe.right);
    let extra = extra.chain((database != 0).then_some("select"));
    // An empty prefix allows all names.
    let role = if prefix.is_empty() {
        Role::Application
    } else {
        Role::Tenant
    };
    let rule = Rule {
        role,
        prefixes: &[prefix.to_owned()],
        is_confined: false,
        extra_commands: extra.map(|right| format!("+{right}")).collect(),
    };
    rule.command(role.user())
}

/// The server's answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// The user may not run the command.
    NoCommand,
    NoKey,
    NoChannel,
    /// The user has the right, but the server cannot run the command now; with the first word of its error.
    Unavailable(String),
}

/// Reads an error. Its first word, `code`, is the same for all missing rights in every version, so the text of the
/// error shows which right is missing.
pub(crate) fn verdict(code: &str, message: &str) -> Verdict {
    match code {
        "NOPERM" if message.contains("channel") => Verdict::NoChannel,
        "NOPERM" if message.contains(" key") => Verdict::NoKey,
        "NOPERM" => Verdict::NoCommand,
        "OOM" | "READONLY" | "NOREPLICAS" | "MISCONF" | "CLUSTERDOWN" | "LOADING" | "BUSY" | "MASTERDOWN" => {
            Verdict::Unavailable(code.into())
        }
        // Servers check the user's rights first, so any other error means that the user has them.
        _ => Verdict::Allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::version::Product;
    use super::*;

    const SECURITY: &str = include_str!("../../../../SECURITY.md");

    fn rule(user: &str) -> &'static str {
        let start = format!("ACL SETUSER {user} ");
        SECURITY.lines().find_map(|line| line.strip_prefix(&start)).unwrap()
    }

    fn old() -> Option<Version> {
        Version::parse(Product::Redis, "6.2.20")
    }

    fn new() -> Option<Version> {
        Version::parse(Product::Valkey, "9.1.2")
    }

    #[test]
    fn the_line_for_a_prefix_is_that_of_a_tenant_in_security_md() {
        let line = access_line(Layout::OneServer, old(), "tenant:", 0);
        let printed = rule("tenant");
        let words = |line: &str| {
            line.split(' ')
                .map(String::from)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(words(line.strip_prefix("ACL SETUSER tenant ").unwrap()), words(printed));
        let tested = probes(Layout::OneServer, old()).map(|probe| format!("+{}", probe.right));
        let granted = printed
            .split(' ')
            .filter(|word| word.starts_with('+'))
            .map(String::from);
        assert_eq!(tested.collect::<Vec<_>>(), granted.collect::<Vec<_>>());
    }

    #[test]
    fn without_a_prefix_the_line_is_that_of_one_application_with_all_names() {
        let line = access_line(Layout::OneServer, old(), "", 0);
        let printed = rule("locks").replace("~orders:* ~steadlock:*", "~*");
        assert_eq!(printed.matches('~').count(), 1);
        assert_eq!(line.strip_prefix("ACL SETUSER locks ").unwrap(), printed);
    }

    #[test]
    fn the_line_has_what_the_table_of_security_md_adds() {
        let line = access_line(Layout::Cluster, new(), "", 3);
        for right in [
            "cluster|slots",
            "asking",
            "ssubscribe",
            "sunsubscribe",
            "spublish",
            "client|setinfo",
            "select",
        ] {
            assert!(
                line.split(' ').any(|word| word == format!("+{right}")),
                "{right}: {line}"
            );
            assert!(SECURITY.contains(&format!("+{}", right.replace('|', "\\|"))), "{right}");
        }
        assert!(!access_line(Layout::Cluster, old(), "", 0).contains("ssubscribe"));
        assert!(access_line(Layout::RedLock, old(), "", 0).contains("+info"));
    }

    #[test]
    fn each_version_s_words_for_a_missing_right_are_understood() {
        for (message, expected) in [
            (
                "this user has no permissions to run the 'get' command or its subcommand",
                Verdict::NoCommand,
            ),
            (
                "User locks has no permissions to run the 'get' command",
                Verdict::NoCommand,
            ),
            (
                "this user has no permissions to access one of the keys used as arguments",
                Verdict::NoKey,
            ),
            ("No permissions to access a key", Verdict::NoKey),
            (
                "this user has no permissions to access one of the channels used as arguments",
                Verdict::NoChannel,
            ),
            ("No permissions to access a channel", Verdict::NoChannel),
        ] {
            assert_eq!(verdict("NOPERM", message), expected, "{message}");
        }
        assert_eq!(verdict("WRONGTYPE", "Operation against a key"), Verdict::Allowed);
        assert_eq!(
            verdict("OOM", "command not allowed"),
            Verdict::Unavailable("OOM".into())
        );
    }
}
