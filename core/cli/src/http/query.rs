//! Decodes the path and the query of a request.

/// Returns the parts of a path between its slashes; an empty list for `/`. `None` if the path cannot be decoded.
pub(super) fn segments(path: &str) -> Option<Vec<Vec<u8>>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new());
    }
    path.split('/').map(decode).collect()
}

/// Returns the names and values of a query. `None` if the query cannot be decoded.
pub(super) fn pairs(query: &str) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let part = part.replace('+', " ");
        let (name, value) = part.split_once('=').unwrap_or((&part, ""));
        Some((decode(name)?, decode(value)?))
    });
    pairs.collect()
}

/// Decodes `%2F` and the like.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = digit(*high)? * 16 + digit(*low)?;
        bytes.push(u8::try_from(byte).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_decoded() {
        let bytes = |parts: &[&str]| parts.iter().map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(segments("/"), Some(Vec::new()));
        assert_eq!(segments("/set/a%2Fb/"), Some(bytes(&["set", "a/b", ""])));
        assert_eq!(segments("/get/1+1"), Some(bytes(&["get", "1+1"])));
        assert_eq!(segments("/get/%ff"), Some(vec![b"get".to_vec(), vec![0xff]]));
        assert_eq!(segments("/get/%f"), None);
        assert_eq!(segments("/get/%zz"), None);
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(
            pairs("EX=1&&NX&_token=a%2Bb+c=d"),
            Some(vec![pair("EX", "1"), pair("NX", ""), pair("_token", "a+b c=d")])
        );
        assert_eq!(pairs("a=%"), None);
    }
}
