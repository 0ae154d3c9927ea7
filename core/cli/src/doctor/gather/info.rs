//! Reads the answers to INFO and CONFIG.

use std::collections::HashMap;

use crate::doctor::facts::{Fact, Memory, Persistence, Replica};

/// The fields of INFO, by name.
#[derive(Debug, Default)]
pub(super) struct Info(HashMap<String, String>);

impl Info {
    pub(super) fn read(text: &str) -> Self {
        let field = |line: &str| {
            let (name, value) = line.trim_end().split_once(':')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Self(text.lines().filter_map(field).collect())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn memory(&self) -> Option<Memory> {
        Some(Memory {
            limit: self.number("maxmemory")?,
            used: self.number("used_memory")?,
            policy: self.text("maxmemory_policy")?.into(),
        })
    }

    pub(super) fn persistence(&self) -> Option<Persistence> {
        let fails = |field: &str| self.text(field).is_some_and(|status| status != "ok");
        let failing = [
            ("rdb_last_bgsave_status", "snapshot"),
            ("aof_last_write_status", "write to the append-only file"),
        ];
        Some(Persistence {
            has_log: self.text("aof_enabled")? == "1",
            failing: failing
                .iter()
                .find(|(field, _)| fails(field))
                .map(|(_, what)| (*what).into()),
        })
    }

    /// Returns the replicas that INFO lists, in its order.
    pub(super) fn replicas(&self) -> Option<Vec<Replica>> {
        let count = self.number("connected_slaves")?;
        let replica = |number| {
            let line = self.text(&format!("slave{number}"))?;
            let fields: HashMap<&str, &str> = line.split(',').filter_map(|field| field.split_once('=')).collect();
            let (host, port) = (fields.get("ip")?, fields.get("port")?);
            let host = if host.contains(':') {
                format!("[{host}]")
            } else {
                (*host).into()
            };
            Some(Replica {
                address: format!("{host}:{port}"),
                is_linked: fields.get("state") == Some(&"online"),
                lag: fields.get("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0),
                clock: Fact::Unknown("it was not asked".into()),
            })
        };
        Some((0..count).filter_map(replica).collect())
    }
}

/// Returns the hard limit of a subscriber's buffer in `client-output-buffer-limit`, in bytes.
pub(super) fn pubsub_buffer(setting: &str) -> Option<u64> {
    let mut words = setting.split(' ').skip_while(|word| *word != "pubsub");
    words.nth(1)?.parse().ok()
}

/// Returns whether a server with this `bind` setting listens on loopback alone. A leading `-` marks an address that may
/// be missing.
pub(super) fn is_loopback_only(bind: &str) -> bool {
    let mut addresses = bind.split_whitespace().peekable();
    addresses.peek().is_some()
        && addresses.all(|address| {
            let address = address.trim_start_matches('-');
            address == "localhost"
                || address
                    .parse()
                    .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_read_from_info() {
        let info = Info::read(
            "# Replication\r\nconnected_slaves:2\r\n\
             slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=1\r\n\
             slave1:ip=fd00::2,port=7000,state=wait_bgsave,offset=0,lag=9,type=replica\r\n",
        );
        let replicas = info.replicas().unwrap();
        let not_asked = Fact::Unknown("it was not asked".into());
        assert_eq!(
            replicas,
            [
                Replica {
                    address: "10.0.0.2:6379".into(),
                    is_linked: true,
                    lag: 1,
                    clock: not_asked.clone(),
                },
                Replica {
                    address: "[fd00::2]:7000".into(),
                    is_linked: false,
                    lag: 9,
                    clock: not_asked,
                }
            ]
        );
    }

    #[test]
    fn the_limit_of_subscribers_is_one_of_three() {
        let setting = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(pubsub_buffer(setting), Some(33_554_432));
        assert_eq!(pubsub_buffer(""), None);
    }

    #[test]
    fn every_address_must_be_loopback() {
        for (bind, is_so) in [
            ("127.0.0.1 -::1", true),
            ("127.0.0.1", true),
            ("", false),
            ("*", false),
            ("* -::*", false),
            ("127.0.0.1 10.0.0.1", false),
            ("0.0.0.0", false),
        ] {
            assert_eq!(is_loopback_only(bind), is_so, "{bind:?}");
        }
    }

    #[test]
    fn the_part_that_failed_to_be_saved_is_named() {
        let info = Info::read("aof_enabled:1\r\nrdb_last_bgsave_status:ok\r\naof_last_write_status:err\r\n");
        let failing = info.persistence().unwrap().failing;
        assert_eq!(failing.as_deref(), Some("write to the append-only file"));
    }
}
