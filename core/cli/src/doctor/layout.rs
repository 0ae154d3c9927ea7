//! The arrangements of servers that locks can be on.

/// The arrangement of the servers to which the programs' URLs lead. Only RedLock has several URLs.
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
