//! Names, as messages show them.

use std::borrow::Cow;

/// Returns a name as messages show it. Names are not secret, but a caller may pass a URL with a password instead of a
/// name. The text between the `://` of a URL and its last `@` is hidden: `redis://…@host`. One slash is enough, because
/// a URL that was converted to a path has only one. All languages use this function.
#[must_use]
pub fn shown(name: &str) -> Cow<'_, str> {
    let userinfo = name.split_once(":/").and_then(|(scheme, rest)| {
        let slash = if rest.starts_with('/') { "/" } else { "" };
        Some((scheme, slash, rest.rsplit_once('@')?.1))
    });
    match userinfo {
        Some((scheme, slash, host)) => Cow::Owned(format!("{scheme}:/{slash}…@{host}")),
        None => Cow::Borrowed(name),
    }
}
