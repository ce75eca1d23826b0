"""Writes down what CPython's json module answers, for tests/json.rs to compare with.

    python3 tests/data/python_json.py

rewrites two files beside this one. They were made with CPython 3.11.7; another version should change nothing.

python_json.jsonl    one case a line: "input", and the text of its value as "compact", "spaced", "pretty"
python_floats.txt    floats as BITS=REPR, eight a line: the 64 bits in hexadecimal and what repr gives
"""

import json
import math
import random
import struct
from pathlib import Path

HERE = Path(__file__).parent

CASES = [
    # words and empty containers
    'null', 'true', 'false', '[]', '{}', '""', '[[]]', '[{}]', '{"":{}}', '{"a":[]}', '[[],[],{}]',
    # space of every kind and place
    ' 1', '1 ', '\t\r\n 1 \n\r\t', '[ ]', '{ }', '[ 1 , 2 ]', '{ "a" : 1 , "b" : 2 }', '\n{\n\t"a":\r\n[\n]\n}\n', '[1\t,\n2\r]',
    # integers
    '0', '-0', '1', '-1', '10', '42', '-100', '[0,-0,1,-1]',
    '2147483647', '-2147483648', '4294967296', '9007199254740991', '9007199254740993', '-9007199254740993',
    '9223372036854775807', '-9223372036854775808', '9223372036854775808', '-9223372036854775809',
    '18446744073709551615', '18446744073709551616', '18446744073709551617',
    '10000000000000000000000000000000000000001', '-12345678901234567890123456789012345678901234567890',
    '1' + '0' * 400, '9' * 4300,
    # floats: sign, zero, thresholds of the exponent form
    '0.0', '-0.0', '0e0', '-0e5', '0.0000', '-0E-0', '49.0', '1.0', '1.50', '-2.25', '0.1', '0.30000000000000004', '100.0',
    '0.0001', '0.00012345', '0.00001', '0.000099999', '1e-4', '1e-5', '-1e-5',
    '1e15', '1e16', '1.5e16', '123456789012345678.0', '9999999999999998.0', '9999999999999999.0', '1e17', '1e21', '1e22', '1e23',
    # exponents of every shape
    '1e5', '1E5', '1e+5', '1E+5', '1e-2', '1E-2', '1e05', '1e+005', '1e-000', '12.5e3', '12.5E-3', '1.0e0', '-1.25e+2',
    '1e99', '1e100', '1e-99', '1e-100', '123e-320', '1e308', '1.7976931348623157e308', '-1.7976931348623157e+308',
    '2.2250738585072014e-308', '2.225073858507201e-308', '5e-324', '4.9e-324', '3e-324', '2e-324', '-2e-324', '1e-400', '0e400',
    '0.' + '0' * 330 + '1', '1' + '0' * 300 + '.0', '3.14159265358979323846264338327950288419716939937510',
    # halfway between two shortest forms, where the even one is taken
    '5.9604644775390625e-07', '2.98023223876953125e-08', '1.07288360595703125e-06', '5.6843418860808015e-14',
    # strings
    '"a"', '"with space"', '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"/"', '"\\u0000\\u0001\\u001f"', '"\\u007f"', '"\x7f"', '"\\u0080\\u009f\\u00a0"',
    '"\\u0041\\u00e9\\u00E9"', '"é"', '"ÿ"', '"Ā"', '"ß ẞ"', '"漢字"', '"\u2028\u2029"', '"\ufeff"', '"\uffff\ufffe"', '"\ud7ff\ue000"',
    '"\U0001f600"', '"\\ud83d\\ude00"', '"\\uD83D\\uDE00"', '"\U00010000"', '"\U0010ffff"', '"\\udbff\\udfff"', '"a\U0001f600b\\ud83d\\ude00c"',
    '"e\u0301"', '"\u202e\u200d\u00ad"', '"~ !"', '"<script>&\'"', '"\\\\u0041"', '"\\\\\\\\\\""',
    # nesting
    '[1,[2,[3,[4,[5]]]]]', '{"a":{"b":{"c":{"d":null}}}}', '[{"a":[{"b":[{}]}]}]', '[' * 128 + ']' * 128,
    '[null,true,false,0,0.0,"",[],{}]',
    # names: order, escapes, emptiness
    '{"b":1,"a":2}', '{"a":1,"B":2,"_":3,"10":4,"9":5,"":6}', '{"aa":1,"a":2,"ab":3,"a ":4}', '{"\\u0062":1,"a":2}',
    '{"\\u0000":1,"\\n":2," ":3,"!":4}', '{"é":1,"e":2,"f":3,"z":4}', '{"\uffff":1,"\U00010000":2,"\ue000":3,"\ud7ff":4}',
    '{"\\ud83d\\ude00":1,"\\uff5e":2,"\\u00ff":3,"~":4}', '{"\x7f":1,"\\u0080":2}', '{"a\\"b":1,"a\\\\b":2,"a/b":3}',
    # payloads of the article
    '{"project":"demo-agent","title":"Investigate a synthetic queue backlog","priority":"normal"}',
    '{"order_id":"A-7","amount":49.0}', '{"order_id":"A-7","amount":49}', '{"tickets":2,"attempts":2}', '{"attempts":8,"tickets":1,"returned_ticket_ids":[1]}',
    '{"ticket_id":1}',
]


def refuse(word):
    raise ValueError(word)


def case(text):
    value = json.loads(text, parse_constant=refuse)
    return {
        "input": text,
        "compact": json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False),
        "spaced": json.dumps(value, sort_keys=True, allow_nan=False),
        "pretty": json.dumps(value, sort_keys=True, indent=2, allow_nan=False),
    }


def bits(number):
    return struct.unpack(">Q", struct.pack(">d", number))[0]


def floats():
    draw = random.Random(20261130).getrandbits
    found = [0.0, -0.0]
    # any bits
    found += [struct.unpack(">d", struct.pack(">Q", draw(64)))[0] for _ in range(900)]
    # few significant bits: among these are numbers halfway between two shortest forms
    found += [math.ldexp(draw(1 + draw(3)) + 1, exponent) for exponent in range(-80, 0) for _ in range(5)]
    found += [math.ldexp(draw(53) | 1, -draw(6)) for _ in range(200)]
    # powers, where the gap below a float is half the gap above
    found += [math.ldexp(1, exponent) for exponent in range(-1074, 1024, 9)]
    found += [float("1e%d" % exponent) for exponent in range(-323, 309, 5)]
    # money, ratios, and the edges of the exponent form with their neighbours
    found += [draw(20) / 100 for _ in range(100)] + [draw(10) / (1 + draw(10)) for _ in range(100)]
    for edge in (1e-5, 1e-4, 1e15, 1e16, 1e17, 2.0**53, 2.0**63, 2.0**64, 2.2250738585072014e-308):
        found += [math.nextafter(edge, 0), edge, math.nextafter(edge, math.inf)]
    # subnormal numbers
    found += [math.ldexp(draw(1 + draw(5)) + 1, -1074) for _ in range(60)]
    unique = {bits(number): number for number in found if math.isfinite(number)}
    return [f"{key:016x}={number!r}" for key, number in unique.items()]


def main():
    lines = [json.dumps(case(text)) + "\n" for text in CASES]
    (HERE / "python_json.jsonl").write_text("".join(lines), encoding="ascii")
    pairs = floats()
    lines = [" ".join(pairs[at : at + 8]) + "\n" for at in range(0, len(pairs), 8)]
    (HERE / "python_floats.txt").write_text("".join(lines), encoding="ascii")
    print(f"{len(CASES)} cases, {len(pairs)} floats")


main()
