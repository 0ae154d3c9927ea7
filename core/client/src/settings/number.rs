//! Numbers in the messages of refusals.

use std::fmt;

/// A number in the message of a refusal, with up to six decimals. The standard library's formatting of floats would
/// make up a hundredth of the code that a browser loads.
pub(super) struct Number(pub(super) f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if self.0 < 0.0 {
            f.write_str("-")?;
        }
        if size.is_nan() {
            return f.write_str("NaN");
        }
        if size.is_infinite() {
            return f.write_str("inf");
        }
        // A cast to an integer saturates at the largest one.
        let (mut whole, mut millionths) = (size as u64, (size.fract() * 1e6).round() as u64);
        if millionths == 1_000_000 {
            (whole, millionths) = (whole.saturating_add(1), 0);
        }
        write!(f, "{whole}")?;
        match format!("{millionths:06}").trim_end_matches('0') {
            "" => Ok(()),
            part => write!(f, ".{part}"),
        }
    }
}
