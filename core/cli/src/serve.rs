//! `steadlock serve`: serves the embedded store on a port.

#[cfg(feature = "http")]
mod with_http;
#[cfg(not(feature = "http"))]
mod without_http;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;

use steadlock_store::server::Server;
use steadlock_store::{Embedded, Scripts};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

#[cfg(feature = "http")]
use self::with_http::{HttpOptions, HttpSite};
#[cfg(not(feature = "http"))]
use self::without_http::{HttpOptions, HttpSite};
use crate::exit::Exit;
use crate::metrics::{self, Page};
use crate::signals::Signals;

/// Run a development server that ordinary Redis clients can talk to.
///
/// The server keeps everything in memory and forgets it when it stops. It is for
/// development and tests; production runs on Redis or Valkey. SIGTERM and SIGINT
/// stop it at once. Once it listens it prints one line to standard output:
///
///     steadlock: listening on redis://127.0.0.1:6390
///
/// Clients cannot take all of the machine: scripts end after 100 ms of CPU time
/// (BUSY), keys and values may take 96 MB (OOM), and the whole process stays below
/// 512 MB.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Serve {
    /// The port to listen on; 0 chooses a free one.
    #[arg(long, default_value_t = 6390)]
    port: u16,
    /// The address to listen on. Addresses other than loopback admit the whole network, and need --password-file or
    /// --insecure.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// A file with the password that clients must give. A line break at its end is ignored.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Admit the whole network without a password.
    #[arg(long)]
    insecure: bool,
    /// The scripts that clients can send with EVAL and SCRIPT LOAD: `own`, those of this version of Steadlock, or `any`
    /// [default: `any` if no other machine reaches the server, otherwise `own`].
    ///
    /// A script can hang or crash the server, because nothing ends a single call of Lua's string functions.
    #[arg(long, value_name = "WHICH", value_enum)]
    scripts: Option<AcceptedScripts>,
    /// Answer GET /metrics for Prometheus on this port of loopback, or at this address and port; 0 chooses a free port.
    /// Anybody who reaches it may read the metrics, which contain numbers but no names.
    ///
    /// A second line of standard output has the address.
    #[arg(long, value_name = "PORT|ADDRESS", value_parser = metrics::parse_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    http: HttpOptions,
}

/// The scripts that clients can send.
#[derive(Clone, Copy, clap::ValueEnum)]
enum AcceptedScripts {
    Own,
    Any,
}

/// The listeners other than the one for Redis clients, before they listen.
struct OtherListeners {
    /// The address of the page for Prometheus.
    metrics: Option<SocketAddr>,
    http: Option<HttpSite>,
}

/// A listener other than the one for Redis clients.
struct Listener {
    /// The purpose and the URL, such as `metrics on http://127.0.0.1:9465/metrics`.
    announcement: String,
    serve: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The address at which a listener cannot listen, and the cause.
type BindError = (SocketAddr, std::io::Error);

impl Serve {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let password = PASSWORD.read(self.password_file.as_deref())?;
        let token = self.http.read_token()?.or_else(|| password.clone());
        if !self.insecure {
            PASSWORD.require(password.as_deref(), self.bind)?;
            self.http.require_token(token.as_deref())?;
        }
        let others = OtherListeners {
            metrics: self.metrics,
            http: self.http.site(token)?,
        };
        // Signals must be caught before the address is printed: a program that reads the address may stop the server at
        // once.
        let mut signals = Signals::listen()?;
        let address = SocketAddr::new(self.bind, self.port);
        let store = Embedded::served(self.scripts());
        let (address, announcements) = serve_on_a_thread(address, password, store, others).await?;
        eprintln!(
            "steadlock {}: a development server. It keeps nothing on disk and has no replica;\n\
             steadlock: for production use Redis (https://redis.io) or Valkey (https://valkey.io).",
            env!("CARGO_PKG_VERSION")
        );
        // Standard output can be closed, which must not end the server.
        let _ = writeln!(std::io::stdout(), "steadlock: listening on redis://{address}");
        for announcement in announcements {
            let _ = writeln!(std::io::stdout(), "steadlock: {announcement}");
        }
        signals.next().await;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns which scripts clients can send. Without `--scripts`, only a server that no other machine reaches runs
    /// every script.
    fn scripts(&self) -> Scripts {
        let is_local = is_loopback(self.bind) && self.http.ip().is_none_or(is_loopback);
        match self.scripts {
            Some(AcceptedScripts::Any) => Scripts::Any,
            Some(AcceptedScripts::Own) => Scripts::Own,
            None if is_local => Scripts::Any,
            None => Scripts::Own,
        }
    }
}

/// Returns whether only this machine can reach an address. All machines can reach the wildcards 0.0.0.0 and ::.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Raises the limit on open files to the system's maximum, because each client counts as an open file. Returns the
/// limit.
#[cfg(unix)]
fn raise_open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If the system refuses, the server accepts fewer clients.
    let _ = setrlimit(Resource::Nofile, raised);
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
const fn raise_open_files() -> usize {
    usize::MAX
}

/// Starts a thread that listens, and serves until the process ends. Once it listens, returns the address for Redis
/// clients, and the announcements of the other listeners. The server has its own thread, because a script that hangs
/// must not keep signals from ending the process.
async fn serve_on_a_thread(
    address: SocketAddr,
    password: Option<Vec<u8>>,
    store: Embedded,
    others: OtherListeners,
) -> Result<(SocketAddr, Vec<String>), Exit> {
    let (sender, receiver) = oneshot::channel();
    let serve = move || {
        let bound = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| (address, error))
            .and_then(|runtime| {
                let bound = runtime.block_on(bind(address, password, store, others))?;
                Ok((runtime, bound))
            });
        match bound {
            Ok((runtime, (server, listeners))) => {
                server.set_open_files(raise_open_files());
                let announcements = listeners.iter().map(|one| one.announcement.clone()).collect();
                // The send fails only if the receiver is gone, and then the address is not needed.
                let _ = sender.send(Ok((server.local_addr(), announcements)));
                for listener in listeners {
                    drop(runtime.spawn(listener.serve));
                }
                runtime.block_on(server.serve(std::future::pending()));
            }
            Err(error) => drop(sender.send(Err(error))),
        }
    };
    let refuse = |address: SocketAddr, cause: String| {
        Exit::new(Exit::UNAVAILABLE, format!("cannot listen on {address}: {cause}"))
    };
    std::thread::Builder::new()
        .name("steadlock-serve".into())
        .stack_size(STACK_BYTES)
        .spawn(serve)
        .map_err(|error| refuse(address, error.to_string()))?;
    match receiver.await {
        Ok(bound) => bound.map_err(|(address, error)| refuse(address, error.to_string())),
        Err(_) => Err(refuse(address, "the server's thread ended".into())),
    }
}

