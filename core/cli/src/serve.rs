//! `steadlock serve`: serves the embedded store on a port.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steadlock_store::server::Server;
use steadlock_store::{Embedded, Scripts};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::exit::Exit;
use crate::http::{Guard, Http, Origin, Root, Site};
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
    /// The address to listen on. Addresses other than loopback admit the whole network, and need --password-file.
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
    scripts: Option<Accepted>,
    /// Answer GET /metrics for Prometheus on this port of loopback, or at this address and port; 0 chooses a free port.
    /// Anybody who reaches it may read the metrics, which contain numbers but no names.
    ///
    /// A second line of standard output has the address.
    #[arg(long, value_name = "PORT|ADDRESS", value_parser = metrics::address)]
    metrics: Option<SocketAddr>,
    /// Answer commands over HTTP too, like Upstash's REST API, on this port of loopback, or at this address and port; 0
    /// chooses a free port. Addresses other than loopback need a token.
    ///
    /// POST / accepts a command as a JSON array, POST /pipeline and /multi-exec several commands. GET /get/KEY works as
    /// well, and GET /subscribe/CHANNEL sends messages as events. One more line of standard output has the address.
    #[arg(long, value_name = "PORT|ADDRESS", value_parser = metrics::address)]
    http: Option<SocketAddr>,
    /// A file with the token that clients must give over HTTP: "Authorization: Bearer TOKEN", or ?_token=TOKEN
    /// [default: the password of --password-file, if there is one].
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
    /// Let pages of this origin send requests over HTTP, such as http://localhost:5173; * allows every page. Can be
    /// given several times. The pages of --http-root need none.
    #[arg(long, value_name = "ORIGIN", requires = "http", value_parser = Origin::parse)]
    http_origin: Vec<Origin>,
    /// Serve the files of this folder over HTTP, to everybody and without the token. A file has precedence over a
    /// command of the same path. Hidden files are not served, nor files outside the folder that links lead to.
    #[arg(long, value_name = "DIR", requires = "http")]
    http_root: Option<PathBuf>,
}

/// The scripts that clients can send.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Accepted {
    Own,
    Any,
}

/// The listeners other than the one for Redis clients, or their addresses.
struct Others<Page, Http> {
    metrics: Option<Page>,
    http: Option<Http>,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let password = read_secret("--password-file", self.password_file.as_deref())?;
        let token = read_secret("--http-token-file", self.http_token_file.as_deref())?.or_else(|| password.clone());
        self.refuse_open(self.bind, password.is_some(), "--password-file")?;
        if let Some(http) = self.http {
            self.refuse_open(http.ip(), token.is_some(), "--http-token-file")?;
        }
        let others = Others {
            metrics: self.metrics,
            http: self.site(token)?,
        };
        // Signals must be caught before the address is printed: its reader can stop the server right away.
        let mut signals = Signals::listen()?;
        let place = SocketAddr::new(self.bind, self.port);
        let store = Embedded::served(self.scripts());
        let (address, others) = serve_on_a_thread(place, password, store, others).await?;
        eprintln!(
            "steadlock {}: a development server. It keeps nothing on disk and has no replica;\n\
             steadlock: for production use Redis (https://redis.io) or Valkey (https://valkey.io).",
            env!("CARGO_PKG_VERSION")
        );
        // Standard output can be closed, which must not end the server.
        let _ = writeln!(std::io::stdout(), "steadlock: listening on redis://{address}");
        if let Some(page) = others.metrics {
            let _ = writeln!(std::io::stdout(), "steadlock: metrics on http://{page}/metrics");
        }
        if let Some(http) = others.http {
            let _ = writeln!(std::io::stdout(), "steadlock: http on http://{http}");
        }
        signals.next().await;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns which scripts clients can send. Without `--scripts`, only a server that no other machine reaches runs
    /// every script.
    fn scripts(&self) -> Scripts {
        let http = self.http.map(|address| address.ip());
        let is_local = is_loopback(self.bind) && http.is_none_or(is_loopback);
        match self.scripts {
            Some(Accepted::Any) => Scripts::Any,
            Some(Accepted::Own) => Scripts::Own,
            None if is_local => Scripts::Any,
            None => Scripts::Own,
        }
    }

    /// Refuses an address that the network can reach, unless there is a secret or the user accepts the risk.
    fn refuse_open(&self, address: IpAddr, has_secret: bool, option: &str) -> Result<(), Exit> {
        if is_loopback(address) || has_secret || self.insecure {
            return Ok(());
        }
        let what = if option == "--password-file" {
            "password"
        } else {
            "token"
        };
        Err(Exit::new(
            Exit::CONFIG,
            format!(
                "anybody who reaches {address} could use the server; give it a {what} with {option} FILE, or say \
                 --insecure"
            ),
        ))
    }

