//! The options of a client in the form of JavaScript.

use std::collections::HashMap;

use napi::{Error, Status};
use napi_derive::napi;
use steadlock::host::{Level, OnUnavailable, Options};

/// The options of `connect` or `redlock`. An option that is left out has the core's default.
#[napi(object, object_to_js = false)]
pub struct ClientOptions {
    pub url: Option<String>,
    pub primaries: Option<Vec<String>>,
    pub lease_ms: Option<f64>,
    pub renew: Option<bool>,
    pub command_timeout_ms: Option<f64>,
    pub connect_timeout_ms: Option<f64>,
    pub retry_interval_min_ms: Option<f64>,
    pub retry_interval_max_ms: Option<f64>,
    pub key_prefix: Option<String>,
    pub tls_ca_file: Option<String>,
    pub tls_cert_file: Option<String>,
    pub tls_key_file: Option<String>,
    pub tls_server_name: Option<String>,
    pub address_map: Option<HashMap<String, String>>,
    pub lazy: Option<bool>,
    /// One of the policies of the vocabulary.
    pub on_unavailable: Option<String>,
    pub breaker_failures: Option<u32>,
    pub breaker_pause_ms: Option<f64>,
    pub client_info: Option<bool>,
    pub client_label: Option<String>,
    /// The program's name, without its folder.
    pub program: String,
    /// `node` and its version.
    pub language: String,
    pub metrics: Option<bool>,
    pub metrics_groups: Option<f64>,
    pub metrics_queues: Option<Vec<String>>,
}

impl TryFrom<ClientOptions> for Options {
    type Error = Error;

    fn try_from(options: ClientOptions) -> napi::Result<Self> {
        Ok(Self {
            url: options.url,
            primaries: options.primaries,
            lease_ms: options.lease_ms,
            renew: options.renew,
            command_timeout_ms: options.command_timeout_ms,
            connect_timeout_ms: options.connect_timeout_ms,
            retry_interval_ms: options.retry_interval_min_ms.zip(options.retry_interval_max_ms),
            key_prefix: options.key_prefix,
            tls_ca_file: options.tls_ca_file,
            tls_cert_file: options.tls_cert_file,
            tls_key_file: options.tls_key_file,
            tls_server_name: options.tls_server_name,
            address_map: options.address_map.map(Into::into),
            lazy: options.lazy.unwrap_or(false),
            on_unavailable: on_unavailable(options.on_unavailable)?,
            breaker_failures: options.breaker_failures,
            breaker_pause_ms: options.breaker_pause_ms,
            client_info: options.client_info,
            client_label: options.client_label,
            program: Some(options.program),
            language: Some(options.language),
            // The program can add a listener at any time.
            log: Some(Level::Info),
            metrics: options.metrics.unwrap_or(false),
            metrics_groups: options.metrics_groups,
            metrics_queues: options.metrics_queues,
            ..Self::default()
        })
    }
}

/// Returns the policy of a word. JavaScript has checked the word against the vocabulary, and reports a wrong word to
/// its caller.
pub(crate) fn on_unavailable(word: Option<String>) -> napi::Result<Option<OnUnavailable>> {
    let parse = |word: String| {
        let unknown = || Error::new(Status::InvalidArg, "onUnavailable is no word of the vocabulary");
        OnUnavailable::parse(&word).ok_or_else(unknown)
    };
    word.map(parse).transpose()
}
