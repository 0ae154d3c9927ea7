//! Opening a connection: address, credentials, TLS, and whether the server will do.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_protocol::{Error, ErrorKind, Instant, Operation, Script};
use redis::aio::PubSub;
use redis::aio::{MultiplexedConnection, PubSubSink, PubSubStream};
use redis::io::tcp::{TcpSettings, socket2};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, PushInfo, RedisConnectionInfo,
    RedisError, Value,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::outage::{self, Limits, Outage};
use super::role::{self, Greeting, text};
use super::tls::{TlsDialer, TlsOutcome};
use crate::settings::Settings;
use crate::target::{Scheme, Target};

/// Something that is on its way.
pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Opens connections to one server.
pub(super) struct Connector {
    dialer: Dialer,
    /// What no message may repeat.
    secrets: Vec<String>,
    /// The server as messages name it.
    pub(super) node: String,
    pub(super) limits: Limits,
    peers: Option<Peers>,
}

/// How connections begin.
enum Dialer {
    /// Without TLS the crate does it.
    Plain(Client),
    Tls(TlsDialer, RedisConnectionInfo),
}

/// What makes sure that several primaries are several servers.
#[derive(Clone, Debug)]
pub(in crate::transport) struct Peers {
    /// The run id of each server, by its node.
    run_ids: Arc<Mutex<BTreeMap<usize, String>>>,
    node: usize,
}

impl Peers {
    /// One for each of `count` primaries.
    pub(in crate::transport) fn new(count: usize) -> Vec<Self> {
        let run_ids = Arc::default();
        let peer = |node| Self {
            run_ids: Arc::clone(&run_ids),
            node,
        };
        (0..count).map(peer).collect()
    }

    /// Notes who the server is, by what `INFO server` says.
    fn check(&self, info: &Value) -> Result<(), Failure> {
        let run_id = match info {
            Value::VerbatimString { text, .. } => Some(text.as_str()),
            other => text(other),
        }
        .and_then(|info| info.lines().find_map(|line| line.strip_prefix("run_id:")));
        let Some(run_id) = run_id else {
            return Err(Failure::misconfigured(
                "the server does not say its run id, by which primaries are told apart",
            ));
        };
        let mut run_ids = self.run_ids.lock().unwrap_or_else(PoisonError::into_inner);
        if run_ids
            .iter()
            .any(|(node, known)| *node != self.node && known == run_id)
        {
            return Err(Failure::misconfigured(
                "it is the same server as another one of the primaries; a majority needs independent ones",
            ));
        }
        run_ids.insert(self.node, run_id.to_owned());
        Ok(())
    }
}

/// A connection for script calls.
pub(super) struct Calls {
    pub(super) connection: MultiplexedConnection,
    /// Hears when the connection closes.
    pub(super) news: UnboundedReceiver<PushInfo>,
}

/// A connection for subscriptions.
pub(super) struct Listening {
    pub(super) sink: PubSubSink,
    pub(super) messages: PubSubStream,
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: ErrorKind,
    cause: String,
    /// The cause has words that the server chose.
    quotes: bool,
    /// The server was a primary and is none any more.
    is_demotion: bool,
}

/// Batches that may be on their way to the connection before one waits.
const BATCHES: usize = 1_024;
/// Letters of a secret by which its repetition is noticed.
const SHOWN_START: usize = 8;
/// The oldest server whose scripts may do what ours do.
const OLDEST: (u32, u32) = (6, 2);

impl Connector {
    pub(super) fn new(settings: &Settings, target: &Target, peers: Option<Peers>) -> Result<Self, Error> {
        let node = target.to_string();
        let dialer =
            dialer(settings, target).map_err(|error| Failure::misconfigured(error.to_string()).into_error(&node))?;
        Ok(Self {
            dialer,
            secrets: [&target.username, &target.password]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            node,
            limits: Limits::new(settings.connect_timeout, settings.lease.get()),
            peers,
        })
    }

    /// Opens a connection for calls.
    pub(super) fn calls(self: &Arc<Self>, outage: &Outage, now: Instant) -> Boxed<Result<Calls, Failure>> {
        let this = Arc::clone(self);
        let (pause, limit, is_first) = (outage.pause(), self.limits.of(outage, now), outage.is_first_try());
        Box::pin(async move {
            outage::wait(pause).await;
            in_time(limit, &this.secrets, this.open_calls(is_first)).await
        })
    }

