//! The options of `serve` for HTTP, and the site that they describe.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use steadlock_store::server::Server;

use super::{BindError, Listener, Secret, is_loopback};
use crate::exit::Exit;
use crate::http::{Guard, Http, Origin, Root, Site};
use crate::metrics;

/// The options for HTTP.
#[derive(clap::Args)]
pub(super) struct HttpOptions {
    /// Answer commands over HTTP too, like Upstash's REST API, on this port of loopback, or at this address and port; 0
    /// chooses a free port. Addresses other than loopback need a token or --insecure.
    ///
    /// POST / accepts a command as a JSON array, POST /pipeline and /multi-exec several commands. GET /get/KEY works as
    /// well, and GET /subscribe/CHANNEL sends messages as events. One more line of standard output has the address.
    #[arg(long, value_name = "PORT|ADDRESS", value_parser = metrics::parse_address)]
    http: Option<SocketAddr>,
    /// A file with the token that clients must give over HTTP: "Authorization: Bearer TOKEN", or ?_token=TOKEN
    /// [default: the password of --password-file, if there is one].
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
    /// Let pages of this origin, such as http://localhost:5173, send requests over HTTP; * allows every page. Can be
    /// given several times. The pages of --http-root do not need this option.
    #[arg(long, value_name = "ORIGIN", requires = "http", value_parser = Origin::parse)]
    http_origin: Vec<Origin>,
    /// Serve the files of this folder over HTTP, to everybody and without the token. A file has precedence over a
    /// command of the same path. Hidden files are not served, nor files outside the folder that links lead to.
    #[arg(long, value_name = "DIR", requires = "http")]
    http_root: Option<PathBuf>,
}

const TOKEN: Secret = Secret {
    option: "--http-token-file",
    name: "token",
};

impl HttpOptions {
    /// Returns the address to listen on, without the port; `None` without `--http`.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.http.map(|address| address.ip())
    }

    /// Reads the token of `--http-token-file`.
    pub(super) fn read_token(&self) -> Result<Option<Vec<u8>>, Exit> {
        TOKEN.read(self.http_token_file.as_deref())
    }

    /// Refuses an address that the network can reach, unless there is a token.
    pub(super) fn require_token(&self, token: Option<&[u8]>) -> Result<(), Exit> {
        self.ip().map_or(Ok(()), |address| TOKEN.require(token, address))
    }

    /// Returns the site to serve; `None` without `--http`. If a token is given, clients must send it with their
    /// commands.
    pub(super) fn site(&self, token: Option<Vec<u8>>) -> Result<Option<HttpSite>, Exit> {
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
        Ok(Some(HttpSite {
            address,
            site: Site { guard, root },
        }))
    }
}

/// A site, and the address to serve it at.
pub(super) struct HttpSite {
    address: SocketAddr,
    site: Site,
}

impl HttpSite {
    /// Starts to listen for requests to this server.
    pub(super) async fn bind(self, server: &Server) -> Result<Listener, BindError> {
        let Self { address, site } = self;
        let failed = |error| (address, error);
        let http = Http::bind(address, server.gateway(), site).await.map_err(failed)?;
        Ok(Listener {
            announcement: format!("http on http://{}", http.address().map_err(failed)?),
            serve: Box::pin(http.serve()),
        })
    }
}
