//! The arrangements of servers that locks can be on.

/// How the servers are arranged that the programs' URL (or URLs) lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    OneServer,
    Sentinel,
    Cluster,
    RedLock,
}

impl Layout {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::OneServer => "one server",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::RedLock => "redlock",
        }
    }
}
