//! Serves `GET /metrics` over HTTP, and nothing else: a page for Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Parses the value of `--metrics` or `--http`: a port on loopback, or an address and a port.
pub(crate) fn parse_address(given: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = given.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    given
        .parse()
        .map_err(|_| "give a port, as 9465, or an address and a port, as 0.0.0.0:9465 or [::1]:9465".into())
}

/// The page, with its listener.
pub(crate) struct Page {
    listener: TcpListener,
    text: Arc<dyn Fn() -> String + Send + Sync>,
}

/// The limit on requests that are answered at the same time. Further requests wait.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// The limit on the bytes of a request's head.
const MAX_REQUEST_BYTES: usize = 8 * 1024;
/// The time limit of a request, from the connection to the last byte of the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

impl Page {
    /// Starts to listen. `text` produces the page.
    pub(crate) async fn bind(
        address: SocketAddr,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            listener,
            text: Arc::new(text),
        })
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests for ever.
    pub(crate) async fn serve(self) {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let text = Arc::clone(&self.text);
                    tokio::spawn(async move {
                        // A client that disconnects or is too slow needs no answer.
                        let _ = timeout(REQUEST_TIMEOUT, answer(stream, &*text)).await;
                        drop(permit);
                    });
                }
                // The process has probably run out of file descriptors.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

async fn answer(mut stream: TcpStream, text: &(dyn Fn() -> String + Send + Sync)) -> std::io::Result<()> {
    let Some(head) = read_head(&mut stream).await? else {
        return respond(
            &mut stream,
            "431 Request Header Fields Too Large",
            "",
            "the request is too large\n",
        )
        .await;
    };
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if words.next().is_some() || !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) {
        return respond(&mut stream, "400 Bad Request", "", "this server speaks HTTP/1.x only\n").await;
    }
    let path = target.and_then(|target| target.split(|byte| *byte == b'?').next());
    match (method, path) {
        (Some(b"GET"), Some(b"/metrics")) => respond(&mut stream, "200 OK", "", &text()).await,
        (_, Some(b"/metrics")) => respond(&mut stream, "405 Method Not Allowed", "Allow: GET\r\n", "").await,
        _ => respond(&mut stream, "404 Not Found", "", "the only page is /metrics\n").await,
    }
}

/// Reads the head of the request, up to its empty line. `None` if the head is too large.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let read = stream.read(&mut part).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(part.get(..read).unwrap_or_default());
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if head.len() > MAX_REQUEST_BYTES {
            return Ok(None);
        }
    }
}

async fn respond(stream: &mut TcpStream, status: &str, extra_headers: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n{extra_headers}Content-Length: \
         {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
