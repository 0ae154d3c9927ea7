//! `steadlock serve --http`: serves the store over Upstash's REST API, and the files of a folder.
//!
//! A request passes through these modules, and each of them can answer it:
//!
//! ```text
//!  guard            files                rest                         answers
//!  host, origin ──► a file of the ──► token ──► command ──► run ──► JSON, or RESP
//!                   folder, if any          └──► subscription: events
//! ```

mod answers;
mod body;
mod events;
mod files;
mod guard;
mod idle_timer;
mod query;
mod refusal;
mod rest;
mod stream;
mod words;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use steadlock_store::server::{ExternalClient, Gateway};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

pub(crate) use self::files::Root;
pub(crate) use self::guard::{Guard, Origin};
pub(crate) use self::rest::Site;

use self::idle_timer::{Busy, IdleTimer};
use self::stream::Stream;

/// The REST API, with its listener.
pub(crate) struct Http {
    listener: TcpListener,
    gateway: Gateway,
    site: Arc<Site>,
}

/// The limit on simultaneous HTTP connections. They also count towards the limit on all clients.
const MAX_CONNECTIONS: usize = 1_000;
/// The limit on the bytes of a request's head, which can have a command in its path.
const MAX_HEAD_BYTES: usize = 32 * 1024;

impl Http {
    /// Starts to listen.
    pub(crate) async fn bind(address: SocketAddr, gateway: Gateway, site: Site) -> std::io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            gateway,
            site: Arc::new(site),
        })
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests for ever.
    pub(crate) async fn serve(self) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let slot = Arc::clone(&slots).try_acquire_owned();
                    let (gateway, site) = (self.gateway.clone(), Arc::clone(&self.site));
                    tokio::spawn(async move {
                        match slot.ok().and_then(|slot| Some((slot, gateway.connect()?))) {
                            Some((_slot, client)) => serve(stream, Arc::new(client), site).await,
                            None => refuse_connection(stream).await,
                        }
                    });
                }
                // The process has probably run out of file descriptors.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// Serves one connection until it closes or must be closed.
async fn serve(stream: TcpStream, client: Arc<ExternalClient>, site: Arc<Site>) {
    // A small answer must be sent at once, without waiting for more data.
    let _ = stream.set_nodelay(true);
    let idle_timer = Arc::new(IdleTimer::start(ExternalClient::FIRST_REQUEST_TIME));
    let service = service_fn(|request| {
        let busy = Busy::begin(&idle_timer);
        let (client, site) = (Arc::clone(&client), Arc::clone(&site));
        async move {
            let answer = rest::answer(&site, &client, request).await;
            Ok::<_, Infallible>(answer.map(|body| body.until_written(busy)))
        }
    });
    let connection = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(Stream::new(stream, Arc::clone(&client)), service);
    // A connection can end in any of these ways. None of them needs a report.
    tokio::select! {
        _ = connection => {}
        () = client.disconnect_requested() => {}
        () = idle_timer.expired() => {}
    }
}

/// Answers that there are too many clients.
async fn refuse_connection(mut stream: TcpStream) {
    let body = "{\"error\":\"ERR max number of clients reached\"}";
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all((head + body).as_bytes()).await;
}
