//! The reasons for a missing connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use steadlock_protocol::{Cause, Error, ErrorKind, Operation, brief};
use steadlock_resp::replies::ServerError;

use super::address::Address;

/// The reason for a missing connection.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: ErrorKind,
    cause: Cause,
    /// Whether the cause repeats words of the server.
    quotes: bool,
    /// Whether the failure is an answer of the server itself. If so, the server is running, and the address is right.
    is_answer: bool,
    /// Whether the server was the right primary and no longer is.
    is_demotion: bool,
}

const WITHOUT_TLS: &str = "if the server has none, the URL begins with redis, not with rediss (or valkey, not valkeys)";

/// The number of failures that a message lists.
const SHOWN: usize = 3;
/// A text that contains the first characters of a secret, up to this many, counts as repeating the secret.
const SHOWN_START: usize = 8;

impl Failure {
    pub(super) fn unavailable(cause: impl Into<Cause>) -> Self {
        Self {
            kind: ErrorKind::Unavailable,
            cause: cause.into(),
            quotes: false,
            is_answer: false,
            is_demotion: false,
        }
    }

    pub(super) fn misconfigured(cause: impl Into<Cause>) -> Self {
        Self {
            kind: ErrorKind::Misconfigured,
            ..Self::unavailable(cause)
        }
    }

    /// Returns the failure after the program closed the descriptors of the client's connections.
    pub(super) fn descriptors_closed() -> Self {
        Self::unavailable("the program closed the descriptors of the client's connections")
    }

