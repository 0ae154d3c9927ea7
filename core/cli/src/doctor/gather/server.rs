//! Asks one server for its version, state and settings.

use std::time::Duration;

use steadlock::Error;
use steadlock::admin::{Scratch, Server as Link};

use super::asking::{fact, map, no_answer_reason, text};
use super::info::{Info, is_loopback_only, pubsub_buffer};
use super::passwordless_login::{Login, is_local};
use super::{permission, timing};
use crate::doctor::facts::{Connections, Fact, Layout, Node, PasswordlessLogin, Server};
use crate::doctor::version::{Product, Version};

/// How to reach and test one server.
pub(super) struct Probe<'a> {
    pub(super) layout: Layout,
    pub(super) is_node: bool,
    pub(super) login: &'a Login<'a>,
    pub(super) scratch: &'a (Scratch, Option<Scratch>),
}

impl Probe<'_> {
    /// Gathers all facts of a server.
    ///
    /// # Errors
    /// Fails like [`Link::ask`] if the server does not answer at all.
    pub(super) async fn gather(&self, link: &mut Link) -> Result<Server, Error> {
        link.accept_any();
        let hello = link.ask(&["HELLO"]).await?;
        let hello = hello.map(|reply| map(&reply)).unwrap_or_default();
        let info = info(link).await;
        let settings = Settings::read(link, self.is_node).await;
        let version = version(&info, hello.get("server"), hello.get("version"));
        let (clock, round_trip) = timing::measure(link).await;
        let (writes, rights) = permission::test(link, self.layout, &version, self.scratch).await;
        let is_local = is_local(link.address()).await;
        Ok(Server {
            name: link.address().into(),
            ambiguity: link.ambiguity().map(Into::into),
            is_local,
            is_encrypted: self.login.is_encrypted(),
            run_id: from_info(&info, |info| info.text("run_id").map(Into::into), "its run id"),
            memory: from_info(&info, Info::memory, "its memory"),
            persistence: from_info(&info, Info::persistence, "what it writes to disk"),
            replicas: from_info(&info, Info::replicas, "its replicas"),
            connections: connections(&info, &settings),
            has_snapshots: settings.text("save").then(|save| Some(!save.is_empty()), "save"),
            fsync: settings.text("appendfsync"),
            min_replicas: settings.number("min-replicas-to-write"),
            idle_timeout: settings.number("timeout"),
            script_limit: settings.number("lua-time-limit"),
            pubsub_buffer: settings
                .text("client-output-buffer-limit")
                .then(|limits| pubsub_buffer(&limits), "the limit of subscribers"),
            passwordless_login: PasswordlessLogin {
                is_allowed: self
                    .login
                    .is_open(link.address(), self.is_node, &self.scratch.0.key)
                    .await,
                from_network: from_network(&settings, &version),
            },
            node: self.is_node.then(|| Node {
                needs_full_coverage: settings
                    .text("cluster-require-full-coverage")
                    .then(|needs| Some(needs == "yes"), "cluster-require-full-coverage"),
                timeout: settings
                    .number("cluster-node-timeout")
                    .then(|ms| Some(Duration::from_millis(ms)), "cluster-node-timeout"),
            }),
            clock,
            round_trip,
            writes,
            rights,
            version,
        })
    }
}

async fn info(link: &mut Link) -> Fact<Info> {
    let command = ["INFO"];
    match link.ask(&command).await {
        Ok(answer) => fact(answer, &command).then(|reply| text(&reply).map(Info::read), "anything by INFO"),
        Err(error) => Fact::Unknown(no_answer_reason(&error)),
    }
}

/// Reads a fact from INFO.
fn from_info<T>(info: &Fact<Info>, read: impl FnOnce(&Info) -> Option<T>, what: &str) -> Fact<T> {
    match info {
        Fact::Known(info) => match read(info) {
            Some(value) => Fact::Known(value),
            None => Fact::Unknown(format!("INFO does not say {what}")),
        },
        Fact::Unknown(why) => Fact::Unknown(why.clone()),
    }
}

