//! The parts that commands and replies share.

use steadlock_collections::Digits;

/// Appends a line that announces a length or a count.
pub(crate) fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    // Nearly all numbers have one or two digits. A line of fixed length is appended in one step.
    match u8::try_from(number) {
        Ok(number @ 0..10) => out.extend_from_slice(&[kind, b'0' + number, b'\r', b'\n']),
        Ok(number @ 10..100) => {
            out.extend_from_slice(&[kind, b'0' + number / 10, b'0' + number % 10, b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(Digits::of(number as u64).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends a string of bytes, such as one word of a command.
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Parses the number of a line.
#[inline]
pub(crate) fn number(line: &[u8]) -> Option<i64> {
    let mut number = 0;
    // Most numbers have a few digits, which cannot overflow.
    if line.is_empty() || line.len() > 18 {
        return std::str::from_utf8(line).ok()?.parse().ok();
    }
    for digit in line {
        if !digit.is_ascii_digit() {
            return std::str::from_utf8(line).ok()?.parse().ok();
        }
        number = number * 10 + i64::from(digit - b'0');
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_the_digits_of_its_number() {
        for number in (0..1_100).chain([usize::MAX]) {
            let mut out = Vec::new();
            header(&mut out, b'*', number);
            assert_eq!(out, format!("*{number}\r\n").into_bytes());
        }
    }
}
