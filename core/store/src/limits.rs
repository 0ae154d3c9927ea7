//! All limits of the store, and of the server in front of it. They bound what clients can use.
//!
//! A [`Store`](crate::Store) inside a program, as in simulations and behind `memory://`, has [`Limits::NONE`], because
//! it trusts that program. The server runs its store with [`Limits::SERVED`].

#[cfg(feature = "server")]
use std::time::Duration;

/// The limits of a store. A size of `usize::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The scripts that clients can send.
    pub scripts: Scripts,
    /// Bytes of Lua's heap: scripts, and everything that they allocate while they run. A script that needs more fails
    /// with `not enough memory`. Steadlock's own scripts run without this limit if their keys and arguments are
    /// short. Zero means no limit.
    pub lua_bytes: usize,
    /// Steps of one script: one for each instruction, and more for each command, SHA-1 and element of its reply.
    pub script_steps: u64,
    /// Bytes of the text of a script. Lua's parser cannot be stopped, and its time grows faster than the text.
    pub script_text: usize,
    /// Scripts from EVAL that are kept for EVALSHA. As in Redis 7.4, the least recently used one is removed first.
    pub eval_scripts: usize,
    /// Scripts from SCRIPT LOAD that are kept. Further ones are refused.
    pub loaded_scripts: usize,
    /// Bytes of Lua's heap for the scripts from EVAL, and as many again for those from SCRIPT LOAD. A single script
    /// from EVAL may have more.
    pub kept_script_bytes: usize,
    /// Bytes of keys and values, including their tables. A command that could exceed the limit is refused, but a script
    /// that has already written may add 1 MB more.
    pub data_bytes: usize,
    /// Bytes of one value of type string, and of one argument of a command that adds. Without a limit on `data_bytes`,
    /// only `APPEND` checks this one. A list or a hash can consist of many such values.
    pub value_bytes: usize,
    /// Bytes of one reply, including a fixed number for each element, and of all replies of one EXEC.
    pub reply_bytes: usize,
    /// Elements of one reply.
    pub reply_items: usize,
    /// Steps for matching keys or channels against the pattern of one command.
    pub glob_steps: usize,
    /// Bytes that one command, script or transaction can publish, but its first message may have any size. A payload
    /// counts once for all subscribers, with a fixed number of bytes for each of them.
    pub published_bytes: usize,
}

/// The scripts that a store runs for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// Every script. No limit ends a single call of Lua's own libraries: a pattern can keep the store busy for ever, or
    /// overflow the stack of its thread.
    Any,
    /// Only the scripts of this version of Steadlock.
    Own,
}

impl Limits {
    /// No limits.
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

    /// The limits of a server. Even if a client reaches all of them, the process stays below 512 MB.
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

/// Bytes that a script may add beyond `data_bytes` once it has written, because ending it would leave its work half
/// done.
pub(crate) const OVERSHOOT_BYTES: usize = MB;

/// The depth to which a script's reply can be nested. Without this limit, the reply of a table that contains itself
/// would have no end.
pub(crate) const REPLY_DEPTH: usize = 64;

/// Instructions between two checks of a script's budget. The most expensive instruction compares megabytes of NULs and
/// takes about 30 ms, so the number is small.
pub(crate) const STEPS_PER_CHECK: u32 = 10;

/// The steps that each command of a script counts for.
pub(crate) const STEPS_PER_COMMAND: u64 = 100;

/// The bytes that an element of a reply takes beside its content.
pub(crate) const REPLY_ITEM_BYTES: usize = 64;

/// The CPU time after which a script is ended, and the rest of a transaction is refused. Systems other than Unix count
/// wall-clock time instead, which also ends scripts if the machine sleeps or is busy.
#[cfg(feature = "server")]
pub(crate) const CPU_TIME: Duration = Duration::from_millis(100);

/// The limits of the server. A *new connection* has not completed a command; commands before the login do not count.
#[cfg(feature = "server")]
pub(crate) mod server {
    use std::time::Duration;

    use steadlock_resp::commands::Limits as Request;

    use super::MB;

    /// Simultaneous connections, if the process may open enough files. A further connection replaces the oldest new
    /// connection, or is refused if no connection is new.
    pub(crate) const CLIENTS: usize = 10_000;
    /// Files that the process keeps for other purposes than connections.
    pub(crate) const OTHER_FILES: usize = 32;
    /// The limits of a request.
    pub(crate) const REQUEST: Request = Request {
        words: 128 * 1024,
        word_bytes: 4 * MB,
        request_bytes: 12 * MB,
        line_bytes: 64 * 1024,
        is_before_login: false,
    };
    /// The limits of a request before the login.
    pub(crate) const LOGIN_REQUEST: Request = Request {
        words: 16,
        word_bytes: 16 * 1024,
        is_before_login: true,
        ..REQUEST
    };
    /// Once this many bytes of replies are collected, they are written before the next request is answered.
    pub(crate) const WRITE_AT: usize = 64 * 1024;
    /// Bytes of requests and replies of all connections. Above the limit, new connections, and clients that do not
    /// read, are disconnected. If that is not enough, the client that needs more is disconnected.
    pub(crate) const BUFFER_BYTES: usize = 64 * MB;
    /// Bytes that a connection may always hold, regardless of the others.
    pub(crate) const SMALL_BYTES: usize = 4 * 1024;
    /// When memory runs out, this many new connections, and as many clients that do not read, are disconnected at once.
    pub(crate) const CLOSED_AT_ONCE: usize = 16;
    /// Bytes of messages that wait for a subscriber. A subscriber with more is disconnected.
    pub(crate) const MESSAGE_BYTES: usize = 4 * MB;
    /// Bytes of messages that wait for all subscribers. They do not count as [`BUFFER_BYTES`].
    pub(crate) const ALL_MESSAGE_BYTES: usize = 24 * MB;
    /// Bytes that a message takes beside its content.
    pub(crate) const MESSAGE_EXTRA: usize = 64;
    /// Bytes that the channels of one connection take, in all tables that contain their names.
    pub(crate) const CHANNEL_BYTES: usize = 2 * MB;
    /// Bytes that a channel takes beside its name, in all tables that contain it.
    pub(crate) const CHANNEL_EXTRA: usize = 256;
    /// Requests between MULTI and EXEC.
    pub(crate) const QUEUED_REQUESTS: usize = 10_000;
    /// Bytes of these requests.
    pub(crate) const QUEUED_BYTES: usize = 16 * MB;
    /// Bytes of a client's name.
    pub(crate) const NAME_BYTES: usize = 512;
    /// After a long reply, this many further requests of the connection count as slow.
    pub(crate) const SLOW_PENALTY_REQUESTS: u32 = 100;
    /// The most words of a quick request to the data. A request with more is slow, even if its command is quick.
    pub(crate) const QUICK_WORDS: usize = 64;
    /// Requests of one connection that are answered before other connections get their turn.
    pub(crate) const REQUESTS_AT_ONCE: usize = 64;
    /// Time after which other connections get their turn, even after fewer requests.
    pub(crate) const TURN_TIME: Duration = Duration::from_millis(2);
    /// Time for the login of a new connection, and for the rest of its first request once that has begun.
    pub(crate) const FIRST_REQUEST_TIME: Duration = Duration::from_secs(10);
    /// Time for the rest of a request once it has begun.
    pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(30);
    /// Time for which a client may read nothing of its replies.
    pub(crate) const STALLED_TIME: Duration = Duration::from_secs(10);
}
