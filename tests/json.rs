//! The JSON room against CPython's answers, against serde_json as it comes, and against hostile text.
#![cfg(not(target_family = "wasm"))]

use std::time::Duration;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use tool_retries::json::{
    Canonical, Finite, MAX_DEPTH, MAX_INTEGER_DIGITS, MAX_TEXT_BYTES, NotFinite, Value, object,
    parse, parse_bytes,
};

// ---- CPython -------------------------------------------------------------------------------------------------------

#[test]
fn prints_what_cpython_prints() {
    let table = include_str!("data/python_json.jsonl");
    assert!(table.lines().count() >= 150, "the table is cut short");
    for line in table.lines() {
        // Read by the oracle, so that a fault of ours cannot hide in the reading of the table.
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| case[name].as_str().unwrap();
        let input = field("input");
        let value = parse(input).unwrap_or_else(|error| panic!("{input:?}: {error}"));
        assert_eq!(value.compact(), field("compact"), "compact, from {input:?}");
        assert_eq!(value.spaced(), field("spaced"), "spaced, from {input:?}");
        assert_eq!(value.pretty(), field("pretty"), "pretty, from {input:?}");
        for text in [value.compact(), value.spaced(), value.pretty()] {
            assert_eq!(parse(&text).as_ref(), Ok(&value), "reading back {text:?}");
        }
    }
}

#[test]
fn reads_and_prints_floats_as_cpython_does() {
    let table = include_str!("data/python_floats.txt");
    let mut count = 0;
    for pair in table.split_ascii_whitespace() {
        let (bits, repr) = pair.split_once('=').unwrap();
        let float = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
        let value = Value::from(Finite::try_from(float).unwrap());
        assert_eq!(value.compact(), repr, "printing the float of bits {bits}");
        assert_eq!(parse(repr), Ok(value), "reading {repr}");
        count += 1;
    }
    assert!(count >= 2000, "only {count} floats in the table");
}

// ---- refusals ------------------------------------------------------------------------------------------------------

