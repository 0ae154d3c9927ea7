//! The kinds of deployment that a URL can name.

/// The kind of deployment that the URL, or the URLs, name.
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
