//! The body of a response: bytes, or an endless stream of events.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Bytes, Frame, SizeHint};
use steadlock_store::server::ClientMemory;

use super::events::Events;
use super::idle_timer::Busy;

/// The body of a response.
pub(super) struct Body {
    content: Content,
    _busy: Option<Busy>,
}

enum Content {
    Whole {
        left: Bytes,
        /// Counts the bytes towards the memory limit while they are written; `None` for a small body.
        _memory: Option<ClientMemory>,
    },
    Events(Events),
}

/// The size of the pieces that are handed to hyper. The whole body counts towards the memory limit until hyper has the
/// last piece. The pieces are small, so that hyper takes the last one only when the client has read most of the others.
const PIECE_BYTES: usize = 64 * 1024;

impl Body {
    /// Returns a body that is too small to count towards the memory limit.
    pub(super) fn small(bytes: impl Into<Bytes>) -> Self {
        Self::whole(bytes, None)
    }

    pub(super) fn counted(bytes: impl Into<Bytes>, memory: ClientMemory) -> Self {
        Self::whole(bytes, Some(memory))
    }

    pub(super) const fn events(events: Events) -> Self {
        Self {
            content: Content::Events(events),
            _busy: None,
        }
    }

    /// Prevents the connection from counting as idle until hyper has the whole body.
    pub(super) fn until_written(self, busy: Busy) -> Self {
        Self {
            _busy: Some(busy),
            ..self
        }
    }

    fn whole(bytes: impl Into<Bytes>, memory: Option<ClientMemory>) -> Self {
        Self {
            content: Content::Whole {
                left: bytes.into(),
                _memory: memory,
            },
            _busy: None,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.content {
            Content::Whole { left, .. } if left.is_empty() => Poll::Ready(None),
            Content::Whole { left, .. } => {
                let piece = left.split_to(left.len().min(PIECE_BYTES));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Content::Events(events) => events.poll_next(context).map(|event| Some(event.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole { left, .. } if left.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole { left, .. } => SizeHint::with_exact(u64::try_from(left.len()).unwrap_or(u64::MAX)),
            Content::Events(_) => SizeHint::default(),
        }
    }
}
