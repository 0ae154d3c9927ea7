//! `steadlock acl`: prints the access rules of SECURITY.md for the user's own prefixes and servers.

use std::process::ExitCode;

use serde_json::json;
use steadlock::admin::KeyPrefix;

use crate::access_rules::{Role, Rule, TOOL_COMMANDS};
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
    /// its programs, and a confined user exactly one. A sentinel's user needs none; all others need at least one.
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

impl Acl {
    pub(crate) fn run(&self) -> Result<ExitCode, Exit> {
        self.check()?;
        let rule = Rule {
            role: self.role,
            prefixes: &self.prefix,
            is_confined: self.confined,
            extra_commands: self.extra_commands(),
        };
        let user = self.user.as_deref().unwrap_or_else(|| self.role.user());
        let rights = rule.rights();
        let line = if self.acl_file {
            rule.acl_file_line(user)
        } else {
            rule.command(user)
        };
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
            (Role::Application | Role::Sentinel, _) if self.confined => {
                refuse("only an operator or a watcher can be confined; leave out --confined")
            }
            (Role::Sentinel, 0) => Ok(()),
            (Role::Sentinel, _) => refuse("sentinels have no locks; leave out --prefix"),
            (Role::Operator | Role::Watcher, 1) => Ok(()),
            (_, 0) => refuse("give the prefix of the names of the locks by --prefix"),
            (Role::Tenant, 1) => Ok(()),
            (Role::Tenant, _) => refuse("a tenant has one prefix; give --prefix once"),
            _ if self.confined => refuse("a confined user has one prefix; give --prefix once"),
            (Role::Application, _) | (Role::Operator | Role::Watcher, _) => Ok(()),
        }
    }

    /// Returns the commands that the options add to those of the role.
    fn extra_commands(&self) -> Vec<String> {
        let mut extra = Vec::new();
        if self.tools {
            extra.extend_from_slice(TOOL_COMMANDS);
        }
        if self.cluster {
            extra.extend(self.role.commands_in_cluster());
        }
        if self.redlock {
            extra.push("+info");
        }
        if self.database {
            extra.push("+select");
        }
        if self.client_info {
            extra.push("+client|setinfo");
        }
        extra.into_iter().map(String::from).collect()
    }
}
