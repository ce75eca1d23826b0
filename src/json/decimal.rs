//! The nearest `f64` to a decimal number and the shortest decimal number for an `f64`, by whole-number arithmetic alone.
//!
//! The standard library reads and prints in less time, but brings code and tables of powers of ten that are 20 KB of
//! the gzipped wasm module. Here the worst text, 1 MiB of `1e-300`, takes 0.2 s to read.

use std::cmp::Ordering;

use super::MAX_TEXT_BYTES;

/// How many significant digits are read. No `f64` and no midpoint between two of them has more, so of the digits
/// after these it only matters whether all are zeros.
const MOST_DIGITS: u32 = 768;

/// An exponent that no digits of a text can make up for.
const FAR: i32 = 16 * MAX_TEXT_BYTES as i32;

/// The nearest `f64` to the number that this text writes, of two equally near the one whose last bit is 0; an infinity
/// when it lies beyond the largest.
///
/// The text is a number as RFC 8259 has it, of at most [`MAX_TEXT_BYTES`].
pub(super) fn nearest(text: &str) -> f64 {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (-1.0, magnitude),
        None => (1.0, text),
    };
    sign * Decimal::read(magnitude).nearest()
}

/// The number `digits` × 10^`exponent`, and a little more when `inexact`.
struct Decimal {
    digits: Whole,
    /// How many digits `digits` has; none for zero.
    count: u32,
    exponent: i32,
    inexact: bool,
}

impl Decimal {
    fn read(text: &str) -> Self {
        let mut read = Self {
            digits: Whole(Vec::new()),
            count: 0,
            exponent: 0,
            inexact: false,
        };
        let mut bytes = text.bytes();
        let mut fraction = false;
        for byte in bytes.by_ref() {
            match byte {
                b'0'..=b'9' => read.push(byte - b'0', fraction),
                b'.' => fraction = true,
                _ => break,
            }
        }
        let mut exponent = 0;
        let mut negative = false;
        for byte in bytes {
            match byte {
                b'0'..=b'9' => exponent = FAR.min(exponent * 10 + i32::from(byte - b'0')),
                b'-' => negative = true,
                _ => {}
            }
        }
        read.exponent += if negative { -exponent } else { exponent };
        read
    }

    fn push(&mut self, digit: u8, fraction: bool) {
        if self.count == MOST_DIGITS {
            self.inexact |= digit != 0;
            self.exponent += i32::from(!fraction);
            return;
        }
        self.exponent -= i32::from(fraction);
        if self.count > 0 || digit != 0 {
            self.digits.multiply_add(10, digit.into());
            self.count += 1;
        }
    }

    fn nearest(mut self) -> f64 {
        // The number is below 10^top and, unless it is zero, not below 10^(top - 1). Near the ends of the range the
        // bits decide.
        let top = self.exponent + self.count as i32;
        if self.count == 0 || top < f64::MIN_10_EXP - 20 {
            return 0.0;
        }
        if top > f64::MAX_10_EXP + 1 {
            return f64::INFINITY;
        }

        // 10^exponent is 5^exponent × 2^exponent. The second factor only moves the point.
        let mut point = self.exponent;
        let fives = Fives(self.exponent.unsigned_abs());
        // Two limbs more than the digits fill leave 65 bits or more, and no division takes more than a limb.
        let mut limbs = 2;
        if self.exponent < 0 {
            limbs += fives.clone().count();
        }
        self.digits.0.splice(0..0, std::iter::repeat_n(0, limbs));
        point -= 32 * limbs as i32;
        for power in fives {
            if self.exponent < 0 {
                self.inexact |= self.digits.divide(power) != 0;
            } else {
                self.digits.multiply_add(power, 0);
            }
        }

        // The three highest limbs hold 65 to 96 bits.
        let below = self.digits.0.len() - 3;
        point += 32 * below as i32;
        let (low, high) = self.digits.0.split_at(below);
        let inexact = self.inexact || low.iter().any(|limb| *limb != 0);
        let high = high
            .iter()
            .rfold(0, |high, limb| high << 32 | u128::from(*limb));
        round(high, point, inexact)
    }
}

/// The nearest `f64` to `bits` × 2^`point`, or to a little more when `inexact`. `bits` has at least 65 bits.
fn round(bits: u128, point: i32, inexact: bool) -> f64 {
    /// The exponent of the smallest `f64`.
    const SMALLEST: i32 = f64::MIN_EXP - f64::MANTISSA_DIGITS as i32;

    // The exponent of the first bit, and that of the last one that an f64 of this size has.
    let first = point + bits.ilog2() as i32;
    let last = SMALLEST.max(first - 52);
    if first >= f64::MAX_EXP {
        return f64::INFINITY;
    }
    if first < SMALLEST - 1 {
        return 0.0;
    }
    let dropped = last - point;
    let half = 1 << (dropped - 1);
    let rest = bits & (2 * half - 1);
    let mut kept = (bits >> dropped) as u64;
    if rest > half || rest == half && (inexact || kept & 1 == 1) {
        kept += 1;
    }
    // Bits above the lowest 52 of `kept` carry into the exponent. So does the first bit, which an f64 does not store:
    // hence an exponent that is lower by one than what the f64 has there.
    f64::from_bits(kept + (((last - SMALLEST) as u64) << 52))
}