    /// Opens a connection for subscriptions.
    pub(super) fn listening(self: &Arc<Self>, outage: &Outage, now: Instant) -> Boxed<Result<Listening, Failure>> {
        let this = Arc::clone(self);
        let (pause, limit) = (outage.pause(), self.limits.of(outage, now));
        Box::pin(async move {
            outage::wait(pause).await;
            in_time(limit, &this.secrets, this.open_listening()).await
        })
    }

    /// Why there is no connection to it, in words.
    pub(super) fn cause(&self, failure: &Failure) -> String {
        format!("{}: {}", self.node, failure.cause())
    }

    async fn open_calls(&self, is_first: bool) -> Result<Calls, Failure> {
        let (told, news) = unbounded_channel();
        // The session owns the timeouts of calls; `in_time` owns this one.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(BATCHES)
            .set_push_sender(told);
        match &self.dialer {
            Dialer::Plain(client) => {
                let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Calls {
                    connection: self.greet(connection, is_first).await?,
                    news,
                })
            }
            Dialer::Tls(dialer, login) => {
                let (stream, outcome) = dialer.connect().await?;
                let (connection, driver) = MultiplexedConnection::new_with_config(login, stream, config)
                    .await
                    .map_err(|error| explained(&outcome, error))?;
                tokio::spawn(driver);
                let connection = self
                    .greet(connection, is_first)
                    .await
                    .map_err(|failure| outcome.failure(failure))?;
                Ok(Calls { connection, news })
            }
        }
    }

    async fn open_listening(&self) -> Result<Listening, Failure> {
        let connection = match &self.dialer {
            Dialer::Plain(client) => client.get_async_pubsub().await?,
            Dialer::Tls(dialer, login) => {
                let (stream, outcome) = dialer.connect().await?;
                PubSub::new(login, stream)
                    .await
                    .map_err(|error| explained(&outcome, error))?
            }
        };
        let (sink, messages) = connection.split();
        Ok(Listening { sink, messages })
    }

    /// Makes sure that the server will do. The first time, also that its user may load
    /// scripts: else that would show when one is needed.
    async fn greet(
        &self,
        mut connection: MultiplexedConnection,
        is_first: bool,
    ) -> Result<MultiplexedConnection, Failure> {
        let mut greeting = redis::pipe();
        greeting.add_command(role::question());
        if self.peers.is_some() {
            greeting.cmd("INFO").arg("server");
        }
        let shortest = Script::ALL.iter().min_by_key(|script| script.text().len());
        if let Some(script) = shortest.filter(|_| is_first) {
            greeting.cmd("SCRIPT").arg("LOAD").arg(script.text());
        }
        let mut replies = connection
            .send_packed_commands(&greeting, 0, greeting.len())
            .await?
            .into_iter();
        match replies.next() {
            Some(Value::ServerError(error)) => return Err(error.into()),
            Some(hello) => check_server(&hello)?,
            None => {}
        }
        if let Some(peers) = &self.peers {
            match replies.next() {
                Some(Value::ServerError(error)) => return Err(error.into()),
                info => peers.check(&info.unwrap_or(Value::Nil))?,
            }
        }
        for reply in replies {
            if let Value::ServerError(error) = reply {
                return Err(error.into());
            }
        }
        Ok(connection)
    }
}

async fn in_time<T>(
    limit: Duration,
    secrets: &[String],
    open: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, open).await {
        Ok(result) => result.map_err(|failure| failure.without(secrets)),
        Err(_) => Err(Failure::unavailable(format!("no answer within {limit:?}"))),
    }
}

fn explained(outcome: &TlsOutcome, error: RedisError) -> Failure {
    outcome.failure(error.into())
}

