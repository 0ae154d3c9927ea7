//! `leasehold serve`: the embedded store behind a port.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use leasehold_store::Embedded;
use leasehold_store::server::Server;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::exit::Exit;
use crate::signals::Signals;

/// Run a development server that ordinary Redis clients can talk to.
///
/// It keeps everything in memory and forgets it when it stops. It is for
/// development and tests; production runs on Redis or Valkey. SIGTERM and SIGINT
/// stop it at once. Once it listens it prints one line to standard output:
///
///     leasehold: listening on redis://127.0.0.1:6390
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Serve {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 6390)]
    port: u16,
    /// The address to listen on. Others than loopback let the whole network in.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// A file with the password that clients must give. Its last line break does not count.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<ExitCode, Exit> {
        let password = self.password_file.as_deref().map(read_password).transpose()?;
        let has_password = password.is_some();
        // Before the banner: whoever reads it may stop us right away.
        let mut signals = Signals::listen()?;
        let address = serve_on_a_thread(SocketAddr::new(self.bind, self.port), password).await?;
        eprintln!(
            "leasehold {}: a development server. It keeps nothing on disk and has no replica;\n\
             leasehold: for production use Redis (https://redis.io) or Valkey (https://valkey.io).",
            env!("CARGO_PKG_VERSION")
        );
        if !self.bind.is_loopback() && !has_password {
            eprintln!(
                "leasehold: anybody who reaches {} can use it; consider --password-file",
                self.bind
            );
        }
        println!("leasehold: listening on redis://{address}");
        signals.next().await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Listens, and serves until the process ends. On a thread of its own: a script
/// that never ends must not keep signals from ending us.
async fn serve_on_a_thread(address: SocketAddr, password: Option<Vec<u8>>) -> Result<SocketAddr, Exit> {
    let (tell, told) = oneshot::channel();
    let serve = move || {
        let bound = Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let server = runtime.block_on(Server::bind(address, password, Embedded::new()))?;
            Ok((runtime, server))
        });
        match bound {
            Ok((runtime, server)) => {
                // Nobody who went away before the answer can be told.
                let _ = tell.send(Ok(server.local_addr()));
                runtime.block_on(server.serve(std::future::pending()));
            }
            Err(error) => drop(tell.send(Err(error))),
        }
    };
    let refuse = |cause: String| Exit::new(Exit::UNAVAILABLE, format!("cannot listen on {address}: {cause}"));
    std::thread::Builder::new()
        .name("leasehold-serve".into())
        .spawn(serve)
        .map_err(|error| refuse(error.to_string()))?;
    match told.await {
        Ok(bound) => bound.map_err(|error| refuse(error.to_string())),
        Err(_) => Err(refuse("the server's thread ended".into())),
    }
}

fn read_password(file: &Path) -> Result<Vec<u8>, Exit> {
    let refuse = |why: String| Exit::new(Exit::CONFIG, format!("password file {}: {why}", file.display()));
    let mut password = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    if password.ends_with(b"\n") {
        password.pop();
        if password.ends_with(b"\r") {
            password.pop();
        }
    }
    if password.is_empty() {
        return Err(refuse("it is empty; write the password into it".into()));
    }
    Ok(password)
}
