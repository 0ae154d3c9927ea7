//! Floating-point numbers: formatted like C's `%.17g`, and parsed like C's `strtod`, but without hexadecimal forms.

/// Formats `number` with 17 significant digits, without trailing zeros.
pub(crate) fn format(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        without_trailing_zeros(&format!("{number:.decimals$}")).into()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
    }
}

/// Parses a number from a client: without surrounding space, and not NaN.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    // Rust accepts every decimal form that C accepts, and "inf" and "infinity" in any case.
    text.parse().ok().filter(|number: &f64| !number.is_nan())
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (number, text) in [
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (-0.5, "-0.5"),
            (3.0, "3"),
            (0.0, "0"),
            (1e15, "1000000000000000"),
            (1e20, "1e+20"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format(number), text);
        }
    }

    #[test]
    fn text_that_is_no_number_is_refused() {
        for text in ["", " 1", "1 ", "x", "nan", "1,5"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse(b"1e3"), Some(1000.0));
    }
}
