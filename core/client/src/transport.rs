//! How calls reach a server.
//!
//! A [`Transport`] takes what the session wants to send, item by item, and
//! reports what it saw. It keeps the driver's half of the session's law: calls
//! of one lane stay in order, a call waits while its node is not connected, and
//! every call is answered once. Further transports (sentinel, cluster) are
//! further implementations; the engine does not know which one it drives.

mod fleet;
mod interface;
mod memory;
mod redis;

use std::sync::Arc;

use leasehold_protocol::Error;

pub(crate) use self::interface::{First, Seen, Transport};

use self::redis::Failing;
use self::redis::connect::Peers;
use crate::settings::Settings;
use crate::target::{Scheme, Target};

/// The transport that the settings ask for. It starts to connect when it is polled.
pub(crate) fn open(settings: &Arc<Settings>, first: First) -> Result<Box<dyn Transport>, Error> {
    match settings.targets.as_slice() {
        [target] => {
            let first = match first {
                First::IsAwaited => Failing::IsFatal,
                First::IsAtUse => Failing::MayPass,
                First::WasMade => Failing::IsAnOutage,
            };
            open_one(settings, target, first, None)
        }
        targets => {
            let first = match first {
                First::IsAwaited | First::IsAtUse => Failing::MayPass,
                First::WasMade => Failing::IsAnOutage,
            };
            let peers = Peers::new(targets.len());
            let nodes = targets
                .iter()
                .zip(peers)
                .map(|(target, peers)| open_one(settings, target, first, Some(peers)))
                .collect::<Result<_, Error>>()?;
            let names = settings.targets.iter().map(ToString::to_string).collect();
            Ok(Box::new(fleet::Fleet::new(nodes, names)))
        }
    }
}

fn open_one(
    settings: &Arc<Settings>,
    target: &Target,
    first: Failing,
    peers: Option<Peers>,
) -> Result<Box<dyn Transport>, Error> {
    match &target.scheme {
        Scheme::Memory { name } => Ok(Box::new(memory::Memory::open(name.as_deref()))),
        Scheme::Tcp { .. } | Scheme::Unix { .. } => Ok(Box::new(redis::Redis::open(settings, target, first, peers))),
    }
}