    /// Joins the causes of the first few failures.
    pub(super) fn joined<'a>(failures: impl Iterator<Item = &'a Self> + Clone) -> Cause {
        Cause::joined(failures.map(Self::cause), SHOWN)
    }

    pub(super) fn replica() -> Self {
        Self::misconfigured("the server is a replica, which cannot grant locks (READONLY)")
            .with_advice("connect to its primary")
    }

    /// Returns the failure for the error that a sentinel answered to the login.
    pub(super) fn of_sentinel(error: ServerError) -> Self {
        match error.code.as_str() {
            "WRONGPASS" => Self::misconfigured("the sentinel refused the user name or password")
                .with_advice("correct sentinel_user and sentinel_password in the URL"),
            "NOAUTH" => Self::misconfigured("the sentinel wants a password")
                .with_advice("put ?sentinel_password=… into the URL; the password before the @ is that of the servers"),
            _ => error.into(),
        }
    }

    /// Returns the failure of a TLS handshake without an answer in time. A server without TLS does not answer a
    /// handshake, because it waits for the end of a line.
    pub(super) fn tls_unanswered(limit: Duration) -> Self {
        Self::unavailable(format!("no answer to TLS within {}", brief(limit))).with_advice(WITHOUT_TLS)
    }

    /// Returns the failure of a TLS handshake with an answer that is not TLS.
    pub(super) fn tls_unknown() -> Self {
        Self::unavailable("the server's answer is not TLS").with_advice(WITHOUT_TLS)
    }

    /// Adds advice for a server that gave no valid answer without TLS.
    pub(super) fn before_an_answer(self) -> Self {
        self.with_advice("if the server wants TLS, the URL begins with rediss or valkeys")
    }

    /// Removes the advice from a failure that may pass. The server has answered before, so whether it uses TLS is no
    /// longer a question.
    pub(super) fn of_known_server(mut self) -> Self {
        if !self.is_lasting() {
            self.cause = Cause::new(self.cause.text());
        }
        self
    }

    /// Returns the failure if the sentinels that answered watch other services.
    pub(super) fn unknown_service(service: &str) -> Self {
        Self::misconfigured(format!("the sentinels know no service '{service}'"))
            .with_advice("give the name that `sentinel monitor` has in their settings")
    }

    pub(super) fn too_old(version: &str) -> Self {
        Self::misconfigured(format!("the server's version is {version}"))
            .with_advice("Redis 6.2 or Valkey 7.2 is the oldest that works")
    }

    /// Returns the failure of a server that was a primary when the connection was made and now says that it is a
    /// replica.
    pub(super) fn demoted(reason: &str) -> Self {
        Self {
            is_demotion: true,
            ..Self::unavailable(format!(
                "the server is a replica now, and no primary any more ({reason})"
            ))
        }
    }

    /// Returns the failure if another server now has the address.
    pub(super) fn moved() -> Self {
        Self {
            is_demotion: true,
            ..Self::unavailable("another server is at the address now")
        }
    }

    /// Adds advice.
    pub(super) fn with_advice(mut self, advice: &str) -> Self {
        self.cause = self.cause.with_advice(advice);
        self
    }

    /// Adds the address.
    pub(super) fn with_address(mut self, address: &Address) -> Self {
        self.cause = self.cause.reworded(|text| format!("{address}: {text}"));
        self
    }

    /// Adds the address that failed, because the host has several.
    pub(super) fn with_socket_address(mut self, address: SocketAddr) -> Self {
        self.cause = self.cause.reworded(|text| format!("{address}: {text}"));
        self
    }

    /// Adds the address that the `address_map` gave for the announced one.
    pub(super) fn with_mapped_address(mut self, address: &Address) -> Self {
        self.cause = self.cause.reworded(|text| format!("mapped to {address}: {text}"));
        self
    }

    /// Whether the server is no longer the right primary.
    pub(super) const fn is_demotion(&self) -> bool {
        self.is_demotion
    }

    /// Marks the failure as an answer of the server itself.
    const fn marked_as_answer(mut self) -> Self {
        self.is_answer = true;
        self
    }

    /// Marks the cause as one that repeats words of the server.
    fn quoting(mut self) -> Self {
        self.quotes = true;
        self
    }

    /// Removes the server's words if they repeat one of the secrets. A server that does not know a command may repeat
    /// the command's arguments in its answer, cut off somewhere.
    pub(super) fn without_secrets(mut self, secrets: &[String]) -> Self {
        if !self.quotes {
            return self;
        }
        for user in secrets {
            // Errors about rights that name the user do so in these words, and stay useful without the name.
            self.cause = self
                .cause
                .reworded(|text| text.replace(&format!("User {user} has"), "it has"));
        }
        let repeats = |secret: &String| {
            let start: String = secret.chars().take(SHOWN_START).collect();
            !start.is_empty() && self.cause.text().contains(&start)
        };
        if secrets.iter().any(repeats) {
            self.cause =
                Cause::new("the server's answer is an error that repeats the user name or password, and is not shown")
                    .with_advice("is it Redis or Valkey?");
        }
        self
    }

    /// Whether another attempt can succeed, and the failure repeats no words of the server.
    pub(super) fn is_without_answer(&self) -> bool {
        !self.is_lasting() && !self.quotes
    }

    /// Whether another attempt would fail in the same way.
    pub(super) fn is_lasting(&self) -> bool {
        self.kind != ErrorKind::Unavailable
    }

    pub(super) const fn cause(&self) -> &Cause {
        &self.cause
    }

    pub(super) fn into_error(self, node: &str) -> Error {
        let has_advice = self.cause.advice().is_some();
        let error = Error::caused(self.kind, Operation::Connect, self.cause).with_node(node);
        match self.kind {
            ErrorKind::Unavailable if self.is_answer && has_advice => error,
            ErrorKind::Unavailable if self.is_answer => error.with_advice("try again when it serves"),
            ErrorKind::Unavailable => error.with_advice("is the server running, and the address right?"),
            _ => error,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// Returns the failure for a server's error that is no reply to a call.
impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error.code.as_str() {
            "WRONGPASS" => {
                Self::misconfigured("the server refused the user name or password").with_advice("correct the URL")
            }
            "NOAUTH" => Self::misconfigured("the server wants a password").with_advice("put one into the URL"),
            "NOPERM" => Self::misconfigured(format!("the server's user lacks a permission ({})", error.message))
                .with_advice("SECURITY.md has the rights that locks need")
                .quoting(),
            // Texts are compared because these errors have no code of their own. The first of them is not lasting,
            // because other clients disconnect.
            "ERR" if error.message.starts_with("max number of clients") => {
                Self::unavailable("the server has as many connections as it takes (max number of clients reached)")
                    .with_advice("close clients that are not needed, or raise the server's maxclients")
                    .marked_as_answer()
            }
            "ERR" if error.message.starts_with("unknown command `HELLO`") => Self::too_old("below 6"),
            "ERR" => Self::misconfigured(format!("the server refused the connection: {error}")).quoting(),
            _ => Self::unavailable(error.to_string()).quoting().marked_as_answer(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_error(code: &str, message: &str) -> Failure {
        Failure::from(ServerError {
            code: code.into(),
            message: message.into(),
        })
    }

    #[test]
    fn an_error_text_of_the_server_is_hidden_if_it_repeats_the_password() {
        let secrets = ["sesame-open-and-more".to_owned()];
        let echo = server_error("ERR", "wrong arguments: '3' 'AUTH' 'default' 'sesame-op").without_secrets(&secrets);
        assert!(!echo.cause().text().contains("sesame"), "{echo}");
        let loading = server_error("LOADING", "come back later").without_secrets(&secrets);
        assert_eq!(loading.cause().text(), "LOADING come back later");
        let ours = Failure::unavailable("no answer within 1s").without_secrets(&["no answer".into()]);
        assert_eq!(ours.cause().text(), "no answer within 1s");
    }

    #[test]
    fn a_server_that_takes_no_more_connections_may_take_one_later() {
        let failure = server_error("ERR", "max number of clients reached");
        assert!(!failure.is_lasting(), "{failure}");
        assert!(
            failure.cause().text().contains("max number of clients reached"),
            "{failure}"
        );
        let error = failure.into_error("redis://host:1").message();
        assert!(error.ends_with("raise the server's maxclients"), "{error}");
        let error = server_error("LOADING", "Redis is loading")
            .into_error("redis://host:1")
            .message();
        assert!(error.ends_with("; try again when it serves"), "{error}");
        let error = Failure::unavailable("refused").into_error("redis://host:1").message();
        assert!(
            error.ends_with("is the server running, and the address right?"),
            "{error}"
        );
    }

    #[test]
    fn a_server_that_does_not_know_the_greeting_is_too_old() {
        let failure = server_error("ERR", "unknown command `HELLO`, with args beginning with: `3`, ");
        assert!(
            failure.is_lasting() && failure.cause().text().contains("below 6"),
            "{failure}"
        );
    }
}
