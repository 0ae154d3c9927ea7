//! Names as messages show them.

use std::borrow::Cow;

/// A name as messages show it: names are no secrets, but a URL that was passed in
/// a name's place may hold one. What stands between its `://` and its last `@` is
/// hidden: `redis://…@host`. One slash is enough, as a URL that was made a path has
/// it. In every language the shown name is made here.
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
