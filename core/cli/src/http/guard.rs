//! Checks whether a request is allowed: by its host, by the page that it comes from, and by the token.
//!
//! A page of any site can make a browser send requests here. The page cannot read the answers without our consent, but
//! a command would already have run. Therefore these checks come before a command is read:
//!
//! | the request has | it is refused because |
//! |---|---|
//! | no valid `Host`, or several | the host cannot be checked |
//! | a `Host` that is no loopback name, while the server listens on loopback only | an attacker can make a name lead here, and then a browser treats the attacker's pages as ours (DNS rebinding) |
//! | an `Origin` that is neither our own nor listed | a page of another site sent it |
//! | a `Sec-Fetch-Site` of another site, and no `Origin`, unless a user follows a link to a file | a link, an image or a form of another site caused it |
//! | a command in a `GET`, and no `Origin` that is listed, while the network can reach the server and no token is required | another site may have caused it: browsers send `Sec-Fetch-Site` only to https servers and to this machine |

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use steadlock_store::server::is_equal_in_constant_time;

/// The origin of a page, such as `https://app.example`, or `*` for all origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin(String);

impl Origin {
    /// Parses the value of `--http-origin`.
    pub(crate) fn parse(given: &str) -> Result<Self, String> {
        if given == "*" {
            return Ok(Self(given.into()));
        }
        let is_authority = |text: &str| {
            let authority = text.parse::<Authority>();
            // A pattern such as `*.example` would never equal an origin, so it is refused.
            authority.is_ok_and(|authority| !authority.host().is_empty()) && !text.contains(['@', '*'])
        };
        match given.split_once("://") {
            Some((scheme, authority)) if is_scheme(scheme) && is_authority(authority) => {
                Ok(Self(given.to_ascii_lowercase()))
            }
            _ => Err("give an origin, as https://app.example or http://localhost:5173, or * for every page".into()),
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
}

/// The checks that requests must pass.
pub(crate) struct Guard {
    /// The token that clients must send, if any.
    pub(crate) token: Option<Vec<u8>>,
    /// The other origins whose pages may send requests.
    pub(crate) origins: Vec<Origin>,
    /// Whether only this machine can reach the server.
    pub(crate) is_local: bool,
}

/// The source of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestSource {
    /// The listed origin (or `*`) whose pages may read the answer; `None` for our own pages, and without an `Origin`.
    pub(super) allowed_origin: Option<HeaderValue>,
    /// Whether a page of another site sent the request, and that site is not allowed.
    pub(super) is_cross_site: bool,
    /// Whether the browser requests a page to display, for example because a user followed a link.
    pub(super) is_navigation: bool,
}

impl Guard {
    /// Returns whether other machines can use the server without a token.
    pub(super) const fn is_open_to_network(&self) -> bool {
        !self.is_local && self.token.is_none()
    }

    /// Checks the source of a request. The error says why the request is refused.
    pub(super) fn check(&self, head: &Parts) -> Result<RequestSource, &'static str> {
        let host = host(head).ok_or("ERR a request needs exactly one Host header")?;
        let is_own_address = is_loopback_name(host.host()) || ip(host.host()).is_some();
        if self.is_local && !is_loopback_name(host.host()) {
            return Err("ERR this server answers its own machine only; use localhost or 127.0.0.1");
        }
        let mut source = RequestSource {
            allowed_origin: None,
            is_cross_site: header(&head.headers, "sec-fetch-site")
                .is_some_and(|site| !matches!(site, b"same-origin" | b"none")),
            is_navigation: header(&head.headers, "sec-fetch-dest") == Some(b"document"),
        };
        let Some(origin) = head.headers.get(ORIGIN) else {
            return Ok(source);
        };
        // The page is surely our own only if the host is an IP address or a loopback name. An attacker can make any
        // other name lead here.
        let own = is_own_address.then(|| format!("http://{host}"));
        if own.is_some_and(|own| origin.as_bytes().eq_ignore_ascii_case(own.as_bytes())) {
            return Ok(source);
        }
        source.allowed_origin = Some(
            self.allowed_origin(origin)
                .ok_or("ERR this page may not send requests here; start the server with --http-origin ORIGIN for it")?,
        );
        source.is_cross_site = false;
        Ok(source)
    }

    /// Returns whether a request has the token, in its header or as `?_token=`; true if no token is required.
    pub(super) fn has_token(&self, headers: &HeaderMap, query: &[(Vec<u8>, Vec<u8>)]) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = header(headers, "authorization").and_then(|value| {
            let (scheme, given) = value.split_at_checked(BEARER.len())?;
            scheme.eq_ignore_ascii_case(BEARER).then_some(given)
        });
        let in_query = query.iter().filter(|(name, _)| name == b"_token");
        let mut given = bearer.into_iter().chain(in_query.map(|(_, value)| value.as_slice()));
        given.any(|given| is_equal_in_constant_time(token, given))
    }

    /// Returns the header value that permits pages of this origin to read the answer; `None` if the origin is not
    /// allowed.
    fn allowed_origin(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        let is_listed = |listed: &Origin| origin.as_bytes().eq_ignore_ascii_case(listed.0.as_bytes());
        if self.origins.iter().any(is_listed) {
            return Some(origin.clone());
        }
        let allows_all = self.origins.iter().any(|listed| listed.0 == "*");
        allows_all.then(|| HeaderValue::from_static("*"))
    }
}

