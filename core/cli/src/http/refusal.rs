//! Answers that refuse a request.

use std::borrow::Cow;

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::answers;
use super::body::Body;

/// The methods that the server accepts.
pub(super) const METHODS: &str = "GET, HEAD, POST, PUT, OPTIONS";

/// An answer that refuses a request, in the form of Upstash.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: Cow<'static, str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }

    /// Refuses a request that is malformed, or that the store cannot execute.
    pub(super) fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn forbidden(text: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "ERR this method is not allowed here")
    }

    /// Refuses a request because the requests and replies of all clients take too much memory.
    pub(super) fn out_of_memory() -> Self {
        let text = "OOM requests and replies of all clients take too much memory";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = response(self.status, "application/json", Body::small(answers::error(&self.text)));
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            let methods = HeaderValue::from_static(METHODS);
            response.headers_mut().insert(header::ALLOW, methods);
        }
        response
    }
}

/// Returns a response with this content type.
pub(super) fn response(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