#[test]
fn refuses_with_place_and_reason() {
    let table: &[(&str, usize, usize, &str)] = &[
        // nothing, or not all
        ("", 1, 1, "EOF while parsing a value"),
        (" \n\t\r\n ", 3, 2, "EOF while parsing a value"),
        ("[", 1, 2, "EOF while parsing a list"),
        ("[1", 1, 3, "EOF while parsing a list"),
        ("[1,", 1, 4, "EOF while parsing a value"),
        ("{", 1, 2, "EOF while parsing an object"),
        ("{\"a\"", 1, 5, "EOF while parsing an object"),
        ("{\"a\":", 1, 6, "EOF while parsing a value"),
        ("{\"a\":1", 1, 7, "EOF while parsing an object"),
        ("{\"a\":1,", 1, 8, "EOF while parsing a value"),
        ("\"abc", 1, 5, "EOF while parsing a string"),
        ("\"a\\", 1, 4, "EOF while parsing a string"),
        ("\"a\\u00", 1, 7, "EOF while parsing a string"),
        ("tru", 1, 4, "EOF while parsing a value"),
        ("-", 1, 2, "EOF while parsing a value"),
        // out of place
        ("]", 1, 1, "expected value, found `]`"),
        ("[1,]", 1, 4, "trailing comma, found `]`"),
        ("[,1]", 1, 2, "expected value, found `,`"),
        ("[1 2]", 1, 4, "expected `,` or `]`, found `2`"),
        ("[1}", 1, 3, "expected `,` or `]`, found `}`"),
        ("{\"a\":1,}", 1, 8, "trailing comma, found `}`"),
        ("{\"a\" 1}", 1, 6, "expected `:`, found `1`"),
        ("{\"a\":1 \"b\":2}", 1, 8, "expected `,` or `}`, found `\"`"),
        ("{a:1}", 1, 2, "key must be a string, found `a`"),
        ("{1:1}", 1, 2, "key must be a string, found `1`"),
        ("'a'", 1, 1, "expected value, found `'`"),
        ("True", 1, 1, "expected value, found `True`"),
        ("nil", 1, 2, "expected true, false or null, found `il`"),
        ("falsy", 1, 5, "expected true, false or null, found `y`"),
        ("[1] // two", 1, 5, "trailing characters"),
        ("/* one */ 1", 1, 1, "expected value, found `/`"),
        ("1 2", 1, 3, "trailing characters"),
        ("{} {}", 1, 4, "trailing characters"),
        ("[1]]", 1, 4, "trailing characters"),
        ("[1;", 1, 3, "expected `,` or `]`, found `;`"),
        ("nulll", 1, 5, "trailing characters"),
        ("1\u{a0}", 1, 2, "trailing characters"),
        ("\u{a0}1", 1, 1, "expected value, found U+00A0"),
        ("[\u{c}1]", 1, 2, "expected value, found U+000C"),
        ("[\u{1f600}]", 1, 2, "expected value, found U+1F600"),
        ("\u{feff}1", 1, 1, "the text begins with a byte order mark"),
        ("1\u{feff}", 1, 2, "trailing characters"),
        // numbers
        ("NaN", 1, 1, "expected value, found `NaN`"),
        ("[Infinity]", 1, 2, "expected value, found `Infinity`"),
        (
            "{\"a\":-Infinity}",
            1,
            7,
            "expected a digit, found `Infinity`",
        ),
        ("-NaN", 1, 2, "expected a digit, found `NaN`"),
        ("1e309", 1, 1, "number too large"),
        ("[1,-1e400]", 1, 4, "number too large"),
        ("1.7976931348623159e308", 1, 1, "number too large"),
        ("01", 1, 1, "number with a leading zero"),
        ("-01", 1, 2, "number with a leading zero"),
        ("[00.5]", 1, 2, "number with a leading zero"),
        ("+1", 1, 1, "expected value, found `+`"),
        ("-+1", 1, 2, "expected a digit, found `+`"),
        ("--1", 1, 2, "expected a digit, found `-`"),
        ("- 1", 1, 2, "expected a digit, found U+0020"),
        (".5", 1, 1, "expected value, found `.`"),
        ("-.5", 1, 2, "expected a digit, found `.`"),
        ("1.", 1, 3, "EOF while parsing a value"),
        ("[1.]", 1, 4, "expected a digit, found `]`"),
        ("1.e5", 1, 3, "expected a digit, found `e`"),
        ("1e", 1, 3, "EOF while parsing a value"),
        ("1e+", 1, 4, "EOF while parsing a value"),
        ("[1E-]", 1, 5, "expected a digit, found `]`"),
        ("1e5.5", 1, 4, "trailing characters"),
        ("0x10", 1, 2, "trailing characters"),
        ("1_000", 1, 2, "trailing characters"),
        ("-Infinity", 1, 2, "expected a digit, found `Infinity`"),
        // strings
        ("\"\u{1}\"", 1, 2, "unescaped control character U+0001"),
        ("\"\\udc00\"", 1, 2, "surrogate \\udc00 without its partner"),
        ("\"a\nb\"", 1, 3, "unescaped control character U+000A"),
        ("\"\t\"", 1, 2, "unescaped control character U+0009"),
        ("\"\0\"", 1, 2, "unescaped control character U+0000"),
        ("\"\u{1f}\"", 1, 2, "unescaped control character U+001F"),
        ("\"a\\x41\"", 1, 3, "a backslash before `x` is no escape"),
        ("\"\\\n\"", 1, 2, "a backslash before U+000A is no escape"),
        ("\"\\é\"", 1, 2, "a backslash before U+00E9 is no escape"),
        ("\"\\U0041\"", 1, 2, "a backslash before `U` is no escape"),
        ("\"\\u004\"", 1, 2, "\\u needs four hexadecimal digits"),
        ("\"\\u+041\"", 1, 2, "\\u needs four hexadecimal digits"),
        ("\"\\u00é1\"", 1, 2, "\\u needs four hexadecimal digits"),
        (
            "\"\\ud83d\\u12g4\"",
            1,
            8,
            "\\u needs four hexadecimal digits",
        ),
        ("\"\\ud83d\"", 1, 2, "surrogate \\ud83d without its partner"),
        ("\"\\uDE00\"", 1, 2, "surrogate \\uDE00 without its partner"),
        (
            "\"\\ud83d\\u0041\"",
            1,
            2,
            "surrogate \\ud83d without its partner",
        ),
        (
            "\"\\ud83d\\ud83d\\ude00\"",
            1,
            2,
            "surrogate \\ud83d without its partner",
        ),
        (
            "\"\\ude00\\u12g4\"",
            1,
            2,
            "surrogate \\ude00 without its partner",
        ),
        (
            "\"\\ude00\\ud83d\"",
            1,
            2,
            "surrogate \\ude00 without its partner",
        ),
        (
            "\"\\ud83d\\n\"",
            1,
            2,
            "surrogate \\ud83d without its partner",
        ),
        (
            "{\"\\udfff\":1}",
            1,
            3,
            "surrogate \\udfff without its partner",
        ),
        // names
        (
            "{\"key\":1,\n \"b\":2,\n          , \"key\":3}",
            3,
            11,
            "key must be a string, found `,`",
        ),
        (
            "{\"key\":1,\n \"b\":2,\n             \"key\":3}",
            3,
            14,
            "duplicate name \"key\"",
        ),
        ("{\"a\":1,\"\\u0061\":2}", 1, 8, "duplicate name \"a\""),
        (
            "{\"\\ud83d\\ude00\":1,\"\u{1f600}\":2}",
            1,
            19,
            "duplicate name \"\\ud83d\\ude00\"",
        ),
        ("{\"\":1,\"\":2}", 1, 7, "duplicate name \"\""),
        ("[{\"x\":{\"a\":1,\"a\":1}}]", 1, 14, "duplicate name \"a\""),
        ("{\"a\":1,\"a\":NaN}", 1, 8, "duplicate name \"a\""),
        (
            "{\"a\\\"\":1, \"a\\\"\" :2}",
            1,
            11,
            "duplicate name \"a\\\"\"",
        ),
        (
            "{\"a\\\\\":1,\"a\\\\\",2}",
            1,
            10,
            "duplicate name \"a\\\\\"",
        ),
        (
            "{\"a\\nb\":1,\"a\\nb\":2}",
            1,
            11,
            "duplicate name \"a\\nb\"",
        ),
        // places: columns are characters, and only a line feed ends a line
        ("[\"é漢\u{1f600}\", x]", 1, 9, "expected value, found `x`"),
        ("[1,\r\n 2,\r 3,\n  x]", 3, 3, "expected value, found `x`"),
        (
            "\n\n\n[\"é\",\n\"é\" x]",
            5,
            5,
            "expected `,` or `]`, found `x`",
        ),
    ];
    for (text, line, column, reason) in table {
        let error = parse(text).expect_err(text);
        assert_eq!(
            error.to_string(),
            format!("line {line}, column {column}: {reason}"),
            "for {text:?}"
        );
        assert_eq!(
            (error.line(), error.column()),
            (*line, *column),
            "for {text:?}"
        );
        assert_eq!(
            parse_bytes(text.as_bytes()),
            Err(error),
            "as bytes, for {text:?}"
        );
    }
}

