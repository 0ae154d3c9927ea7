//! What one client may use up: every bound of the store, and of the server before it, in one place.
//!
//! A [`Store`](crate::Store) of its own, as in tests, simulations and
//! `memory://`, is [`Limits::NONE`]: it trusts its callers as they trust
//! themselves. The server runs its store with [`Limits::SERVED`].

#[cfg(feature = "server")]
use std::time::Duration;

/// Bounds of a store. A size of `usize::MAX` is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Which scripts clients may send.
    pub scripts: Scripts,
    /// Bytes of Lua's heap: scripts, and all they build while they run. A script that needs more fails with
    /// `not enough memory`. Zero is no bound.
    pub lua_bytes: usize,
    /// Steps of one script: its instructions, and a few for every command.
    pub script_steps: u64,
    /// Bytes of a script's text: Lua's parser cannot be stopped, and its time grows faster than the text.
    pub script_text: usize,
    /// Scripts kept for EVALSHA that came by EVAL; the oldest goes first, as in Redis 7.
    pub eval_scripts: usize,
    /// Scripts kept that came by SCRIPT LOAD; one more is refused.
    pub loaded_scripts: usize,
    /// Bytes of Lua's heap that either kind of kept script may take.
    pub kept_script_bytes: usize,
    /// Bytes of keys and values, with what their tables take; beyond it, commands that add are refused.
    pub data_bytes: usize,
    /// Bytes of one value of type string; a list or a hash may hold many such.
    pub value_bytes: usize,
    /// Bytes of one reply, with some for each of its elements, and of all replies of one EXEC.
    pub reply_bytes: usize,
    /// Elements of one reply.
    pub reply_items: usize,
    /// Steps of matching keys or channels against the pattern of one command.
    pub glob_steps: usize,
    /// Bytes that one command, script or transaction may publish, counted once for all subscribers, and some for
    /// each.
    pub published_bytes: usize,
}

/// Which scripts a store runs for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// Every script. Lua's own libraries run it, and no bound ends a single call of theirs: a pattern can keep the
    /// store busy for ever, or take the whole stack of its thread.
    Any,
    /// Only the scripts of this version of Steadlock.
    Own,
}

impl Limits {
    /// No bounds.
    pub const NONE: Self = Self {
        scripts: Scripts::Any,
        lua_bytes: 0,
        script_steps: u64::MAX,
        script_text: usize::MAX,
        eval_scripts: usize::MAX,
        loaded_scripts: usize::MAX,
        kept_script_bytes: usize::MAX,
        data_bytes: usize::MAX,
        value_bytes: usize::MAX,
        reply_bytes: usize::MAX,
        reply_items: usize::MAX,
        glob_steps: usize::MAX,
        published_bytes: usize::MAX,
    };

    /// What a server allows: with everything at its bound, the process stays below 512 MB.
    pub const SERVED: Self = Self {
        scripts: Scripts::Own,
        lua_bytes: 20 * MB,
        script_steps: 50_000_000,
        script_text: 64 * 1024,
        eval_scripts: 500,
        loaded_scripts: 1_000,
        kept_script_bytes: 3 * MB,
        data_bytes: 96 * MB,
        value_bytes: 4 * MB,
        reply_bytes: 32 * MB,
        reply_items: 500_000,
        glob_steps: 20_000_000,
        published_bytes: 16 * MB,
    };
}

const MB: usize = 1024 * 1024;

/// Bytes beyond `data_bytes` that a script may add once it has written: it would be left half done otherwise.
pub(crate) const HALF_DONE_BYTES: usize = MB;

/// How deep a script's reply may be nested; a table can hold itself.
pub(crate) const REPLY_DEPTH: usize = 64;

/// Instructions between two looks at a script's budget. The dearest compares megabytes of NULs, some
/// 30 ms long, so they are few.
pub(crate) const STEPS_PER_LOOK: u32 = 10;

/// Steps that a command of a script counts for.
pub(crate) const STEPS_PER_COMMAND: u64 = 100;

