//! `steadlock acl`: prints the access rules of SECURITY.md for the user's own prefixes and servers.

use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::json;
use steadlock::admin::KeyPrefix;

use crate::exit::Exit;
use crate::output::{print, print_json};

/// Print the access rule for a user of the server, as SECURITY.md lists it.
///
/// The command contacts no server. Enter the printed line in redis-cli, on every server or node, and
/// replace PASSWORD by a password of your own. Sentinels have their own users; choose the role sentinel
/// for them.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Acl {
    /// The role of the user.
    role: Role,
    /// The prefix of the names of the locks, such as orders: or tenant:. A tenant needs exactly one, the key_prefix of
    /// its programs. A sentinel's user needs none; all other roles need at least one.
    #[arg(long, value_name = "PREFIX")]
    prefix: Vec<String>,
    /// The user's name [default: the name in SECURITY.md].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Confine an operator or a watcher to the keys and channels of one prefix, as a tenant is.
    #[arg(long)]
    confined: bool,
    /// Add the rights that are needed in a cluster. On Redis 6.2 leave out +ssubscribe, +sunsubscribe and +spublish,
    /// which it does not know.
    #[arg(long)]
    cluster: bool,
    /// Add the right by which clients tell servers apart: for redlock clients, and for clients whose server name leads
    /// to several servers.
    #[arg(long)]
    redlock: bool,
    /// Add the right to choose a database other than 0.
    #[arg(long)]
    database: bool,
    /// Add the rights that `steadlock inspect`, `wait`, `list` and `top` need in addition to those of an operator or a
    /// watcher.
    #[arg(long)]
    tools: bool,
    /// Let clients tell the server that they are Steadlock's. For Redis 7.2, Valkey 7.2 and newer.
    #[arg(long)]
    client_info: bool,
    /// Print a line for an ACL file.
    #[arg(long)]
    acl_file: bool,
    /// Print one JSON object: user, rights, line.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
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

const CLIENTS: &[&str] = &[
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
const OPERATORS: &[&str] = &[
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
const WATCHERS: &[&str] = &[
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
const SENTINELS: &[&str] = &[
    "+subscribe",
    "+sentinel|get-master-addr-by-name",
    "+sentinel|master",
    "+sentinel|myid",
    "+sentinel|sentinels",
];
const TOOLS: &[&str] = &["+hlen", "+strlen", "+type", "+scan"];
const CLUSTER: &[&str] = &["+cluster|slots", "+asking", "+ssubscribe", "+sunsubscribe", "+spublish"];

impl Role {
    const fn user(self) -> &'static str {
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
            Self::Application | Self::Tenant => CLIENTS,
            Self::Operator => OPERATORS,
            Self::Watcher => WATCHERS,
            Self::Sentinel => SENTINELS,
        }
    }

    /// Returns whether this role needs the right in a cluster.
    fn needs(self, right: &str) -> bool {
        match self {
            Self::Application | Self::Tenant => true,
            Self::Operator => matches!(right, "+cluster|slots" | "+asking" | "+spublish"),
            Self::Watcher => matches!(right, "+cluster|slots" | "+asking"),
            Self::Sentinel => false,
        }
    }
}

impl Acl {
    pub(crate) fn run(&self) -> Result<ExitCode, Exit> {
        self.check()?;
        let user = self.user.as_deref().unwrap_or_else(|| self.role.user());
        let mut rights = keys_and_channels(self.role, self.confined, &self.prefix);
        rights.push("-@all".into());
        rights.extend(self.commands().into_iter().map(String::from));
        let start = if self.acl_file { "user" } else { "ACL SETUSER" };
        let line = line(start, user, &rights);
        if self.json {
            print_json(&json!({ "user": user, "rights": rights, "line": line }))?;
        } else {
            print(&format!("{line}\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn check(&self) -> Result<(), Exit> {
        let refuse = |why: &str| Err(Exit::new(Exit::USAGE, why));
        for prefix in &self.prefix {
            if let Err(error) = KeyPrefix::parse(prefix) {
                return refuse(&error.message());
            }
            // A space would begin another right. A pattern with a brace would not confine the user to the prefix.
            if prefix.is_empty() || prefix.contains(['{', '}']) || prefix.chars().any(char::is_whitespace) {
                return refuse("a prefix in an access rule has at least one letter, no space and no brace");
            }
        }
        if let Some(user) = &self.user
            && (user.is_empty() || user.chars().any(char::is_whitespace))
        {
            return refuse("a user's name has at least one letter, and no space");
        }
        match (self.role, self.prefix.len()) {
            (Role::Sentinel, 0) => Ok(()),
            (Role::Sentinel, _) => refuse("sentinels have no locks; leave out --prefix"),
            (Role::Operator | Role::Watcher, 1) => Ok(()),
            (_, 0) => refuse("give what the names of the locks begin with, by --prefix"),
            (Role::Tenant, 1) => Ok(()),
            (Role::Tenant, _) => refuse("a tenant has one prefix; give --prefix once"),
            _ if self.confined => refuse("a confined user has one prefix; give --prefix once"),
            (Role::Application, _) | (Role::Operator | Role::Watcher, _) => Ok(()),
        }
    }

    fn commands(&self) -> Vec<&'static str> {
        let mut commands = self.role.commands().to_vec();
        let mut add = |more: &[&'static str]| {
            for right in more {
                if !commands.contains(right) {
                    commands.push(right);
                }
            }
        };
        if self.tools {
            add(TOOLS);
        }
        if self.cluster {
            let of_role: Vec<&str> = CLUSTER.iter().copied().filter(|right| self.role.needs(right)).collect();
            add(&of_role);
        }
        if self.redlock {
            add(&["+info"]);
        }
        if self.database {
            add(&["+select"]);
        }
        if self.client_info {
            add(&["+client|setinfo"]);
        }
        commands
    }
}

fn keys_and_channels(role: Role, is_confined: bool, prefixes: &[String]) -> Vec<String> {
    let is_confined =
        role == Role::Tenant || is_confined && matches!(role, Role::Operator | Role::Watcher | Role::Application);
    let publishes = role != Role::Watcher;
    let mut patterns = Vec::new();
    if role == Role::Sentinel {
        return vec!["&+switch-master".into(), "&+promoted-slave".into()];
    }
    for prefix in prefixes {
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
    leave_out_covered(&mut patterns);
    patterns
}

/// Drops all other key patterns if the pattern of all keys is there: servers accept no other pattern beside it.
pub(crate) fn leave_out_covered(patterns: &mut Vec<String>) {
    const ALL: &str = "~*";
    if patterns.iter().any(|pattern| pattern == ALL) {
        patterns.retain(|pattern| pattern == ALL || !pattern.starts_with('~'));
    }
}

fn line(start: &str, user: &str, rights: &[String]) -> String {
    format!("{start} {user} reset resetchannels on >PASSWORD {}", rights.join(" "))
}

/// Returns the line for programs whose locks' names begin with `prefix`, with the rights `more` added. An empty prefix
/// allows all names.
pub(crate) fn for_programs<'a>(prefix: &str, more: impl Iterator<Item = &'a str>) -> String {
    let role = if prefix.is_empty() {
        Role::Application
    } else {
        Role::Tenant
    };
    let mut rights = keys_and_channels(role, false, &[prefix.to_owned()]);
    rights.push("-@all".into());
    rights.extend(CLIENTS.iter().map(|right| String::from(*right)));
    rights.extend(more.map(|right| format!("+{right}")));
    line("ACL SETUSER", role.user(), &rights)
}