impl Failure {
    pub(super) fn unavailable(cause: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unavailable,
            cause: cause.into(),
            quotes: false,
            is_demotion: false,
        }
    }

    pub(super) fn misconfigured(cause: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Misconfigured,
            cause: cause.into(),
            quotes: false,
            is_demotion: false,
        }
    }

    /// The server is a replica.
    fn replica() -> Self {
        Self::misconfigured("the server is a replica, which cannot grant locks (READONLY); connect to its primary")
    }

    /// The server was a primary when it was connected to, and says that it is none any more.
    pub(super) fn demoted(said: &str) -> Self {
        Self {
            is_demotion: true,
            ..Self::unavailable(format!("the server is a replica now, and no primary any more ({said})"))
        }
    }

    /// Whether the server is no primary any more.
    pub(super) const fn is_demotion(&self) -> bool {
        self.is_demotion
    }

    /// The same with words that the server chose.
    fn quoting(mut self) -> Self {
        self.quotes = true;
        self
    }

    /// The same without the server's words, if they repeat one of the secrets: a server
    /// that does not know a command may answer with its arguments, cut off somewhere.
    fn without(mut self, secrets: &[String]) -> Self {
        if !self.quotes {
            return self;
        }
        for user in secrets {
            // In this place there is always the user's name.
            self.cause = self.cause.replace(&format!("User {user} has"), "it has");
        }
        let repeats = |secret: &String| {
            let start: String = secret.chars().take(SHOWN_START).collect();
            !start.is_empty() && self.cause.contains(&start)
        };
        if secrets.iter().any(repeats) {
            self.cause = "the server's answer is an error that repeats the user name or password, and is not shown; \
                          is it Redis or Valkey?"
                .into();
        }
        self
    }

    /// Whether the server said nothing at all, and another time may.
    pub(super) fn is_without_answer(&self) -> bool {
        !self.is_lasting() && !self.quotes
    }

    /// Whether another try would fail the same way.
    pub(super) fn is_lasting(&self) -> bool {
        self.kind != ErrorKind::Unavailable
    }

    pub(super) fn cause(&self) -> &str {
        &self.cause
    }

    pub(super) fn into_error(self, node: &str) -> Error {
        let advice = match self.kind {
            ErrorKind::Unavailable => "; is the server running, and the address right?",
            _ => "",
        };
        Error::new(self.kind, Operation::Connect, format!("{node}: {}{advice}", self.cause))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        match (error.code(), error.kind()) {
            (Some("WRONGPASS"), _) | (_, redis::ErrorKind::AuthenticationFailed) => {
                Self::misconfigured("the server refused the user name or password; correct the URL")
            }
            (Some("NOAUTH"), _) => Self::misconfigured("the server wants a password; put one into the URL"),
            (Some("NOPERM"), _) => Self::misconfigured(format!(
                "the server's user lacks a permission ({}); see the documentation for the ACL",
                error.detail().unwrap_or("NOPERM")
            ))
            .quoting(),
            (_, redis::ErrorKind::RESP3NotSupported) => Self::too_old("below 6"),
            // A text is compared because this error has no code. It passes when others leave.
            _ if error
                .detail()
                .is_some_and(|detail| detail.starts_with("max number of clients")) =>
            {
                Self::unavailable("max number of clients reached")
            }
            (_, redis::ErrorKind::Server(redis::ServerErrorKind::ResponseError)) => {
                Self::misconfigured(format!("the server refused the connection: {error}")).quoting()
            }
            _ if error.is_io_error() => Self::unavailable(plain(&error)),
            _ => Self::unavailable(plain(&error)).quoting(),
        }
    }
}

impl From<redis::ServerError> for Failure {
    fn from(error: redis::ServerError) -> Self {
        RedisError::from(error).into()
    }
}

impl Failure {
    fn too_old(version: &str) -> Self {
        Self::misconfigured(format!(
            "the server's version is {version}; Redis 6.2 or Valkey 7.2 is the oldest that works"
        ))
    }
}

/// The cause without the crate's own framing.
pub(super) fn plain(error: &RedisError) -> String {
    match error.detail() {
        Some(detail) if error.is_io_error() => detail.to_owned(),
        _ => error.to_string(),
    }
}

/// Whether locks can work with this server, by what it says of itself.
fn check_server(hello: &Value) -> Result<(), Failure> {
    let greeting = Greeting::read(hello);
    let Some(version) = greeting.version else {
        return Err(Failure::misconfigured(
            "the server's greeting has no version; is it Redis or Valkey?",
        ));
    };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return Err(Failure::too_old(version));
    }
    match greeting.mode {
        Some("cluster") => Err(Failure::misconfigured(
            "the server is part of a cluster; clusters come with a later version",
        )),
        Some("sentinel") => Err(Failure::misconfigured(
            "the server is a sentinel; connect to the primary, sentinels come with a later version",
        )),
        _ if greeting.is_replica() => Err(Failure::replica()),
        _ => Ok(()),
    }
}