#[test]
fn refuses_bytes_that_are_not_utf8() {
    let table: &[(&[u8], usize, usize, &str)] = &[
        (
            b"\xef\xbb\xbf{}",
            1,
            1,
            "the text begins with a byte order mark",
        ),
        (
            b"\xef\xbb\xbf\xff",
            1,
            1,
            "the text begins with a byte order mark",
        ),
        (b"\xff\xfe[\0]\0", 1, 1, "not UTF-8 (after 0 bytes)"),
        (b"[\"\xc3\xa9\xff\"]", 1, 4, "not UTF-8 (after 4 bytes)"),
        (
            b"[\n\"\xe6\xbc\xa2\xc0\x80\"]",
            2,
            3,
            "not UTF-8 (after 6 bytes)",
        ),
        // a surrogate encoded as if it were a character, and a character cut off by the end
        (b"\"\xed\xa0\xbd\"", 1, 2, "not UTF-8 (after 1 bytes)"),
        (b"\"\xf0\x9f\x98", 1, 2, "not UTF-8 (after 1 bytes)"),
        // the encoding comes before the grammar, wherever it breaks
        (b"[,\n\xff", 2, 1, "not UTF-8 (after 3 bytes)"),
    ];
    for (bytes, line, column, reason) in table {
        let error = parse_bytes(bytes).expect_err(reason);
        assert_eq!(
            error.to_string(),
            format!("line {line}, column {column}: {reason}"),
            "for {bytes:?}"
        );
    }
}

