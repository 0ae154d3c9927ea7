//! Finds the file or the commands of a request, and answers it.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;

use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use steadlock_store::Reply;
use steadlock_store::server::{ClientMemory, ExternalClient};
use tokio::time::timeout;

use super::answers::{self, Format, ResponseText};
use super::body::Body;
use super::events::Events;
use super::files::{NotServed, Root};
use super::guard::{Guard, RequestSource, permitted_headers};
use super::query;
use super::refusal::{METHODS, Refusal, response};
use super::words::{self, Words};

/// The checks on requests, and the files to serve.
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) root: Option<Root>,
}

/// Answers one request.
pub(super) async fn answer(site: &Site, client: &ExternalClient, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let (outcome, allowed_origin) = match site.guard.check(&head) {
        Ok(source) => (
            answer_allowed(site, client, &head, body, &source).await,
            source.allowed_origin,
        ),
        Err(why) => (Err(Refusal::forbidden(why)), None),
    };
    let mut response = outcome.unwrap_or_else(Refusal::into_response);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Every answer needs this header: a cache must not give one page the answer that was meant for another page.
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(allowed_origin) = allowed_origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed_origin);
    }
    response
}

type Outcome = Result<Response<Body>, Refusal>;

/// The kind of request.
enum Endpoint {
    Command,
    Pipeline,
    Transaction,
    Subscription(Vec<Vec<u8>>),
    /// The words of a command in the path.
    Path(Words),
}

/// Answers a request whose host and origin are allowed.
async fn answer_allowed(
    site: &Site,
    client: &ExternalClient,
    head: &Parts,
    body: Incoming,
    source: &RequestSource,
) -> Outcome {
    let is_get = match head.method {
        Method::OPTIONS => return Ok(preflight(head, source.allowed_origin.is_some())),
        Method::GET | Method::HEAD => true,
        Method::POST | Method::PUT => false,
        _ => return Err(Refusal::method_not_allowed()),
    };
    let undecodable = || Refusal::bad_request("ERR the path or the query cannot be decoded");
    let segments = query::segments(head.uri.path()).ok_or_else(undecodable)?;
    let mut options = query::pairs(head.uri.query().unwrap_or_default()).ok_or_else(undecodable)?;
    if let Some(root) = &site.root
        && is_get
        && (!source.is_cross_site || source.is_navigation)
        && let Some(outcome) = serve_file(root, client, &segments)
    {
        return outcome;
    }
    if source.is_cross_site {
        return Err(Refusal::forbidden(
            "ERR pages of other sites may not send requests here",
        ));
    }
    if site.guard.is_open_to_network() && is_get && source.allowed_origin.is_none() {
        let text = "ERR over the network a command by GET needs a token; use POST, or start the server with \
                    --http-token-file";
        return Err(Refusal::forbidden(text));
    }
    if !site.guard.has_token(&head.headers, &options) {
        let text = "WRONGPASS invalid or missing auth token";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, text));
    }
    client.mark_established();
    options.retain(|(name, _)| name != b"_token");
    let format = Format::requested(&head.headers).map_err(Refusal::bad_request)?;
    let endpoint = endpoint(segments, is_get)?;
    let (body, memory) = read_body(client, body).await?;
    match endpoint {
        Endpoint::Subscription(channels) => subscribe(client, &channels),
        Endpoint::Path(mut words) => {
            if !body.is_empty() && !is_get {
                words.push(body);
            }
            for (name, value) in options {
                words.push(name);
                if !value.is_empty() {
                    words.push(value);
                }
            }
            run(client, format, &words).await
        }
        endpoint => run_body(client, format, &endpoint, body, memory).await,
    }
}

/// Executes the commands in a body.
async fn run_body(
    client: &ExternalClient,
    format: Format,
    endpoint: &Endpoint,
    body: Vec<u8>,
    mut memory: ClientMemory,
) -> Outcome {
    let parse_error = |what: &str, why: String| Refusal::bad_request(format!("ERR failed to read the {what}: {why}"));
    if let Endpoint::Command = endpoint {
        let words = words::command(&body).map_err(|why| parse_error("command", why))?;
        count_words(&mut memory, body, words::memory(&words))?;
        return run(client, format, &words).await;
    }
    let commands = words::commands(&body).map_err(|why| parse_error("commands", why))?;
    count_words(&mut memory, body, commands.iter().map(words::memory).sum())?;
    match endpoint {
        Endpoint::Transaction => run_transaction(client, format, commands).await,
        _ => run_pipeline(client, format, &commands).await,
    }
}

fn endpoint(mut segments: Vec<Vec<u8>>, is_get: bool) -> Result<Endpoint, Refusal> {
    let name = segments
        .first()
        .map(|name| name.to_ascii_lowercase())
        .unwrap_or_default();
    match name.as_slice() {
        b"" | b"pipeline" | b"multi-exec" if is_get => Err(Refusal::method_not_allowed()),
        b"" if segments.len() <= 1 => Ok(Endpoint::Command),
        b"pipeline" if segments.len() == 1 => Ok(Endpoint::Pipeline),
        b"multi-exec" if segments.len() == 1 => Ok(Endpoint::Transaction),
        b"subscribe" if segments.len() > 1 => Ok(Endpoint::Subscription(segments.split_off(1))),
        _ => Ok(Endpoint::Path(segments)),
    }
}

