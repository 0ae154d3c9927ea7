//! Commands in RESP on a simulated connection.

use steadlock_store::Reply;

/// Takes the words of each complete command.
pub(super) fn take_commands(came: &mut Vec<u8>) -> Vec<Vec<Vec<u8>>> {
    let (mut commands, mut done) = (Vec::new(), 0);
    while let Some((words, length)) = command(&came[done..]) {
        done += length;
        commands.push(words);
    }
    came.drain(..done);
    commands
}

/// Returns a reply that is text.
pub(super) fn text(text: impl Into<Vec<u8>>) -> Reply {
    Reply::Bytes(text.into())
}

/// Returns the words of the first command, and its length in bytes; `None` until it is complete.
fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let count = number(bytes, &mut at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(bytes, &mut at, b'$')?;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn number(bytes: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let rest = bytes.get(*at..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let line = &rest[..end];
    assert_eq!(line.first(), Some(&kind), "the client speaks no RESP");
    *at += end + 2;
    std::str::from_utf8(&line[1..]).ok()?.parse().ok()
}