#[test]
fn a_long_name_does_not_flood_the_message() {
    let name = "é".repeat(100_000);
    let error = parse(&format!("{{\"{name}\":1,\"{name}\":2}}")).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "line 1, column 100007: duplicate name \"{}\"...",
            "\\u00e9".repeat(64)
        )
    );
}

// ---- limits --------------------------------------------------------------------------------------------------------

/// Of the processor, so that a busy machine makes no difference; far below what copying the rest of the text at each
/// step would take.
const PATIENCE: Duration = Duration::from_secs(5);

fn quickly<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let spent = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let start = spent();
    let result = work();
    let taken = spent() - start;
    assert!(taken < PATIENCE, "{what} took {taken:?}");
    result
}

#[test]
fn ten_megabytes_are_refused_unread() {
    let text = "[".repeat(10 << 20);
    for error in [
        parse(&text).unwrap_err(),
        parse_bytes(text.as_bytes()).unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "line 1, column 1: the text has 10485760 bytes, more than 1048576"
        );
    }
    // Not UTF-8 either: the length alone decides.
    let error = quickly("refusing 10 MB", || parse_bytes(&vec![0xff; 10 << 20])).unwrap_err();
    assert_eq!(
        error.reason(),
        "the text has 10485760 bytes, more than 1048576"
    );
}

#[test]
fn the_longest_text_is_read_and_a_longer_one_is_not() {
    let longest = format!("1{}", " ".repeat(MAX_TEXT_BYTES - 1));
    assert_eq!(parse(&longest), Ok(Value::from(1)));
    assert_eq!(parse_bytes(longest.as_bytes()), Ok(Value::from(1)));
    let error = parse(&format!("{longest} ")).unwrap_err();
    assert_eq!(
        error.reason(),
        "the text has 1048577 bytes, more than 1048576"
    );
}

