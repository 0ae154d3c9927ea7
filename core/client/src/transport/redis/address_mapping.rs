//! The address at which an announced server is reached, by the program's `address_map`.

use super::address::Address;
use super::failure::Failure;
use crate::blocking_pool;
use crate::target::{MAX_CALLS_PER_ADDRESS, Mapping, host_and_required_port};
use crate::tls::Tls;

/// A server whose address another server announces, such as a cluster node or a sentinel.
pub(super) struct AnnouncedServer {
    pub(super) address: Address,
    pub(super) tls: Option<Tls>,
}

/// Returns the address at which an announced server is reached: its own, unless the map has another one.
pub(super) async fn map_address(mapping: &Mapping, announced: &Address) -> Result<Address, Failure> {
    if let Some(function) = mapping.function() {
        let Some(pending_call) = function.try_begin(announced.to_string()) else {
            return Err(Failure::unavailable(format!(
                "{MAX_CALLS_PER_ADDRESS} calls of the function of address_map have not come back"
            )));
        };
        // The function is code of the program and can block or panic. It must not run on the engine's thread, which
        // renews the locks.
        let result = blocking_pool::run(move || pending_call.call()).await;
        return parse_result(result.unwrap_or_else(|failure| Err(failure.to_string())), announced);
    }
    let listed = mapping.lookup(&announced.host, announced.port);
    Ok(listed.map_or_else(|| announced.clone(), |(host, port)| Address::new(&host, port)))
}

fn parse_result(result: Result<Option<String>, String>, announced: &Address) -> Result<Address, Failure> {
    let Some(result) =
        result.map_err(|why| Failure::unavailable(format!("the function of address_map failed: {why}")))?
    else {
        return Ok(announced.clone());
    };
    match host_and_required_port(&result) {
        Some((host, port)) => Ok(Address::new(&host, port)),
        // The text is not repeated: it may be anything, even a URL with a password.
        None => Err(
            Failure::misconfigured("the function of address_map says what is no address")
                .with_advice("let it give host:port, with an IPv6 address in brackets, or nothing"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_result_of_the_function_is_refused_and_not_repeated() {
        let announced = Address::new("10.0.0.1", 6379);
        let parsed = |result: &str| parse_result(Ok(Some(result.to_owned())), &announced);
        assert_eq!(parsed("[::1]:7001").unwrap(), Address::new("::1", 7001));
        assert_eq!(parse_result(Ok(None), &announced).unwrap(), announced);
        for odd in ["", "sesame", "sesame:0", "redis://:sesame@h:1"] {
            let failure = parsed(odd).unwrap_err();
            assert!(
                failure.is_lasting() && !failure.to_string().contains("sesame"),
                "{failure}"
            );
        }
        let failure = parse_result(Err("no such node".into()), &announced).unwrap_err();
        assert!(
            !failure.is_lasting() && failure.to_string().contains("no such node"),
            "{failure}"
        );
    }
}
