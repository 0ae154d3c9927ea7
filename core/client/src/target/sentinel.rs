//! `redis+sentinel://[user:password@]host[:port],host/service[/db]`: sentinels that know which server is the primary.

use std::fmt;

use steadlock_protocol::Error;

use super::parts::{Authority, addresses, decode, parse_database, query_pairs, split_off};
use super::{Scheme, Target};
use crate::errors::invalid;
use crate::tls::Tls;

/// The default port of a sentinel.
const DEFAULT_PORT: u16 = 26_379;

/// The credentials for the sentinels. The servers have their own.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Target {
    /// Parses the text after the scheme.
    pub(super) fn sentinel(rest: &str, tls: Option<Tls>) -> Result<Self, Error> {
        let (rest, query) = split_off(rest, '?');
        let (authority, path) = split_off(rest, '/');
        let authority = Authority::parse(authority)?;
        let (service, database) = split_off(path.unwrap_or_default(), '/');
        let database = database.filter(|database| !database.is_empty());
        Ok(Self {
            scheme: Scheme::Sentinel {
                sentinels: addresses(authority.address, DEFAULT_PORT)?,
                service: parse_service(service)?,
                credentials: parse_credentials(query)?,
                tls,
            },
            username: authority.username,
            password: authority.password,
            database: database.map(parse_database).transpose()?.unwrap_or(0),
        })
    }
}

/// Parses the name of the service. Sentinels accept the same characters and no others.
fn parse_service(service: &str) -> Result<String, Error> {
    if service.is_empty() {
        return Err(invalid(
            "the URL names no service; give redis+sentinel://host,host/service, for example …/mymaster",
        ));
    }
    let service = decode(service)?;
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if !service.chars().all(is_good) {
        return Err(invalid(
            "the URL's service may have letters, digits, dots, dashes and underscores only",
        ));
    }
    Ok(service)
}

fn parse_credentials(query: Option<&str>) -> Result<Credentials, Error> {
    let mut credentials = Credentials::default();
    for (key, value) in query_pairs(query) {
        let part = match key {
            "sentinel_user" => &mut credentials.username,
            "sentinel_password" => &mut credentials.password,
            _ => {
                return Err(invalid(
                    "the URL has a ?part that is not known; with sentinels only sentinel_user and sentinel_password are",
                ));
            }
        };
        if part.is_some() {
            return Err(invalid("the URL has sentinel_user or sentinel_password twice"));
        }
        *part = Some(decode(value)?).filter(|value| !value.is_empty());
    }
    if credentials.username.is_some() && credentials.password.is_none() {
        return Err(invalid(
            "the URL has a sentinel_user but no sentinel_password; give both",
        ));
    }
    Ok(credentials)
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::ErrorKind;

    use super::*;
    use crate::tls::TlsOptions;

    fn parse(url: &str) -> Target {
        Target::parse(url, &TlsOptions::default()).unwrap()
    }

    fn refuse(url: &str) -> Error {
        Target::parse(url, &TlsOptions::default()).unwrap_err()
    }

    fn credentials_of(target: &Target) -> (Option<&str>, Option<&str>) {
        match &target.scheme {
            Scheme::Sentinel { credentials, .. } => (credentials.username.as_deref(), credentials.password.as_deref()),
            _ => panic!("{target}"),
        }
    }

    #[test]
    fn sentinels_have_a_service_and_a_port_of_their_own() {
        let target = parse("redis+sentinel://a,b:7001,[::1],a:26379/my.master");
        assert_eq!(target.to_string(), "sentinels a:26379,b:7001,[::1]:26379 of my.master");
        assert_eq!((target.database, &target.username, &target.password), (0, &None, &None));
        assert_eq!(credentials_of(&target), (None, None));
        for url in ["redis+sentinel://a/shop/", "redis+sentinel://a/shop/0"] {
            assert_eq!(parse(url).to_string(), "sentinels a:26379 of shop");
        }
    }

    #[test]
    fn servers_and_sentinels_have_their_own_credentials_and_none_is_shown() {
        let url = "redis+sentinel://us%65r:p%40ss@a,b/shop/3?sentinel_user=w%61tch&sentinel_password=ses%26me";
        let target = parse(url);
        assert_eq!(
            (target.username.as_deref(), target.password.as_deref(), target.database),
            (Some("user"), Some("p@ss"), 3)
        );
        assert_eq!(credentials_of(&target), (Some("watch"), Some("ses&me")));
        let shown = format!("{target} {target:?} {:?}", target.scheme);
        for secret in ["watch", "ses&me"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(!format!("{target} {target:?}").contains("p@ss"));
        let alone = parse("redis+sentinel://a/shop?sentinel_password=sesame");
        assert_eq!(credentials_of(&alone), (None, Some("sesame")));
    }

    #[test]
    fn the_target_of_a_sentinel_has_the_sentinels_credentials() {
        let target = parse("redis+sentinel://:theirs@a/shop/3?sentinel_password=sesame");
        let sentinel = target.sentinel_target("b", 7);
        assert_eq!((sentinel.to_string(), sentinel.database), ("b:7".into(), 0));
        assert_eq!(
            (sentinel.username, sentinel.password.as_deref()),
            (None, Some("sesame"))
        );
    }

    #[test]
    fn missing_and_unknown_parts_are_named() {
        for (url, text) in [
            ("redis+sentinel://", "no host"),
            ("redis+sentinel:///shop", "no host"),
            ("redis+sentinel://a,,b/shop", "no host"),
            ("redis+sentinel://a", "names no service"),
            ("redis+sentinel://a/", "names no service"),
            ("redis+sentinel://a//1", "names no service"),
            ("redis+sentinel://a/sesame%21", "service may have"),
            ("redis+sentinel://a/shop/sesame", "database"),
            ("redis+sentinel://a/shop/1/sesame", "database"),
            ("redis+sentinel://a:sesame/shop", "port"),
            ("redis+sentinel://a/shop?sesame=1", "sentinel_password"),
            ("redis+sentinel://a/shop?db=1", "sentinel_password"),
            ("redis+sentinel://a/shop?sentinel_user=sesame", "no sentinel_password"),
            (
                "redis+sentinel://a/shop?sentinel_user=sesame&sentinel_password=",
                "no sentinel_password",
            ),
            (
                "redis+sentinel://a/shop?sentinel_password=sesame&sentinel_password=b",
                "twice",
            ),
            ("redis+sentinel://a/shop?sentinel_password=sesame%zz", "%"),
        ] {
            let error = refuse(url);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}");
            assert!(error.message().contains(text), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{url}: {error}");
        }
    }
}