fn dialer(settings: &Settings, target: &Target) -> Result<Dialer, RedisError> {
    let (keepalive, silence) = keepalive(settings);
    let address = match &target.scheme {
        Scheme::Tcp {
            host,
            port,
            tls: Some(tls),
        } => {
            let dialer = TlsDialer::new(host, *port, tls, keepalive, silence);
            return Ok(Dialer::Tls(dialer, login(target)));
        }
        Scheme::Tcp { host, port, tls: None } => ConnectionAddr::Tcp(host.clone(), *port),
        Scheme::Unix { path } => ConnectionAddr::Unix(path.clone()),
        Scheme::Memory { .. } => unreachable!("memory:// has no connections"),
    };
    let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let tcp = tcp.set_user_timeout(silence);
    let info = address
        .into_connection_info()?
        .set_redis_settings(login(target))
        .set_tcp_settings(tcp);
    Client::open(info).map(Dialer::Plain)
}

/// What a connection says first.
fn login(target: &Target) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default()
        // RESP3, so that a connection that closes while idle says so.
        .set_protocol(ProtocolVersion::RESP3)
        .set_db(target.database)
        .set_lib_name("leasehold", env!("CARGO_PKG_VERSION"));
    if let Some(username) = &target.username {
        login = login.set_username(username);
    }
    if let Some(password) = &target.password {
        login = login.set_password(password);
    }
    login
}

/// A peer that is gone without a word is noticed within a third of a lease.
fn keepalive(settings: &Settings) -> (socket2::TcpKeepalive, Duration) {
    let third = settings.lease.get() / 3;
    let silence = third.clamp(Duration::from_millis(500), Duration::from_secs(20));
    // The kernel counts keepalive in whole seconds.
    let second = Duration::from_secs(1);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time((silence / 3).max(second))
        .with_interval((silence / 3).max(second));
    (keepalive, silence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: &str, mode: &str, role: &str) -> Value {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Value::Map(vec![
            (bulk("server"), bulk("redis")),
            (bulk("version"), bulk(version)),
            (bulk("mode"), bulk(mode)),
            (bulk("role"), bulk(role)),
        ])
    }

    fn refusal(version: &str, mode: &str, role: &str) -> Error {
        check_server(&hello(version, mode, role)).unwrap_err().into_error("h:1")
    }

    #[test]
    fn a_primary_that_is_new_enough_will_do() {
        for version in ["6.2.0", "7.0.15", "8.1.0", "10.0"] {
            assert!(
                check_server(&hello(version, "standalone", "master")).is_ok(),
                "{version}"
            );
        }
    }

    #[test]
    fn a_servers_words_are_withheld_if_they_repeat_the_password() {
        let secrets = ["sesame-open-and-more".to_owned()];
        let said = |words: &str| Failure::unavailable(words).quoting().without(&secrets);
        let echo = said("unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'sesame-op");
        assert!(!echo.cause().contains("sesame"), "{echo}");
        assert_eq!(said("LOADING, come back later").cause(), "LOADING, come back later");
        let ours = Failure::unavailable("no answer within 1s").without(&["no answer".into()]);
        assert_eq!(ours.cause(), "no answer within 1s");
    }

    #[test]
    fn a_server_that_takes_no_more_connections_may_take_one_later() {
        let said = redis::parse_redis_value(b"-ERR max number of clients reached\r\n").unwrap();
        let Value::ServerError(error) = said else {
            panic!("{said:?}");
        };
        let failure = Failure::from(error);
        assert!(!failure.is_lasting(), "{failure}");
        assert_eq!(failure.cause(), "max number of clients reached");
    }

    #[test]
    fn an_old_server_a_replica_a_sentinel_and_a_cluster_are_misconfigured() {
        for error in [
            refusal("6.0.16", "standalone", "master"),
            refusal("5", "standalone", "master"),
            refusal("7.0.15", "standalone", "replica"),
            refusal("7.0.15", "sentinel", "master"),
            refusal("7.0.15", "cluster", "master"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert!(error.message().starts_with("h:1: "), "{error}");
        }
    }
}
