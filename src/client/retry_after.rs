use std::time::{Duration, UNIX_EPOCH};

/// Bytes of the longest date, a Wednesday in the second of the three formats.
const LONGEST_DATE: usize = "Wednesday, 09-Nov-94 08:49:37 GMT".len();

/// What a `Retry-After` header asks for: [RFC 9110, section
/// 10.2.3](https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// Wait this long, counted from the answer. Whole seconds.
    Seconds(Duration),
    /// Wait until this time, given as time since the Unix epoch.
    At(Duration),
}

impl RetryAfter {
    /// Reads the value of a header. `None` for what the RFC does not allow.
    ///
    /// Spaces and tabs around the value are ignored (section 5.6.3). The value is one of:
    ///
    /// - a number of seconds: ASCII digits only, so no sign and no fraction. A number too large
    ///   for 64 bits counts as the largest that fits.
    /// - a date in one of the three formats of section 5.6.7, always in GMT. Case matters, the day
    ///   of the week must be that of the date, and a leap second (`23:59:60`) is the second after
    ///   `23:59:59`.
    ///
    /// Two readings are narrower than the RFC's. A year of two digits lies between 1970 and 2069,
    /// because no current time is at hand to choose the century by. A date before 1970 is `None`.
    pub fn parse(header: &str) -> Option<Self> {
        let value = header.trim_matches([' ', '\t']);
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            let seconds = value.bytes().fold(0u64, |seconds, digit| {
                seconds
                    .saturating_mul(10)
                    .saturating_add(u64::from(digit - b'0'))
            });
            return Some(Self::Seconds(Duration::from_secs(seconds)));
        }
        date(value).map(Self::At)
    }

    /// How long to wait at the time `now_since_epoch` (since the Unix epoch). Zero for a date that
    /// is past.
    pub fn delay(&self, now_since_epoch: Duration) -> Duration {
        match self {
            Self::Seconds(delay) => *delay,
            Self::At(then) => then.saturating_sub(now_since_epoch),
        }
    }
}

/// Time from the epoch to a date.
fn date(value: &str) -> Option<Duration> {
    // The crate would ignore more kinds of white space around the date than the RFC.
    if value.len() > LONGEST_DATE || value.trim().len() != value.len() {
        return None;
    }
    // Nor does it know leap seconds, which UTC has at the end of a day only.
    let (time, leap) = match value.split_once("23:59:60") {
        Some((before, after)) => (
            httpdate::parse_http_date(&format!("{before}23:59:59{after}")),
            1,
        ),
        None => (httpdate::parse_http_date(value), 0),
    };
    let since_epoch = time.ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(since_epoch + Duration::from_secs(leap))
}
