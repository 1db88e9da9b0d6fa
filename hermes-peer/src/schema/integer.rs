//! Whole numbers in other spellings, for typed decoding.

use serde_json::{Number, Value};

/// Rewrites whole numbers spelt `1.0`, `1e2` or `-0` as plain integers where 64 bits hold them.
///
/// JSON Schema calls them integers, serde does not: without this a typed handler would refuse what the schema
/// accepts. Everything else keeps its spelling. For decoding into Rust types only; a float field reads the
/// same number afterwards, save that the sign of a negative zero is gone.
pub(crate) fn spell_integers_plainly(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(plain) = plain_integer(number.as_str()) {
                *number = plain;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell_integers_plainly),
        Value::Object(object) => object.values_mut().for_each(spell_integers_plainly),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The integer that `text` spells in another way, if 64 bits hold it.
fn plain_integer(text: &str) -> Option<Number> {
    if text != "-0" && !text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        return None;
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut magnitude: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        magnitude = magnitude.checked_mul(10)?.checked_add(u128::from(digit - b'0'))?;
    }
    if magnitude == 0 {
        return Some(0_u64.into());
    }
    let mut scale = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    while scale < 0 {
        if !magnitude.is_multiple_of(10) {
            return None;
        }
        magnitude /= 10;
        scale += 1;
    }
    while scale > 0 {
        magnitude = magnitude.checked_mul(10)?;
        scale -= 1;
    }
    if negative {
        i64::try_from(-i128::try_from(magnitude).ok()?).ok().map(Number::from)
    } else {
        u64::try_from(magnitude).ok().map(Number::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::json::parse;

    #[test]
    fn whole_numbers_are_spelt_plainly_where_64_bits_hold_them() {
        for (text, plain) in [
            ("1.0", "1"),
            ("1e2", "100"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("12.50e1", "125"),
            ("1200e-2", "12"),
            ("18446744073709551615.0", "18446744073709551615"),
            ("-9223372036854775808.00", "-9223372036854775808"),
            ("0e999999999999999999999", "0"),
        ] {
            let mut value = parse(text.as_bytes()).expect("a number");
            spell_integers_plainly(&mut value);
            assert_eq!(value.to_string(), plain);
        }
        for text in
            ["0.5", "1e-1", "1e+20", "18446744073709551616.0", "1e+999999999", "1e-999999999", "12e-2", "7"]
        {
            let mut value = parse(text.as_bytes()).expect("a number");
            spell_integers_plainly(&mut value);
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn a_typed_handler_takes_every_whole_number_that_the_schema_takes() {
        // FC-062
        #[derive(serde::Deserialize)]
        struct Input {
            id: u64,
        }
        for (text, id) in [("1.0", 1), ("1e2", 100), ("-0", 0), ("18446744073709551615", u64::MAX)] {
            let mut value = parse(format!(r#"{{"id":{text}}}"#).as_bytes()).expect("an object");
            spell_integers_plainly(&mut value);
            assert_eq!(serde_json::from_value::<Input>(value).expect(text).id, id);
        }
    }
}
