//! A subscription as server-sent events: `data: message,CHANNEL,PAYLOAD`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Bytes;
use steadlock_store::server::Subscription;
use tokio::time::timeout;

/// A stream of events that lasts until the client disconnects, or reads so slowly that it misses messages.
pub(super) struct Events {
    /// The first events, one for each channel, which confirm the subscription.
    first: Option<Bytes>,
    next: NextEvent,
}

/// A future that returns the subscription and the bytes to write next; `None` in place of the bytes if messages were
/// lost.
type NextEvent = Pin<Box<dyn Future<Output = (Subscription, Option<Bytes>)> + Send>>;

/// After this long without a message, a comment line is sent. Clients and proxies close a connection that is silent for
/// minutes, and the write also reveals a client that is gone.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

impl Events {
    pub(super) fn new(channels: &[Vec<u8>], subscription: Subscription) -> Self {
        let mut first = Vec::new();
        for (before, channel) in channels.iter().enumerate() {
            write_event("subscribe", channel, (before + 1).to_string().as_bytes(), &mut first);
        }
        Self {
            first: Some(first.into()),
            next: next_event(subscription),
        }
    }

    /// Polls for the next events, as bytes. Returns an error if messages were lost: the error closes the connection,
    /// and the client notices the gap.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Ok(first));
        }
        let Poll::Ready((subscription, bytes)) = self.next.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.next = next_event(subscription);
        Poll::Ready(bytes.ok_or_else(|| io::Error::other("more messages than were read")))
    }
}

fn next_event(mut subscription: Subscription) -> NextEvent {
    Box::pin(async move {
        let Ok(message) = timeout(KEEP_ALIVE_INTERVAL, subscription.next()).await else {
            return (subscription, Some(Bytes::from_static(b":\n\n")));
        };
        let bytes = message.map(|(channel, payload)| {
            let mut bytes = Vec::with_capacity(channel.len() + payload.len() + EVENT_OVERHEAD);
            write_event("message", &channel, &payload, &mut bytes);
            bytes.into()
        });
        (subscription, bytes)
    })
}

/// Appends an event. A line break would end the event early, so each line becomes a `data` field; `EventSource` joins
/// these lines again.
fn write_event(kind: &str, channel: &[u8], content: &[u8], out: &mut Vec<u8>) {
    let text = format!(
        "{kind},{},{}",
        String::from_utf8_lossy(channel),
        String::from_utf8_lossy(content)
    );
    // `EventSource` treats CR LF, CR and LF as line breaks.
    for line in text.replace("\r\n", "\n").split(['\r', '\n']) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// The space for the parts of an event other than its channel and payload.
const EVENT_OVERHEAD: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_several_lines_stays_one_event() {
        let mut out = Vec::new();
        write_event("message", b"c", b"a\r\nb\rc\n", &mut out);
        write_event("message", b"c", b"\xff,", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "data: message,c,a\ndata: b\ndata: c\ndata: \n\ndata: message,c,\u{fffd},\n\n"
        );
    }
}