/// Bytes that an element of a reply takes beside its content.
pub(crate) const REPLY_ITEM_BYTES: usize = 64;

/// CPU time of one command, script or transaction. Not time on the wall: a machine that sleeps or is busy ends no
/// script.
#[cfg(feature = "server")]
pub(crate) const CPU_TIME: Duration = Duration::from_millis(100);

/// Bounds of the server.
#[cfg(feature = "server")]
pub(crate) mod server {
    use std::time::Duration;

    use super::MB;

    /// Connections at once, if the process may open so many files. The oldest stranger makes room for one more.
    pub(crate) const CLIENTS: usize = 10_000;
    /// Files that the process keeps for other ends than connections.
    pub(crate) const OTHER_FILES: usize = 32;
    /// The most words of a request.
    pub(crate) const WORDS: usize = 128 * 1024;
    /// The most bytes of one word.
    pub(crate) const WORD_BYTES: usize = 4 * MB;
    /// The most bytes of a whole request, with some for each word.
    pub(crate) const REQUEST_BYTES: usize = 12 * MB;
    /// The most bytes of a line.
    pub(crate) const LINE_BYTES: usize = 64 * 1024;
    /// The most words before a password was given.
    pub(crate) const STRANGER_WORDS: usize = 16;
    /// The most bytes of a word before a password was given.
    pub(crate) const STRANGER_WORD_BYTES: usize = 16 * 1024;
    /// How many bytes are read at once; an idle connection holds none.
    pub(crate) const READ_BYTES: usize = 16 * 1024;
    /// How many bytes of replies are gathered before they are written.
    pub(crate) const WRITE_AT: usize = 64 * 1024;
    /// Bytes of requests, replies and messages that all connections hold. Beyond it, strangers and clients that do not
    /// read are cut off to make room, and if that is not enough, the client that needs more.
    pub(crate) const HELD_BYTES: usize = 64 * MB;
    /// Bytes that a connection may hold however much the others do.
    pub(crate) const SMALL_BYTES: usize = 4 * 1024;
    /// Strangers, and clients that do not read, that go at once when memory runs out.
    pub(crate) const SENT_AWAY_AT_ONCE: usize = 16;
    /// Bytes of messages that wait for a subscriber; one that lets more pile up is cut off.
    pub(crate) const MESSAGE_BYTES: usize = 4 * MB;
    /// Bytes of messages that wait for all of them.
    pub(crate) const ALL_MESSAGE_BYTES: usize = 24 * MB;
    /// Bytes that a message takes beside its content.
    pub(crate) const MESSAGE_EXTRA: usize = 64;
    /// Bytes of the names of the channels that one connection listens to.
    pub(crate) const CHANNEL_BYTES: usize = 2 * MB;
    /// Bytes that a channel takes beside its name, in every table that knows it.
    pub(crate) const CHANNEL_EXTRA: usize = 256;
    /// Requests between MULTI and EXEC.
    pub(crate) const QUEUED_REQUESTS: usize = 10_000;
    /// Their bytes.
    pub(crate) const QUEUED_BYTES: usize = 16 * MB;
    /// Bytes of a client's name.
    pub(crate) const NAME_BYTES: usize = 512;
    /// Requests after which a connection that had a slow one is trusted to have quick ones again.
    pub(crate) const QUICK_AGAIN: u32 = 100;
    /// Words of a request that is taken for a quick one, if its command is.
    pub(crate) const QUICK_WORDS: usize = 64;
    /// Requests that a connection has answered in one go before it is another connection's turn.
    pub(crate) const REQUESTS_AT_ONCE: usize = 64;
    /// Time after which it is another connection's turn, however few requests that were.
    pub(crate) const TURN: Duration = Duration::from_millis(2);
    /// How long a stranger has for its password, or for the rest of its first request.
    pub(crate) const STRANGER_TIME: Duration = Duration::from_secs(10);
    /// How long the rest of a request may take.
    pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(30);
    /// How long a client may read none of what was written to it.
    pub(crate) const STALLED_TIME: Duration = Duration::from_secs(10);
}
