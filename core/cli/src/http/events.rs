//! A subscription as server-sent events: `data: message,CHANNEL,PAYLOAD`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Bytes;
use steadlock_store::server::Subscription;
use tokio::time::timeout;

/// Events, for as long as the client reads them.
pub(super) struct Events {
    /// What is to be written first: that the client is subscribed.
    first: Option<Bytes>,
    next: Next,
}

/// The subscription comes back with what is to be written; `None` if messages were lost.
type Next = Pin<Box<dyn Future<Output = (Subscription, Option<Bytes>)> + Send>>;

/// A comment is written after so long without a message: clients and proxies end what is silent for minutes, and a
/// client that has gone is noticed.
const SILENCE: Duration = Duration::from_secs(30);

impl Events {
    pub(super) fn new(channels: &[Vec<u8>], subscription: Subscription) -> Self {
        let mut first = Vec::new();
        for (before, channel) in channels.iter().enumerate() {
            event("subscribe", channel, (before + 1).to_string().as_bytes(), &mut first);
        }
        Self {
            first: Some(first.into()),
            next: next(subscription),
        }
    }

    /// The next events as bytes. An error ends the connection: a gap in the messages would go unseen.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Ok(first));
        }
        let Poll::Ready((subscription, bytes)) = self.next.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.next = next(subscription);
        Poll::Ready(bytes.ok_or_else(|| io::Error::other("more messages than were read")))
    }
}

fn next(mut subscription: Subscription) -> Next {
    Box::pin(async move {
        let Ok(message) = timeout(SILENCE, subscription.next()).await else {
            return (subscription, Some(Bytes::from_static(b":\n\n")));
        };
        let bytes = message.map(|(channel, payload)| {
            let mut bytes = Vec::with_capacity(channel.len() + payload.len() + EVENT_EXTRA);
            event("message", &channel, &payload, &mut bytes);
            bytes.into()
        });
        (subscription, bytes)
    })
}

/// Appends an event. A line break would end it early, so each line is a `data` of its own; `EventSource` joins them.
fn event(kind: &str, channel: &[u8], content: &[u8], out: &mut Vec<u8>) {
    let text = format!(
        "{kind},{},{}",
        String::from_utf8_lossy(channel),
        String::from_utf8_lossy(content)
    );
    // To readers of events all three are breaks.
    for line in text.replace("\r\n", "\n").split(['\r', '\n']) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// What an event takes beside channel and payload.
const EVENT_EXTRA: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_several_lines_stays_one_event() {
        let mut out = Vec::new();
        event("message", b"c", b"a\r\nb\rc\n", &mut out);
        event("message", b"c", b"\xff,", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "data: message,c,a\ndata: b\ndata: c\ndata: \n\ndata: message,c,\u{fffd},\n\n"
        );
    }
}