#[test]
fn long_texts_take_linear_time() {
    let fill = |piece: &str| piece.repeat(MAX_TEXT_BYTES / piece.len() - 8);
    let names: String = (0..60_000)
        .map(|index| format!("\"{index}\":{index},"))
        .collect();
    let accepted = [
        ("one string", format!("\"{}\"", fill("a"))),
        (
            "one string of many bytes a character",
            format!("\"{}\"", fill("漢")),
        ),
        ("escapes", format!("\"{}\"", fill("\\n"))),
        ("surrogate pairs", format!("\"{}\"", fill("\\ud83d\\ude00"))),
        ("integers", format!("[{}0]", fill("0,"))),
        ("strings", format!("[{}0]", fill("\"\\t\","))),
        ("containers", format!("[{}0]", fill("[{}],"))),
        ("lines", format!("[{}0]", fill("\n"))),
        ("names", format!("{{{names}\"\":0}}")),
        ("digits of a fraction", format!("0.{}", fill("1"))),
        ("digits of an exponent", format!("0e{}", fill("1"))),
        ("large floats", format!("[{}0]", fill("1e300,"))),
        ("small floats", format!("[{}0]", fill("1e-300,"))),
        (
            "floats of many digits",
            format!("[{}0]", fill(&format!("1.{}e-300,", "1".repeat(770)))),
        ),
    ];
    for (what, text) in &accepted {
        let value = quickly(what, || parse(text)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(quickly(what, || value.compact()).len() > 2, "{what}");
    }
    // The place is counted once, when the text is refused, not at every step.
    let error = quickly("a fault at the end", || {
        parse(&format!("[{}x]", fill("1,\n")))
    })
    .unwrap_err();
    assert_eq!(
        (error.line(), error.column()),
        (MAX_TEXT_BYTES / 3 - 8 + 1, 1)
    );
}

#[test]
fn an_integer_keeps_4300_digits_and_no_more() {
    for sign in ["", "-"] {
        let most = format!("{sign}{}", "7".repeat(MAX_INTEGER_DIGITS));
        assert_eq!(parse(&most).unwrap().compact(), most);
        let error = parse(&format!("[{most}7]")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1, column 2: integer of 4301 digits, more than 4300"
        );
        // The limit is one of integers: a number with a fraction has a size of its own.
        assert_eq!(
            parse(&format!("{most}.5")).unwrap_err().reason(),
            "number too large"
        );
    }
}

const TOO_DEEP: &str = "more than 128 arrays and objects inside each other";

#[test]
fn nesting_ends_at_128_whatever_nests() {
    let nest = |open: &str, core: &str, close: &str, depth: usize| {
        format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
    };
    // A stack half of what rustc gives a wasm module: the deepest value must fit it in a build without optimisation.
    let deepest = move || {
        for (open, core, close) in [
            ("[", "", "]"),
            ("{\"a\":", "0", "}"),
            ("{\"a\":", "0.5", "}"),
            (" [\n", "[]", "] "),
            ("[", "{}", "]"),
        ] {
            let depth = if matches!(core, "[]" | "{}") {
                MAX_DEPTH - 1
            } else {
                MAX_DEPTH
            };
            let value = parse(&nest(open, core, close, depth)).unwrap();
            let copy = value.clone();
            assert_eq!(parse(&value.pretty()), Ok(copy));
            assert_eq!(
                value.compact().len(),
                nest(open.trim(), core, close.trim(), depth).len()
            );

            let error = parse(&nest(open, core, close, depth + 1)).unwrap_err();
            assert_eq!(error.reason(), TOO_DEEP);
        }
        for (core, close) in [("{}", "]"), ("[ ]", "]"), ("{ \"[\": 1}", "]"), ("[,", "")] {
            let error = parse(&nest("[", core, close, MAX_DEPTH)).unwrap_err();
            assert_eq!((error.reason(), error.column()), (TOO_DEEP, 129), "{core}");
        }
        let error = parse(&nest("[{\"a\":", "0", "}]", 65)).unwrap_err();
        assert_eq!(error.to_string(), format!("line 1, column 385: {TOO_DEEP}"));
    };
    std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(deepest)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn ten_thousand_levels_are_refused() {
    let depth = 10_000;
    for (open, core, close, column) in [("[", "1", "]", 129), ("{\"a\":", "1", "}", 641)] {
        let closed = format!("{}{core}{}", open.repeat(depth), close.repeat(depth));
        for text in [&closed, &open.repeat(depth)] {
            let error = quickly("refusing 10,000 levels", || parse(text)).unwrap_err();
            assert_eq!(error.reason(), TOO_DEEP);
            assert_eq!((error.line(), error.column()), (1, column));
        }
    }
    // Closing brackets alone, and siblings, do not nest.
    assert_eq!(
        parse(&"]".repeat(depth)).unwrap_err().reason(),
        "expected value, found `]`"
    );
    assert!(parse(&format!("[{}[]]", "[],".repeat(depth))).is_ok());
}

// ---- values built by code ------------------------------------------------------------------------------------------

#[test]
fn values_are_built_and_looked_into() {
    let value = object([
        ("truth", true.into()),
        ("small", (-2).into()),
        ("least", i64::MIN.into()),
        ("word", 7_u32.into()),
        ("most", u64::MAX.into()),
        ("count", 3_usize.into()),
        ("amount", Finite::try_from(49.0).unwrap().into()),
        ("text", "a".into()),
        ("owned", String::from("b").into()),
        ("list", vec![Value::Null, 1_u64.into()].into()),
    ]);
    assert_eq!(
        value.compact(),
        r#"{"amount":49.0,"count":3,"least":-9223372036854775808,"list":[null,1],"most":18446744073709551615,"#.to_owned()
            + r#""owned":"b","small":-2,"text":"a","truth":true,"word":7}"#
    );
    let get = |name: &str| value.get(name).unwrap();
    assert_eq!(get("truth").as_bool(), Some(true));
    assert_eq!(get("least").as_i64(), Some(i64::MIN));
    assert_eq!(get("most").as_i64(), None);
    assert_eq!(get("amount").as_f64(), Some(49.0));
    assert_eq!(get("amount").as_i64(), None);
    assert!(get("amount").is_f64() && !get("count").is_f64());
    assert_eq!(get("text").as_str(), Some("a"));
    assert_eq!(get("list").as_array().map(Vec::len), Some(2));
    assert!(get("list").as_array().unwrap()[0].is_null());
    assert_eq!(value.as_object().unwrap().len(), 10);
    assert_eq!(value.get("absent"), None);
    assert_eq!(get("text").get("text"), None);
    assert_eq!(
        object([("a", Value::from(1)), ("a", Value::from(2))]).compact(),
        r#"{"a":2}"#
    );
}

#[test]
fn what_prints_differently_is_not_equal() {
    let texts = [
        "0",
        "0.0",
        "-0.0",
        "1",
        "1.0",
        "\"1\"",
        "null",
        "false",
        "[]",
        "{}",
        "\"é\"",
        "\"e\u{301}\"",
    ];
    for (left, text) in texts.iter().enumerate() {
        for (right, other) in texts.iter().enumerate() {
            assert_eq!(
                parse(text) == parse(other),
                left == right,
                "{text} and {other}"
            );
        }
    }
    assert_eq!(parse("-0"), parse("0"));
    assert_eq!(parse("1e2"), parse("100.00"));
}

/// Under this name `serde_json` hands numbers over. In a document it is a name like any other.
#[test]
fn the_name_that_marks_a_number_can_be_a_name() {
    let marker = "$serde_json::private::Number";
    for value in ["\"1\"", "\"x\"", "1.5", "null", "{}"] {
        let text = format!("{{\"{marker}\":{value}}}");
        let read = parse(&text).unwrap();
        assert_eq!(read.as_object().unwrap().len(), 1);
        assert_eq!(read.get(marker), parse(value).ok().as_ref());
        assert_eq!(read.compact(), text);
    }
    let text = format!("{{\"{marker}\":\"1\",\"{marker}\":\"1\"}}");
    assert_eq!(
        parse(&text).unwrap_err().to_string(),
        format!("line 1, column 37: duplicate name \"{marker}\"")
    );
    let text = format!("{{\"{marker}\":\"1\",\"b\":2}}");
    assert_eq!(parse(&text).unwrap().compact(), text);
}

#[test]
fn infinities_and_nan_are_no_values() {
    for float in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
        assert_eq!(Finite::try_from(float), Err(NotFinite));
    }
    assert_eq!(
        NotFinite.to_string(),
        "JSON has no text for an infinity or NaN"
    );
    assert_eq!(
        Finite::try_from(-0.0).map(Finite::get).map(f64::to_bits),
        Ok((-0.0_f64).to_bits())
    );
}

// ---- properties ----------------------------------------------------------------------------------------------------

fn any_finite() -> impl Strategy<Value = Finite> {
    any::<u64>().prop_filter_map("finite", |bits| Finite::try_from(f64::from_bits(bits)).ok())
}

fn any_text() -> impl Strategy<Value = String> {
    // Every second character ASCII: controls, quotes and backslashes would be rare otherwise.
    let character = prop_oneof![any::<char>(), (0_u8..0x80).prop_map(char::from)];
    proptest::collection::vec(character, 0..12).prop_map(String::from_iter)
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "-?[1-9][0-9]{18,60}".prop_map(|digits| parse(&digits).unwrap()),
        any_finite().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((any_text(), inner), 0..6).prop_map(object),
        ]
    })
}