/// Returns the file at a path, or an error; `None` if there is no such file and the path names a command.
fn serve_file(root: &Root, client: &ExternalClient, segments: &[Vec<u8>]) -> Option<Outcome> {
    match root.read(segments, client) {
        Ok(served) => Some(Ok(response(
            StatusCode::OK,
            served.content_type,
            Body::counted(served.bytes, served.memory),
        ))),
        Err(NotServed::TooLarge) => Some(Err(Refusal::out_of_memory())),
        Err(NotServed::Missing) => {
            let is_command = segments.first().is_some_and(|name| ExternalClient::is_command(name));
            let missing = || Refusal::new(StatusCode::NOT_FOUND, "ERR there is no such file, and no such command");
            (!is_command).then(|| Err(missing()))
        }
    }
}

fn subscribe(client: &ExternalClient, channels: &[Vec<u8>]) -> Outcome {
    match client.subscribe(channels) {
        Ok(subscription) => {
            let events = Events::new(channels, subscription);
            Ok(response(StatusCode::OK, "text/event-stream", Body::events(events)))
        }
        Err(error) => Err(Refusal::bad_request(error.to_string())),
    }
}

async fn run(client: &ExternalClient, format: Format, words: &Words) -> Outcome {
    let reply = client.run(words).await;
    let mut text = ResponseText::one(format);
    let is_whole = text.push(&reply).is_continue();
    let status = match reply {
        Reply::Error(_) => StatusCode::BAD_REQUEST,
        _ if !is_whole => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    drop(reply);
    respond(client, status, format, text)
}

async fn run_pipeline(client: &ExternalClient, format: Format, commands: &[Words]) -> Outcome {
    let mut text = ResponseText::list(format);
    let mut memory = client.memory();
    // Other requests run between these commands, with texts of their own, so the text counts towards the memory limit
    // while it grows.
    let on_reply = |reply| match text.push(&reply) {
        ControlFlow::Continue(()) if memory.set(text.len()) => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    client.run_each(commands, on_reply).await;
    // Commands after the first reply that does not fit are not executed, and get an error.
    for _ in text.replies()..commands.len() {
        let _ = text.push(&Reply::Error(answers::reply_too_large()));
    }
    drop(memory);
    respond(client, StatusCode::OK, format, text)
}

async fn run_transaction(client: &ExternalClient, format: Format, commands: Vec<Words>) -> Outcome {
    // This server has no RESP2 form for the answer to a transaction, and answers in JSON.
    let format = if format == Format::Base64 { format } else { Format::Json };
    match client.run_together(commands).await {
        Ok(replies) => {
            let mut text = ResponseText::list(format);
            for reply in replies {
                let _: ControlFlow<()> = text.push(&reply);
            }
            respond(client, StatusCode::OK, format, text)
        }
        Err(error) => Err(Refusal::bad_request(error.to_string())),
    }
}

fn respond(client: &ExternalClient, status: StatusCode, format: Format, text: ResponseText) -> Outcome {
    let bytes = text.finish();
    let mut memory = client.memory();
    if !memory.set(bytes.capacity()) {
        return Err(Refusal::out_of_memory());
    }
    Ok(response(status, format.content_type(), Body::counted(bytes, memory)))
}

/// Reads the body of a request, and counts its bytes towards the memory limit.
async fn read_body(client: &ExternalClient, mut body: Incoming) -> Result<(Vec<u8>, ClientMemory), Refusal> {
    let too_large = || {
        let text = format!("ERR max request size exceeded: {} bytes", ExternalClient::REQUEST_BYTES);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    let limit = u64::try_from(ExternalClient::REQUEST_BYTES).unwrap_or(u64::MAX);
    if body.size_hint().lower() > limit {
        return Err(too_large());
    }
    let mut memory = client.memory();
    let mut bytes = Vec::new();
    let read_all = async {
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            // The client has disconnected, so it does not see this error.
            let frame = frame.map_err(|_| Refusal::bad_request("ERR the request is incomplete"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > ExternalClient::REQUEST_BYTES {
                return Err(too_large());
            }
            bytes.extend_from_slice(&data);
            if !memory.set(bytes.capacity()) {
                return Err(Refusal::out_of_memory());
            }
        }
        Ok(())
    };
    match timeout(ExternalClient::REQUEST_TIME, read_all).await {
        Ok(read) => read.map(|()| (bytes, memory)),
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "ERR the request took too long to arrive",
        )),
    }
}

/// Drops a body, and counts the `bytes` of its parsed words instead.
fn count_words(memory: &mut ClientMemory, body: Vec<u8>, bytes: usize) -> Result<(), Refusal> {
    drop(body);
    if memory.set(bytes) {
        Ok(())
    } else {
        Err(Refusal::out_of_memory())
    }
}

/// Answers a preflight: the browser's question whether a page of another origin may send a request.
fn preflight(head: &Parts, has_allowed_origin: bool) -> Response<Body> {
    let mut response = response(StatusCode::NO_CONTENT, "text/plain", Body::small(""));
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    if has_allowed_origin {
        let permitted = HeaderValue::try_from(permitted_headers(&head.headers)).ok();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.extend(permitted.map(|names| (header::ACCESS_CONTROL_ALLOW_HEADERS, names)));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        // A browser sends this header when a page from the internet wants to reach a server in a private network.
        let private = HeaderName::from_static("access-control-request-private-network");
        if head.headers.contains_key(private) {
            let yes = HeaderName::from_static("access-control-allow-private-network");
            headers.insert(yes, HeaderValue::from_static("true"));
        }
    }
    response
}
