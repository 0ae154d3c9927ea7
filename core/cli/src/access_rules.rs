//! The access rules of SECURITY.md: what each user of the server may do.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Programs whose locks are the only ones on this server.
    Application,
    /// Programs of one tenant of several.
    Tenant,
    /// People who inspect locks, release them by force and change limits.
    Operator,
    /// People who only inspect locks.
    Watcher,
    /// A client at the sentinels.
    Sentinel,
}

impl Role {
    /// Returns the name of the user in SECURITY.md.
    pub(crate) const fn user(self) -> &'static str {
        match self {
            Self::Application => "locks",
            Self::Tenant => "tenant",
            Self::Operator => "operator",
            Self::Watcher => "watcher",
            Self::Sentinel => "sentinel",
        }
    }

    const fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Application | Self::Tenant => CLIENT_COMMANDS,
            Self::Operator => OPERATOR_COMMANDS,
            Self::Watcher => WATCHER_COMMANDS,
            Self::Sentinel => SENTINEL_COMMANDS,
        }
    }

    /// Returns the commands that this role also needs in a cluster.
    pub(crate) fn commands_in_cluster(self) -> impl Iterator<Item = &'static str> {
        CLUSTER_COMMANDS.iter().copied().filter(move |command| match self {
            Self::Application | Self::Tenant => true,
            Self::Operator => matches!(*command, "+cluster|slots" | "+asking" | "+spublish"),
            Self::Watcher => matches!(*command, "+cluster|slots" | "+asking"),
            Self::Sentinel => false,
        })
    }
}

/// The rule for a user of the server.
pub(crate) struct Rule<'a> {
    pub(crate) role: Role,
    /// The prefixes of the names of the user's locks.
    pub(crate) prefixes: &'a [String],
    /// Whether the user is confined to the keys and channels of one prefix. A tenant always is.
    pub(crate) is_confined: bool,
    /// Commands in addition to those of the role, such as `+select`.
    pub(crate) extra_commands: Vec<String>,
}

impl Rule<'_> {
    /// Returns the command that gives a user these rights. The reader of the output replaces `PASSWORD`.
    pub(crate) fn command(&self, user: &str) -> String {
        format!("ACL SETUSER {}", self.user_and_rights(user))
    }

    /// Returns the same rule as a line for an ACL file.
    pub(crate) fn acl_file_line(&self, user: &str) -> String {
        format!("user {}", self.user_and_rights(user))
    }

    fn user_and_rights(&self, user: &str) -> String {
        format!("{user} reset resetchannels on >PASSWORD {}", self.rights().join(" "))
    }

    /// Returns the patterns of keys and channels, and then the commands.
    pub(crate) fn rights(&self) -> Vec<String> {
        let mut rights = self.keys_and_channels();
        rights.push("-@all".into());
        rights.extend(self.role.commands().iter().copied().map(String::from));
        for command in &self.extra_commands {
            if !rights.contains(command) {
                rights.push(command.clone());
            }
        }
        rights
    }

    fn keys_and_channels(&self) -> Vec<String> {
        if self.role == Role::Sentinel {
            return vec!["&+switch-master".into(), "&+promoted-slave".into()];
        }
        let is_confined = self.role == Role::Tenant || self.is_confined;
        let publishes = self.role != Role::Watcher;
        let mut patterns = Vec::new();
        for prefix in self.prefixes {
            patterns.push(format!("~{prefix}*"));
            if is_confined {
                patterns.push(format!("~steadlock:{{{prefix}*"));
                patterns.push(format!("~steadlock::{prefix}*"));
                if publishes {
                    patterns.push(format!("&redisson_lock__channel:{{{prefix}*"));
                    patterns.push(format!("&redisson_lock__channel:{prefix}*"));
                    patterns.push(format!("&steadlock:{{{prefix}*"));
                    patterns.push(format!("&steadlock::{prefix}*"));
                }
            }
        }
        if !is_confined {
            patterns.push("~steadlock:*".into());
            if publishes {
                patterns.extend(["&redisson_lock__channel:*".into(), "&steadlock:*".into()]);
            }
        }
        drop_covered_keys(&mut patterns);
        patterns
    }
}

/// If the pattern of all keys (`~*`) is there, drops all other key patterns: servers accept no key pattern after it.
pub(crate) fn drop_covered_keys(patterns: &mut Vec<String>) {
    const ALL: &str = "~*";
    if patterns.iter().any(|pattern| pattern == ALL) {
        patterns.retain(|pattern| pattern == ALL || !pattern.starts_with('~'));
    }
}

const CLIENT_COMMANDS: &[&str] = &[
    "+evalsha",
    "+script|load",
    "+subscribe",
    "+unsubscribe",
    "+publish",
    "+time",
    "+get",
    "+set",
    "+del",
    "+exists",
    "+pttl",
    "+pexpire",
    "+hdel",
    "+hexists",
    "+hget",
    "+hmget",
    "+hrandfield",
    "+hset",
    "+zadd",
    "+zcard",
    "+zcount",
    "+zpopmin",
    "+zrange",
    "+zrangebyscore",
    "+zrem",
    "+zscore",
];
const OPERATOR_COMMANDS: &[&str] = &[
    "+evalsha",
    "+script|load",
    "+publish",
    "+time",
    "+get",
    "+set",
    "+del",
    "+strlen",
    "+pttl",
    "+pexpire",
    "+hdel",
    "+hget",
    "+hlen",
    "+hmget",
    "+hrandfield",
    "+hset",
    "+zadd",
    "+zcard",
    "+zcount",
    "+zpopmin",
    "+zrange",
    "+zscore",
];
const WATCHER_COMMANDS: &[&str] = &[
    "+evalsha",
    "+script|load",
    "+time",
    "+get",
    "+pttl",
    "+hmget",
    "+hrandfield",
    "+zcount",
    "+zrange",
    "+zscore",
];
const SENTINEL_COMMANDS: &[&str] = &[
    "+subscribe",
    "+sentinel|get-master-addr-by-name",
    "+sentinel|master",
    "+sentinel|myid",
    "+sentinel|sentinels",
];
/// The commands that `steadlock inspect`, `wait`, `list` and `top` need in addition to those of an operator or a
/// watcher.
pub(crate) const TOOL_COMMANDS: &[&str] = &["+hlen", "+strlen", "+type", "+scan"];
const CLUSTER_COMMANDS: &[&str] = &["+cluster|slots", "+asking", "+ssubscribe", "+sunsubscribe", "+spublish"];
