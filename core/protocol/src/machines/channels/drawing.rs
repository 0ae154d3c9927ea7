//! The state diagram of a channel, as rows of a state, an input and the next state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Channels, Input};
use crate::ids::NodeId;
use crate::io::Io;
use crate::step::Topic;
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};

const REQUESTED: &str = "Requested";
const CONFIRMED: &str = "Confirmed";

impl Drawn for Channels {
    type Id = (NodeId, Arc<[u8]>);
    const NAME: &'static str = "channel";
    const ROWS: &'static [Row] = &[
        (NEW, "listen", REQUESTED),
        (NEW, "listen for grants", REQUESTED),
        (NEW, "watch", REQUESTED),
        (REQUESTED, "confirmed", CONFIRMED),
        (CONFIRMED, "lost", REQUESTED),
        (REQUESTED, "unwatch", GONE),
        (CONFIRMED, "unwatch", GONE),
        (REQUESTED, "unused", GONE),
        (CONFIRMED, "unused", GONE),
    ];

    fn states(&self, _io: &Io) -> BTreeMap<Self::Id, State> {
        let state = |is_confirmed: bool| (if is_confirmed { CONFIRMED } else { REQUESTED }, 0);
        let channels = self.by_node.iter().flat_map(|(node, channels)| {
            let channels = channels.iter();
            channels.map(|(name, channel)| ((*node, Arc::clone(name)), state(channel.is_confirmed)))
        });
        channels.collect()
    }
}

impl Labelled for Input<'_> {
    fn label(&self) -> &'static str {
        match self {
            Self::Listen(to) => match to.topic {
                Topic::Releases(_) => "listen",
                Topic::Grants => "listen for grants",
            },
            Self::Unused(_) => "unused",
            Self::Watch(..) => "watch",
            Self::Unwatch(..) => "unwatch",
            Self::Confirmed { .. } => "confirmed",
            Self::Message { .. } => "message",
            Self::Lost(_) | Self::LostOne { .. } => "lost",
        }
    }
}
