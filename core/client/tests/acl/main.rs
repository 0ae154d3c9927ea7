//! Tests of the ACL rules that SECURITY.md prints: each rule is sufficient for its purpose, and each right in it is
//! necessary. `STEADLOCK_TEST_SERVER` names the server version.

#![allow(unreachable_pub, reason = "what the modules of this binary share")]

mod confinement;
mod rules;
#[path = "../support/mod.rs"]
mod support;
mod work;

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use futures_util::stream;
use rules::Rule;
use steadlock::{Client, ErrorKind};
use steadlock_protocol::Script;
use support::{Redis, version};
use work::{Failure, Notice};

#[derive(Clone, Copy, Debug)]
enum Use {
    Clients { prefix: &'static str },
    Operators,
    Watchers,
}

impl Use {
    async fn run(self, server: &Redis, rule: &Rule, name: &str, notice: Notice) -> Result<(), Failure> {
        let url = rule.url(server);
        let holder = Client::connect(server.url()).await.unwrap();
        let result = match self {
            Self::Clients { prefix } => work::run_as_client(server, &url, prefix, name, notice).await,
            Self::Operators => work::run_as_operator(server, &url, &holder, name).await,
            Self::Watchers => work::run_as_watcher(&url, &holder, name).await,
        };
        holder.close().await;
        result
    }

    /// Whether clients with this purpose call a script.
    fn calls(self, script: Script) -> bool {
        let file = script.file();
        let changes = file.ends_with("_force.lua") || file == "semaphore_limit.lua";
        match self {
            Self::Clients { .. } => !changes,
            Self::Operators => changes || file.ends_with("_inspect.lua"),
            Self::Watchers => file.ends_with("_inspect.lua"),
        }
    }

    /// Returns the commands that clients with this purpose send, besides those that scripts call.
    fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Clients { .. } => &["evalsha", "script|load", "subscribe", "unsubscribe"],
            Self::Operators | Self::Watchers => &["evalsha", "script|load"],
        }
    }
}

/// Whether a client works without a right and only learns of releases later.
fn is_optional(right: &str) -> bool {
    right.starts_with('&') || ["+publish", "+subscribe", "+unsubscribe"].contains(&right)
}

/// Makes two tests for each rule: the rule is sufficient, and each right in it is necessary.
macro_rules! each_rule {
    ($($user:ident: $purpose:expr,)*) => {
        /// The rules of SECURITY.md with their purposes.
        const RULES: &[(&str, Use)] = &[$((stringify!($user), $purpose)),*];

        $(mod $user {
            use super::*;

            #[tokio::test]
            async fn suffices() {
                check_that_it_suffices(stringify!($user), $purpose).await;
            }

            #[tokio::test]
            async fn needs_each_of_its_rights_and_an_error_names_a_missing_one() {
                check_each_right(stringify!($user), $purpose).await;
            }
        })*
    };
}

each_rule! {
    locks: Use::Clients { prefix: "" },
    tenant: Use::Clients { prefix: "tenant:" },
    operator: Use::Operators,
    watcher: Use::Watchers,
}

#[test]
fn every_printed_rule_is_tested() {
    let known: Vec<String> = RULES.iter().map(|(user, _)| String::from(*user)).collect();
    assert_eq!(rules::users(), known);
}

async fn check_that_it_suffices(user: &str, purpose: Use) {
    let server = Redis::start();
    let rule = Rule::printed(user);
    rule.apply(&server);
    let result = purpose.run(&server, &rule, "orders:1", Notice::Messages).await;
    result.unwrap_or_else(|failure| panic!("{user}: {failure}"));
    let refused = refused(&server);
    // A client works without these: they write its client info, or show that all of its connections are to one server.
    let is_optional = |what: &str| what.starts_with("client") || what == "info" || user == "watcher" && what == "set";
    assert!(
        refused.iter().all(|what| is_optional(what)),
        "{user}: was refused {refused:?}"
    );
    // Bypasses `println`, whose output appears only for failed tests.
    let line = format!(
        "access list, rust, {}: {user}, {} rights\n",
        version::of(&server),
        rule.rights().len()
    );
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("stderr");
}

async fn check_each_right(user: &str, purpose: Use) {
    let server = Redis::start();
    let rule = Rule::printed(user);
    let rights = rule.rights();
    assert!(rights.len() > 8, "{rights:?}");
    let without = |(number, right): (usize, &String)| {
        let weaker = rule.without(right, format!("{user}-{number}"));
        let (server, right) = (&server, right.clone());
        async move {
            weaker.apply(server);
            let mut failure = None;
            // By chance, a waiter can make an attempt just after a release and need no notification. Hence several
            // runs.
            let runs = if is_optional(&right) { 5 } else { 1 };
            for run in 0..runs {
                let name = format!("orders:{number}-{run}-");
                failure = purpose.run(server, &weaker, &name, Notice::Messages).await.err();
                if failure.is_some() {
                    break;
                }
            }
            let failure = failure.unwrap_or_else(|| panic!("{user} does not need {right}"));
            check_naming(user, &right, &failure);
            if is_optional(&right) && matches!(purpose, Use::Clients { .. }) {
                // A waiter that receives no notifications polls.
                let name = format!("orders:{number}-late");
                let result = purpose.run(server, &weaker, &name, Notice::Polls).await;
                result.unwrap_or_else(|failure| panic!("{user} without {right}: {failure}"));
            }
        }
    };
    let checks = rights.iter().enumerate().map(without);
    stream::iter(checks).buffer_unordered(8).collect::<Vec<()>>().await;
}

fn check_naming(user: &str, right: &str, failure: &Failure) {
    if is_optional(right) {
        assert!(failure.error.is_none(), "{user} without {right}: {failure}");
        return;
    }
    let Some(error) = &failure.error else {
        panic!("{user} without {right}, there is no error: {failure}");
    };
    assert_eq!(
        error.kind(),
        ErrorKind::Misconfigured,
        "{user} without {right}: {failure}"
    );
    let named = match right.split_at(1) {
        // Redis 6.2 names `script` where other versions name `script|load`.
        ("+", command) => error
            .message()
            .to_lowercase()
            .contains(command.split('|').next().unwrap()),
        (_, pattern) => error.message().contains(&pattern.replace('*', "")),
    };
    assert!(named, "{user} without {right}: {failure}");
}

#[test]
fn each_rule_allows_exactly_the_commands_of_its_scripts() {
    for &(user, purpose) in RULES {
        let of_script = |script: &Script| {
            let calls = script.text().split("call('").skip(1);
            calls.map(|rest| rest.split('\'').next().unwrap().to_lowercase())
        };
        let scripts = Script::ALL.iter().filter(|script| purpose.calls(**script));
        let mut needed: BTreeSet<String> = scripts.flat_map(of_script).collect();
        needed.extend(purpose.commands().iter().map(|command| String::from(*command)));
        let rights = Rule::printed(user).rights();
        let granted = rights.iter().filter_map(|right| right.strip_prefix('+'));
        assert_eq!(granted.map(String::from).collect::<BTreeSet<_>>(), needed, "{user}");
    }
}

/// Returns the commands, keys and channels that the server has refused since its log was reset.
fn refused(server: &Redis) -> Vec<String> {
    let mut connection = server.connection();
    let entries: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut connection).unwrap();
    let object = |entry: redis::Value| {
        let fields: std::collections::HashMap<String, redis::Value> = redis::from_redis_value(entry).unwrap();
        redis::from_redis_value_ref::<String>(&fields["object"]).unwrap()
    };
    entries.into_iter().map(object).collect()
}