/// Text that is often nearly JSON: pieces of the grammar in any order, or a valid text with one byte changed.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let pieces = proptest::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\":",
        "a",
        "\\",
        "\\u",
        "\\n",
        "0061",
        "d83d",
        "\\ud83d",
        "\\ude00",
        "0",
        "1",
        "-",
        "+",
        ".",
        "e",
        "E5",
        "true",
        "null",
        "NaN",
        " ",
        "\n",
        "\t",
        "é",
        "\u{1f600}",
        "/",
    ]);
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat().into_bytes()),
        (any_value(), any::<proptest::sample::Index>(), any::<u8>()).prop_map(
            |(value, index, byte)| {
                let mut text = value.spaced().into_bytes();
                let at = index.index(text.len());
                text[at] = byte;
                text
            }
        ),
        (any_value(), any::<proptest::sample::Index>()).prop_map(|(value, index)| {
            let mut text = value.pretty().into_bytes();
            text.remove(index.index(text.len()));
            text
        }),
    ]
}

/// Whether `serde_json`'s own reading of the same text says the same; it leaves the text of a float as it is.
fn assert_same(ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) if theirs.is_f64() => {
            let bits = |number: &serde_json::Number| number.as_f64().map(f64::to_bits);
            assert_eq!(bits(ours), bits(theirs));
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len());
            ours.iter()
                .zip(theirs)
                .for_each(|(ours, theirs)| assert_same(ours, theirs));
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            assert_eq!(ours.len(), theirs.len());
            ours.iter()
                .for_each(|(name, ours)| assert_same(ours, &theirs[name]));
        }
        _ => assert_eq!(ours, theirs),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back(value in any_value()) {
        for text in [value.compact(), value.spaced(), value.pretty()] {
            prop_assert!(text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{text:?}");
            prop_assert_eq!(&parse(&text).unwrap(), &value);
        }
    }

    #[test]
    fn serde_json_reads_what_is_printed(value in any_value()) {
        assert_same(&value, &serde_json::from_str(&value.compact()).unwrap());
    }

    #[test]
    fn floats_read_back_to_the_same_bits(float in any_finite()) {
        let text = Value::from(float).compact();
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), float.get().to_bits());
        prop_assert_eq!(parse(&text), Ok(Value::from(float)));
    }

    /// The texts are short, so that serde_json's own limit, 127 levels, stays out of reach. Then the two accept the same
    /// texts but for repeated names and floats beyond `f64`, whose text serde_json keeps.
    #[test]
    fn serde_json_accepts_the_same_texts(text in nearly_json()) {
        let theirs = serde_json::from_slice::<Value>(&text);
        match parse_bytes(&text) {
            Ok(_) => prop_assert!(theirs.is_ok(), "{theirs:?}"),
            Err(error) if error.reason() == "number too large" => {}
            Err(error) if error.reason().starts_with("duplicate name") => {}
            Err(error) => prop_assert!(theirs.is_err(), "{error}"),
        }
    }
}