const BEARER: &[u8] = b"Bearer ";

/// Returns the requested headers that a page of another origin may send.
pub(super) fn permitted_headers(requested: &HeaderMap) -> String {
    let requested = requested.get_all("access-control-request-headers").iter();
    let names = requested
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','));
    let names = names.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    let permitted = names.filter(|name| {
        let name = name.as_str();
        PERMITTED.contains(&name) || name.starts_with("upstash-")
    });
    permitted
        .map(|name| name.as_str().to_owned())
        .collect::<Vec<_>>()
        .join(", ")
}

const PERMITTED: [&str; 5] = [
    "accept",
    "authorization",
    "cache-control",
    "content-type",
    "last-event-id",
];

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    headers.get(name).map(HeaderValue::as_bytes)
}

/// Returns the host and port of a request; `None` if there is no valid host, or more than one.
fn host(head: &Parts) -> Option<Authority> {
    let mut all = head.headers.get_all(HOST).iter();
    let host = Authority::try_from(all.next()?.as_bytes()).ok()?;
    let is_one = all.next().is_none() && head.uri.authority().is_none_or(|named| *named == host);
    (is_one && !host.as_str().contains('@')).then_some(host)
}

/// Returns whether a name leads to this machine wherever it is resolved.
fn is_loopback_name(host: &str) -> bool {
    let name = host.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || ip(host).is_some_and(|ip| ip.to_canonical().is_loopback())
}

fn ip(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn checked(guard: &Guard, headers: &[(&str, &str)]) -> Result<RequestSource, &'static str> {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check(&request.body(()).unwrap().into_parts().0)
    }

    fn guard(origins: &[&str], is_local: bool) -> Guard {
        Guard {
            token: None,
            origins: origins.iter().map(|origin| Origin::parse(origin).unwrap()).collect(),
            is_local,
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered_on_loopback() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "[::1]:8080",
            "app.localhost:1",
            "127.9.9.9",
        ] {
            assert!(checked(&guard(&[], true), &[("host", host)]).is_ok(), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "x@localhost",
            "",
        ] {
            assert!(checked(&guard(&[], true), &[("host", host)]).is_err(), "{host}");
        }
        assert!(checked(&guard(&[], true), &[]).is_err());
        assert!(checked(&guard(&[], true), &[("host", "localhost"), ("host", "evil.example")]).is_err());
        assert!(checked(&guard(&[], false), &[("host", "box.example:80")]).is_ok());
    }

    #[test]
    fn a_page_of_another_origin_is_refused_unless_it_is_listed() {
        let check_page =
            |guard: &Guard, host: &str, origin: &str| checked(guard, &[("host", host), ("origin", origin)]);
        let none = guard(&[], true);
        assert_eq!(
            check_page(&none, "localhost:1", "http://localhost:1")
                .unwrap()
                .allowed_origin,
            None
        );
        for origin in [
            "http://localhost:2",
            "https://localhost:1",
            "http://127.0.0.1:1",
            "null",
            "http://evil.example",
        ] {
            assert!(check_page(&none, "localhost:1", origin).is_err(), "{origin}");
        }
        let listed = guard(&["http://localhost:5173", "https://app.example"], true);
        let allowed_origin = check_page(&listed, "localhost:1", "https://app.example")
            .unwrap()
            .allowed_origin;
        assert_eq!(allowed_origin.unwrap(), "https://app.example");
        assert!(check_page(&listed, "localhost:1", "https://app.example:444").is_err());
        let allowed_origin = check_page(&guard(&["*"], true), "localhost:1", "null")
            .unwrap()
            .allowed_origin;
        assert_eq!(allowed_origin.unwrap(), "*");
        // A server that other machines can reach does not know its own names, so it cannot tell them from an
        // attacker's.
        assert!(check_page(&guard(&[], false), "evil.example", "http://evil.example").is_err());
        assert!(check_page(&guard(&[], false), "10.0.0.1:1", "http://10.0.0.1:1").is_ok());
    }

    #[test]
    fn requests_of_other_sites_without_an_origin_are_recognized() {
        let listed = guard(&["https://app.example"], true);
        for (site, is_cross_site) in [
            ("cross-site", true),
            ("same-site", true),
            ("same-origin", false),
            ("none", false),
        ] {
            let source = checked(&listed, &[("host", "localhost"), ("sec-fetch-site", site)]).unwrap();
            assert_eq!(source.is_cross_site, is_cross_site, "{site}");
        }
        let consent = [
            ("host", "localhost"),
            ("sec-fetch-site", "cross-site"),
            ("origin", "https://app.example"),
        ];
        assert!(!checked(&listed, &consent).unwrap().is_cross_site);
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for good in [
            "*",
            "https://app.example",
            "http://localhost:5173",
            "http://[::1]:1",
            "chrome-extension://abc",
        ] {
            assert!(Origin::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "app.example",
            "https://",
            "https://a/b",
            "https://a/",
            "https://u@a",
            "://a",
            "null",
            "https://*",
        ] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