/// Reads the version from INFO, or else from `HELLO`, which every user may send.
fn version(info: &Fact<Info>, product: Option<&String>, hello_version: Option<&String>) -> Fact<Version> {
    let by_info = info.known().and_then(|info| {
        // Other products also report the Redis version that they are compatible with.
        let fields = [
            ("steadlock_version", Product::Steadlock),
            ("valkey_version", Product::Valkey),
            ("redis_version", Product::Redis),
        ];
        let mut versions = fields
            .iter()
            .filter_map(|(field, product)| Some((*product, info.text(field)?)));
        let (product, text) = versions.next()?;
        Version::parse(product, text)
    });
    let by_hello = || {
        let is_valkey = product.is_some_and(|product| product == "valkey");
        let product = if is_valkey { Product::Valkey } else { Product::Redis };
        Version::parse(product, hello_version?)
    };
    match by_info.or_else(by_hello) {
        Some(version) => Fact::Known(version),
        None => Fact::Unknown("the server does not say its version".into()),
    }
}

fn connections(info: &Fact<Info>, settings: &Settings) -> Fact<Connections> {
    let most = match settings.number("maxclients") {
        Fact::Known(most) => Some(most),
        Fact::Unknown(_) => info.known().and_then(|info| info.number("maxclients")),
    };
    let read = |info: &Info| {
        Some(Connections {
            open: info.number("connected_clients")?,
            most: most?,
        })
    };
    from_info(info, read, "how many clients it takes")
}

/// Returns whether the server accepts a user without a password from other machines.
fn from_network(settings: &Settings, version: &Fact<Version>) -> Fact<bool> {
    let (Fact::Known(bind), Fact::Known(protected)) = (settings.text("bind"), settings.text("protected-mode")) else {
        return Fact::Unknown("CONFIG GET is refused".into());
    };
    // Before 7.0 a `bind` address turned the protected mode off.
    let mode_applies = bind.is_empty() || version.is_known_and(|version| version.number.0 >= 7);
    let is_protected = protected == "yes" && mode_applies;
    Fact::Known(!is_loopback_only(&bind) && !is_protected)
}

/// The settings that were requested, by name.
struct Settings(Vec<(&'static str, Fact<String>)>);

const SETTINGS: &[&str] = &[
    "save",
    "appendfsync",
    "min-replicas-to-write",
    "timeout",
    "client-output-buffer-limit",
    "lua-time-limit",
    "maxclients",
    "bind",
    "protected-mode",
];
const CLUSTER_SETTINGS: &[&str] = &["cluster-require-full-coverage", "cluster-node-timeout"];

impl Settings {
    async fn read(link: &mut Link, is_node: bool) -> Self {
        let names = SETTINGS.iter().chain(if is_node { CLUSTER_SETTINGS } else { &[] });
        let mut all = Vec::new();
        for name in names.copied() {
            let command = ["CONFIG", "GET", name];
            let answer = match link.ask(&command).await {
                Ok(answer) => fact(answer, &command),
                Err(error) => Fact::Unknown(no_answer_reason(&error)),
            };
            let read = |reply| map(&reply).remove(name);
            let value = match answer {
                Fact::Known(reply) => match read(reply) {
                    Some(value) => Fact::Known(value),
                    None => Fact::Unknown("the server has no such setting".into()),
                },
                Fact::Unknown(why) => Fact::Unknown(why),
            };
            all.push((name, value));
        }
        Self(all)
    }

    fn text(&self, name: &str) -> Fact<String> {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => value.clone(),
            None => Fact::Unknown("it was not asked for".into()),
        }
    }

    fn number(&self, name: &str) -> Fact<u64> {
        self.text(name).then(|text| text.parse().ok(), name)
    }
}