/// Binds the server and the other listeners.
async fn bind(
    address: SocketAddr,
    password: Option<Vec<u8>>,
    store: Embedded,
    others: OtherListeners,
) -> Result<(Server, Vec<Listener>), BindError> {
    let server = Server::bind(address, password, store)
        .await
        .map_err(|error| (address, error))?;
    let mut listeners = Vec::new();
    if let Some(address) = others.metrics {
        let metrics = server.metrics();
        let failed = |error| (address, error);
        let page = Page::bind(address, move || metrics.text()).await.map_err(failed)?;
        listeners.push(Listener {
            announcement: format!("metrics on http://{}/metrics", page.address().map_err(failed)?),
            serve: Box::pin(page.serve()),
        });
    }
    if let Some(site) = others.http {
        listeners.push(site.bind(&server).await?);
    }
    Ok((server, listeners))
}

/// The size of the stack of the server's thread. A script can nest a few hundred calls into the store, each with stack
/// frames of Lua and of the store.
const STACK_BYTES: usize = 16 * 1024 * 1024;

const MAX_SECRET_BYTES: usize = 8 * 1024;

/// A secret that clients must give.
struct Secret {
    /// The option for the file with the secret.
    option: &'static str,
    name: &'static str,
}

const PASSWORD: Secret = Secret {
    option: "--password-file",
    name: "password",
};

impl Secret {
    /// Reads the secret from its file; `None` if no file is given.
    fn read(&self, file: Option<&Path>) -> Result<Option<Vec<u8>>, Exit> {
        let Some(file) = file else { return Ok(None) };
        let Self { option, name } = self;
        // The message does not repeat the path. A user may have given the secret itself instead of a path, and a secret
        // must not get into a log.
        let refuse = |why: String| Exit::new(Exit::CONFIG, format!("the file of {option}: {why}"));
        let unreadable = |error: std::io::Error| refuse(format!("{error}; give the path of a file with the {name}"));
        let mut secret = Vec::new();
        // A secret of `MAX_SECRET_BYTES` still fits into a request before the login.
        let limit = u64::try_from(MAX_SECRET_BYTES).unwrap_or(u64::MAX);
        File::open(file)
            .and_then(|file| file.take(limit + 1).read_to_end(&mut secret))
            .map_err(unreadable)?;
        if secret.len() > MAX_SECRET_BYTES {
            return Err(refuse(format!(
                "it has more than {MAX_SECRET_BYTES} bytes; is it the right file?"
            )));
        }
        if secret.ends_with(b"\n") {
            secret.pop();
            if secret.ends_with(b"\r") {
                secret.pop();
            }
        }
        if secret.is_empty() {
            return Err(refuse(format!("it is empty; write the {name} into it")));
        }
        Ok(Some(secret))
    }

    /// Refuses an address that the network can reach, unless there is a secret.
    fn require(&self, secret: Option<&[u8]>, address: IpAddr) -> Result<(), Exit> {
        if is_loopback(address) || secret.is_some() {
            return Ok(());
        }
        let Self { option, name } = self;
        Err(Exit::new(
            Exit::CONFIG,
            format!(
                "anybody who reaches {address} could use the server; give it a {name} with {option} FILE, or pass \
                 --insecure"
            ),
        ))
    }
}