    /// Returns the address for HTTP, and the site to serve there.
    fn site(&self, token: Option<Vec<u8>>) -> Result<Option<(SocketAddr, Site)>, Exit> {
        let Some(address) = self.http else { return Ok(None) };
        let root = self.http_root.as_deref().map(Root::open).transpose();
        let root = root.map_err(|error| {
            Exit::new(
                Exit::CONFIG,
                format!("the folder of --http-root: {error}; give the path of a folder with files to show"),
            )
        })?;
        let guard = Guard {
            token,
            origins: self.http_origin.clone(),
            is_local: is_loopback(address.ip()),
        };
        Ok(Some((address, Site { guard, root })))
    }
}

/// Returns whether only this machine can reach an address. All machines can reach the wildcards 0.0.0.0 and ::.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Raises the limit on open files to the system's maximum, because each client needs one. Returns the limit.
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

/// Listens, and serves until the process ends. The server has its own thread, because a script that never ends must not
/// keep signals from ending the process.
async fn serve_on_a_thread(
    address: SocketAddr,
    password: Option<Vec<u8>>,
    store: Embedded,
    others: Others<SocketAddr, (SocketAddr, Site)>,
) -> Result<(SocketAddr, Others<SocketAddr, SocketAddr>), Exit> {
    let (tell, told) = oneshot::channel();
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
            Ok((runtime, (server, others))) => {
                server.set_open_files(raise_open_files());
                let addresses = Others {
                    metrics: others.metrics.as_ref().and_then(|page| page.address().ok()),
                    http: others.http.as_ref().and_then(|http| http.address().ok()),
                };
                // The send fails only if the receiver is gone, and then the address is not needed.
                let _ = tell.send(Ok((server.local_addr(), addresses)));
                if let Some(page) = others.metrics {
                    drop(runtime.spawn(page.serve()));
                }
                if let Some(http) = others.http {
                    drop(runtime.spawn(http.serve()));
                }
                runtime.block_on(server.serve(std::future::pending()));
            }
            Err(error) => drop(tell.send(Err(error))),
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
    match told.await {
        Ok(bound) => bound.map_err(|(address, error)| refuse(address, error.to_string())),
        Err(_) => Err(refuse(address, "the server's thread ended".into())),
    }
}

/// Binds the server and the other listeners. An error comes with the address that it is about.
async fn bind(
    address: SocketAddr,
    password: Option<Vec<u8>>,
    store: Embedded,
    others: Others<SocketAddr, (SocketAddr, Site)>,
) -> Result<(Server, Others<Page, Http>), (SocketAddr, std::io::Error)> {
    let server = Server::bind(address, password, store)
        .await
        .map_err(|error| (address, error))?;
    let mut bound = Others {
        metrics: None,
        http: None,
    };
    if let Some(place) = others.metrics {
        let metrics = server.metrics();
        let page = Page::bind(place, move || metrics.text()).await;
        bound.metrics = Some(page.map_err(|error| (place, error))?);
    }
    if let Some((place, site)) = others.http {
        let http = Http::bind(place, server.gateway(), site).await;
        bound.http = Some(http.map_err(|error| (place, error))?);
    }
    Ok((server, bound))
}

/// Scripts can nest some hundred calls into the store, each with stack frames of Lua and of the store.
const STACK_BYTES: usize = 16 * 1024 * 1024;

const MAX_PASSWORD_BYTES: usize = 8 * 1024;

/// Reads the password or token from the file of an option.
fn read_secret(option: &str, file: Option<&Path>) -> Result<Option<Vec<u8>>, Exit> {
    let Some(file) = file else { return Ok(None) };
    let what = if option == "--password-file" {
        "password"
    } else {
        "token"
    };
    // The message does not repeat the path: if the user gave the secret itself in its place, it must not get into a
    // log.
    let refuse = |why: String| Exit::new(Exit::CONFIG, format!("the file of {option}: {why}"));
    let unread = |error: std::io::Error| refuse(format!("{error}; give the path of a file with the {what}"));
    let mut password = Vec::new();
    // The limit of a secret is the number of bytes that a client may send before it has logged in.
    let most = u64::try_from(MAX_PASSWORD_BYTES).unwrap_or(u64::MAX);
    File::open(file)
        .and_then(|file| file.take(most + 1).read_to_end(&mut password))
        .map_err(unread)?;
    if password.len() > MAX_PASSWORD_BYTES {
        return Err(refuse(format!(
            "it has more than {MAX_PASSWORD_BYTES} bytes; is it the right file?"
        )));
    }
    if password.ends_with(b"\n") {
        password.pop();
        if password.ends_with(b"\r") {
            password.pop();
        }
    }
    if password.is_empty() {
        return Err(refuse(format!("it is empty; write the {what} into it")));
    }
    Ok(Some(password))
}
