//! One connection for the commands of a tool. It goes to the server where a client's connection would go. Unlike a
//! connection for locks, it never retries, and accepts a replica if there is no primary.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{CallError, Error, Instant, Operation, Reply, brief};
use steadlock_resp::commands;
use steadlock_resp::replies::{Frame, ServerError};

use super::attempt::Purpose;
use super::connect::Connector;
use super::failure::Failure;
use super::outage::Outage;
use super::server_kind::ServerKind;
use super::wire::Wire;
use crate::settings::Settings;
use crate::sleep::timeout;
use crate::target::{Scheme, Target};

/// One server. The first command connects.
pub(crate) struct Link {
    connector: Arc<Connector>,
    /// The response timeout of a command.
    response_timeout: Duration,
    purpose: Purpose,
    /// Whether any server is accepted if the address leads to several.
    accepts_any: bool,
    /// The reason why the address does not lead to one server, if the last connection went to one of several.
    ambiguity: Option<String>,
    wire: Option<Wire>,
}

impl Link {
    /// Creates a link to the server of a URL.
    pub(super) fn configured(settings: &Settings, target: &Target, server_kind: ServerKind) -> Self {
        let connector = Connector::new(settings, target, server_kind, None);
        Self::with(settings, connector, server_kind)
    }

    /// Creates a link to a server that the URL `origin` names or that other servers announce.
    pub(super) fn of(settings: &Settings, origin: &Target, target: &Target, server_kind: ServerKind) -> Self {
        match &target.scheme {
            Scheme::Tcp { host, port, .. } if !origin.names_address(host, *port) => {
                Self::announced(settings, target, server_kind)
            }
            _ => Self::configured(settings, target, server_kind),
        }
    }

    /// Creates a link to a server that others announce.
    pub(super) fn announced(settings: &Settings, target: &Target, server_kind: ServerKind) -> Self {
        let connector = Connector::announced(settings, target, server_kind);
        Self::with(settings, connector, server_kind)
    }

    fn with(settings: &Settings, connector: Connector, server_kind: ServerKind) -> Self {
        Self {
            connector: Arc::new(connector),
            response_timeout: settings.command_timeout,
            purpose: match server_kind {
                ServerKind::Sentinel => Purpose::Topology,
                ServerKind::Standalone | ServerKind::ClusterNode => Purpose::Tool,
            },
            accepts_any: false,
            ambiguity: None,
            wire: None,
        }
    }

    /// Returns the name of the server in messages.
    pub(crate) fn address(&self) -> &str {
        &self.connector.node
    }

    /// Accepts any server from now on if the address leads to several.
    pub(crate) const fn accept_any(&mut self) {
        self.accepts_any = true;
    }

    /// Returns why the address does not lead to one server, if the last connection went to one of several.
    pub(crate) fn ambiguity(&self) -> Option<&str> {
        self.ambiguity.as_deref()
    }

    /// Sends all commands in one batch, and returns the result of each.
    pub(crate) async fn send<C: AsRef<[P]>, P: AsRef<[u8]>>(
        &mut self,
        commands: &[C],
    ) -> Result<Vec<Result<Reply, CallError>>, Error> {
        // The connection is put back only after all replies: if this future is dropped, late replies must not reach the
        // next caller.
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => {
                let connected = self.connect().await?;
                self.ambiguity = connected.ambiguity;
                connected.wire
            }
        };
        for command in commands {
            commands::write(wire.out(), command.as_ref().iter().map(AsRef::as_ref));
        }
        wire.write();
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let is_pushed = command.as_ref().first().is_some_and(|word| is_pushed(word.as_ref()));
            let answer = timeout(self.response_timeout, answer(&mut wire, is_pushed)).await;
            let timed_out = || {
                Err(Failure::unavailable(format!(
                    "no answer within {}",
                    brief(self.response_timeout)
                )))
            };
            match answer.unwrap_or_else(timed_out) {
                Ok(Ok(reply)) => answers.push(Ok(reply)),
                Ok(Err(error)) => answers.push(Err(self.connector.without_secrets(&error))),
                Err(failure) => {
                    let error = CallError::Disconnected(failure.cause().clone());
                    return Err(error.to_error(Operation::Inspect).with_node(self.address()));
                }
            }
        }
        self.wire = Some(wire);
        Ok(answers)
    }

    /// Connects.
    ///
    /// Borrows `self` only for the call, because a future that holds `&self` could not move between threads.
    fn connect(&mut self) -> impl Future<Output = Result<Connected, Error>> + Send + use<> {
        let connector = Arc::clone(&self.connector);
        let (purpose, accepts_any) = (self.purpose, self.accepts_any);
        async move {
            let open = |purpose| connector.open(purpose, &Outage::default(), Instant::ZERO);
            let failure = match open(purpose).await {
                Ok(wire) => return Ok(Connected { wire, ambiguity: None }),
                Err(failure) => failure,
            };
            // A failure of another sort, such as a wrong password, makes the second attempt fail as well.
            if accepts_any
                && failure.is_lasting()
                && let Ok(wire) = open(Purpose::Topology).await
            {
                return Ok(Connected {
                    wire,
                    ambiguity: Some(failure.cause().text().to_owned()),
                });
            }
            Err(failure.into_error(&connector.node))
        }
    }
}

struct Connected {
    wire: Wire,
    /// The reason why the address does not lead to one server, if the connection goes to one of several.
    ambiguity: Option<String>,
}

/// Returns the next reply, or the push that answers a command such as `SUBSCRIBE`.
async fn answer(wire: &mut Wire, is_pushed: bool) -> Result<Result<Reply, ServerError>, Failure> {
    if !is_pushed {
        return wire.reply().await;
    }
    match poll_fn(|context| wire.poll(context)).await? {
        Frame::Reply(reply) => Ok(reply),
        Frame::Push(parts) => Ok(Ok(Reply::Array(parts))),
    }
}

/// Whether the server answers this command by a push.
fn is_pushed(command: &[u8]) -> bool {
    let known = ["SUBSCRIBE", "UNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE"];
    known.iter().any(|known| command.eq_ignore_ascii_case(known.as_bytes()))
}
