//! Decimal numbers as floats, against the standard library's parser.
#![cfg(not(target_family = "wasm"))]

use proptest::prelude::*;
use proptest::sample::select;
use tool_retries::json::{MAX_TEXT_BYTES, Value, parse};

/// Whether [`parse`] takes the text and its negation for the floats that the standard library takes them for.
fn check(text: &str) {
    for text in [text.to_owned(), format!("-{text}")] {
        let expected: f64 = text.parse().unwrap();
        let shown = &text[..text.len().min(60)];
        match parse(&text) {
            Ok(Value::Number(float)) if float.is_f64() => {
                let float = float.as_f64().unwrap();
                assert_eq!(
                    float.to_bits(),
                    expected.to_bits(),
                    "{float:e} for {expected:e}, from {shown}"
                );
            }
            Err(error) if error.reason() == "number too large" => {
                assert!(expected.is_infinite(), "no float for {expected:e}: {shown}");
            }
            other => panic!("{other:?}, from {shown}"),
        }
    }
}

/// All digits of a positive float: 325 before the point, the first of them 0, and 1,074 after it.
fn exact(float: f64) -> Vec<u8> {
    format!("{float:01400.1074}")
        .bytes()
        .filter(|byte| *byte != b'.')
        .map(|byte| byte - b'0')
        .collect()
}

/// The number half way between two positive floats, in full.
fn midpoint(low: f64, high: f64) -> String {
    let mut digits: Vec<u8> = exact(low)
        .iter()
        .zip(exact(high))
        .map(|(low, high)| low + high)
        .collect();
    // Five times the sum, with the point moved by one digit.
    digits.push(0);
    let mut carry = 0;
    for at in (1..digits.len()).rev() {
        carry += digits[at - 1] * 5;
        digits[at] = carry % 10;
        carry /= 10;
    }
    digits[0] = carry;
    let mut text: String = digits
        .iter()
        .map(|digit| char::from(b'0' + digit))
        .collect();
    text.insert(text.len() - 1075, '.');
    match text.trim_start_matches('0') {
        fraction if fraction.starts_with('.') => format!("0{fraction}"),
        text => text.to_owned(),
    }
}

/// A midpoint, and numbers that lie off it by ever less. It has a point and is not 0.
fn check_midpoint(midpoint: &str) {
    check(midpoint);
    for zeros in [0, 1, 30, 500, 3000] {
        check(&format!("{midpoint}{}1", "0".repeat(zeros)));
    }
    let last = midpoint.rfind(|digit| !matches!(digit, '0' | '.')).unwrap();
    let mut below = midpoint.to_owned().into_bytes();
    below[last] -= 1;
    for digit in &mut below[last + 1..] {
        if *digit == b'0' {
            *digit = b'9';
        }
    }
    let below = String::from_utf8(below).unwrap();
    for nines in [0, 1, 30, 500, 3000] {
        check(&format!("{below}{}", "9".repeat(nines)));
    }
}

/// 2^1024 - 2^970, half way between the largest float and what would be the next.
const ABOVE_THE_LARGEST: &str = "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070\
    9633028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447\
    5730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904\
    174497792";

#[test]
fn a_midpoint_is_what_it_says() {
    for (low, start) in [
        (
            1.0,
            "1.0000000000000001110223024625156540423631668090820312500000",
        ),
        (9007199254740990.0, "9007199254740990.5000"),
        (9007199254740992.0, "9007199254740993.0000"),
    ] {
        let midpoint = midpoint(low, low.next_up());
        assert!(midpoint.starts_with(start), "{midpoint}");
    }
    assert_eq!(midpoint(1.0, 2.0), format!("1.5{}", "0".repeat(1074)));
}