/// The shortest digits that read back as this float, which is finite and above zero, and the exponent of the first: of
/// 0.0625 they are 6, 2, 5 and the exponent is -2. Of several as short, those nearest to the float, of two as near
/// those that end in an even digit: the digits of CPython's `repr`.
///
/// Steele and White, "How to print floating-point numbers accurately" (1990), with the scaling of Burger and Dybvig,
/// "Printing floating-point numbers quickly and accurately" (1996).
pub(super) fn shortest(float: f64) -> (Vec<u8>, i32) {
    let bits = float.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let (significand, point) = match (bits >> 52) as i32 {
        0 => (fraction, -1074),
        stored => (fraction | 1 << 52, stored - 1075),
    };
    // An even significand wins the numbers halfway to its neighbours.
    let even = significand & 1 == 0;
    // At a power of two the next smaller float is only half as far away.
    let near = fraction == 0 && bits >> 52 > 1;

    // The exponent after that of the first digit, or one less: log10(2) is 0.30103, and no power of two that a float has
    // lies so near below a power of ten that its other digits would matter.
    let first_bit = point + significand.ilog2() as i32;
    let mut exponent = (first_bit * 30_103).div_euclid(100_000) + 1;

    // The float is rest / unit × 10^exponent. What lies less than gap above rest, or as much below it (half as much where
    // the next smaller float is near), reads back as the same.
    let mut rest = Whole(vec![significand as u32, (significand >> 32) as u32]);
    let mut gap = Whole(vec![1]);
    let mut unit = Whole(vec![2]);
    rest.trim();
    rest.multiply_add(2, 0);
    for power in Fives(exponent.unsigned_abs()) {
        if exponent > 0 {
            unit.multiply_add(power, 0);
        } else {
            rest.multiply_add(power, 0);
            gap.multiply_add(power, 0);
        }
    }
    rest.double(point - exponent);
    gap.double(point - exponent);
    unit.double(exponent - point);
    let within = |order: Ordering| order == Ordering::Less || even && order == Ordering::Equal;
    while within(unit.cmp(&rest.plus(&gap))) {
        unit.multiply_add(10, 0);
        exponent += 1;
    }

    let mut digits = Vec::new();
    loop {
        rest.multiply_add(10, 0);
        gap.multiply_add(10, 0);
        let mut digit = 0;
        while rest.cmp(&unit) != Ordering::Less {
            rest.subtract(&unit);
            digit += 1;
        }
        let low = if near {
            within(rest.plus(&rest).cmp(&gap))
        } else {
            within(rest.cmp(&gap))
        };
        let high = within(unit.cmp(&rest.plus(&gap)));
        if !low && !high {
            digits.push(digit);
            continue;
        }
        let up = match rest.plus(&rest).cmp(&unit) {
            _ if !low => true,
            _ if !high => false,
            Ordering::Equal => digit % 2 == 1,
            order => order == Ordering::Greater,
        };
        digits.push(digit + u8::from(up));
        return (digits, exponent - 1);
    }
}

/// Powers of five that fit a limb and multiply to 5 to this power.
#[derive(Clone)]
struct Fives(u32);

impl Iterator for Fives {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let step = self.0.min(13);
        self.0 -= step;
        (step > 0).then(|| 5u32.pow(step))
    }
}

/// A whole number in limbs of 32 bits, the lowest first and the highest not zero.
#[derive(Clone)]
struct Whole(Vec<u32>);

impl Whole {
    /// Doubles this many times; not at all when negative.
    fn double(&mut self, times: i32) {
        let times = times.max(0) as usize;
        self.multiply_add(1 << (times % 32), 0);
        self.0.splice(0..0, std::iter::repeat_n(0, times / 32));
    }

    fn plus(&self, other: &Self) -> Self {
        let (longer, shorter) = if self.0.len() < other.0.len() {
            (other, self)
        } else {
            (self, other)
        };
        let mut sum = longer.clone();
        let mut carry = 0;
        for (at, limb) in sum.0.iter_mut().enumerate() {
            carry += u64::from(*limb);
            if at < shorter.0.len() {
                carry += u64::from(shorter.0[at]);
            }
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            sum.0.push(carry as u32);
        }
        sum
    }

    /// Subtracts what is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0;
        for (at, limb) in self.0.iter_mut().enumerate() {
            borrow += i64::from(*limb) - other.0.get(at).map_or(0, |limb| i64::from(*limb));
            *limb = borrow as u32;
            borrow >>= 32;
        }
        self.trim();
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply_add(&mut self, factor: u32, term: u32) {
        let mut carry = u64::from(term);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides and gives the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for limb in self.0.iter_mut().rev() {
            rest = rest << 32 | u64::from(*limb);
            *limb = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        self.trim();
        rest as u32
    }
}