#[test]
fn the_ends_of_the_range() {
    for text in [
        // The largest float, the midpoint above it, and what lies just below and above.
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "17976931348623157e292",
        "1.797693134862315807e308",
        "1.797693134862315808e308",
        "1.7976931348623159e308",
        "1e308",
        "2e308",
        "1e309",
        "9e309",
        "1e310",
        "0.00001e314",
        // The smallest normal float and the largest below it.
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "2.225073858507201e-308",
        // The smallest float, and half of it.
        "4.9406564584124654e-324",
        "5e-324",
        "3e-324",
        "2.4703282292062328e-324",
        "2.4703282292062327e-324",
        "2.5e-324",
        "2e-324",
        "1e-324",
        "9e-325",
        "1e-325",
        "9e-330",
        "99999e-330",
        // Zeros.
        "0.0",
        "0e0",
        "0e999999999999999999999",
        "0.000e-999999999999999999999",
        // Exponents beyond every integer.
        "1e999999999",
        "1e-999999999",
        "1e99999999999999999999999999999999999999",
        "1e-99999999999999999999999999999999999999",
        "1E+00000000000000000000000000000000000005",
        "1E-00000000000000000000000000000000000005",
    ] {
        check(text);
    }
    for low in [
        0.0,
        f64::MIN_POSITIVE,
        f64::MIN_POSITIVE.next_down(),
        f64::MAX.next_down(),
    ] {
        check_midpoint(&midpoint(low, low.next_up()));
    }
    for bits in 1..=8 {
        let low = f64::from_bits(bits);
        check_midpoint(&midpoint(low, low.next_up()));
    }
    check_midpoint(&format!("{ABOVE_THE_LARGEST}.0"));
}

#[test]
fn digits_that_the_exponent_makes_up_for() {
    for zeros in [
        1,
        19,
        307,
        308,
        309,
        767,
        768,
        769,
        5000,
        MAX_TEXT_BYTES / 2,
    ] {
        let zero = "0".repeat(zeros);
        for text in [
            format!("0.{zero}1e{zeros}"),
            format!("0.{zero}17e{}", zeros + 308),
            format!("0.{zero}18e{}", zeros + 309),
            format!("1{zero}e-{zeros}"),
            format!("1{zero}.0e-{}", zeros + 320),
            format!("1{zero}e-{}", zeros + 324),
            format!("3{zero}1e-{}", zeros + 325),
            format!("1.{zero}1e0"),
            format!("1{zero}.5"),
            format!("0.{zero}5"),
        ] {
            check(&text);
        }
    }
}

fn digits(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = String> {
    proptest::collection::vec(0_u8..10, count).prop_map(|digits| {
        digits
            .iter()
            .map(|digit| char::from(b'0' + digit))
            .collect()
    })
}

/// Digits, an optional fraction, and an exponent unless the digits alone would be an integer.
fn decimal(
    before: impl Strategy<Value = String>,
    after: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    (
        before,
        after,
        proptest::option::of(-400..=400),
        select(vec!["e", "E", "e+"]),
    )
        .prop_map(|(before, after, exponent, mark)| {
            let before = match before.trim_start_matches('0') {
                "" => "0",
                rest => rest,
            };
            let point = if after.is_empty() { "" } else { "." };
            let exponent = match exponent {
                Some(exponent) if exponent < 0 => format!("e{exponent}"),
                Some(exponent) => format!("{mark}{exponent}"),
                None if after.is_empty() => "e0".to_owned(),
                None => String::new(),
            };
            format!("{before}{point}{after}{exponent}")
        })
}

fn positive() -> impl Strategy<Value = f64> {
    // Half of them of any size, a quarter subnormal, a quarter powers of two, below which floats lie closer than above.
    prop_oneof![
        2 => 1..f64::MAX.to_bits(),
        1 => 1..f64::MIN_POSITIVE.to_bits(),
        1 => (1_u64..2046).prop_map(|exponent| exponent << 52),
    ]
    .prop_map(f64::from_bits)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn short_texts(text in decimal(digits(1..6), digits(0..6))) {
        check(&text);
    }

    #[test]
    fn seventeen_digits(text in decimal(digits(1), digits(16))) {
        check(&text);
    }

    #[test]
    fn texts_of_a_few_dozen_digits(text in decimal(digits(1..40), digits(0..40))) {
        check(&text);
    }

    #[test]
    fn floats_in_any_number_of_digits(float in positive(), decimals in 0_usize..40) {
        check(&format!("{float:.decimals$e}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn texts_of_many_digits(text in decimal(digits(1..1000), digits(0..1000))) {
        check(&text);
    }

    #[test]
    fn floats_in_full(float in positive()) {
        check(&format!("{float:.1074}"));
    }

    #[test]
    fn midpoints(float in positive()) {
        check_midpoint(&midpoint(float, float.next_up()));
    }
}
