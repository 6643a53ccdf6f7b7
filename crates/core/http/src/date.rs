//! Dates in HTTP's format (RFC 9110 section 5.6.7). The `httpdate` crate does the calendar.

use std::fmt;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that a year of four digits can express: 9999-12-31T23:59:59Z. Later times are shown as this one.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

/// Bytes of an IMF-fixdate, as in `Sun, 06 Nov 1994 08:49:37 GMT`.
const TEXT_BYTES: usize = 29;

/// A second in time, with its text. A worker makes one each second, and every response borrows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HttpDate {
    unix_seconds: u64,
    text: [u8; TEXT_BYTES],
}

impl HttpDate {
    /// From seconds since 1970-01-01T00:00:00Z; beyond the year 9999, the last second of that year.
    pub fn new(unix_seconds: u64) -> Self {
        let unix_seconds = unix_seconds.min(UNIX_SECONDS_MAX);
        let mut text = [b' '; TEXT_BYTES];
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(unix_seconds));
        // `httpdate` always writes an IMF-fixdate, which has exactly this length, so the slice cannot be too short.
        let _ = write!(&mut text[..], "{date}");
        Self { unix_seconds, text }
    }

    /// Parses a peer's date, in any of the three forms that a recipient must accept. `None`: not a date, or before 1970.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let time: SystemTime =
            std::str::from_utf8(value).ok()?.parse::<httpdate::HttpDate>().ok()?.into();
        Some(Self::new(time.duration_since(UNIX_EPOCH).ok()?.as_secs()))
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub fn unix_seconds(&self) -> u64 {
        self.unix_seconds
    }

    /// The IMF-fixdate.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Debug for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instant that RFC 9110 section 5.6.7 uses for its examples.
    const EXAMPLE_UNIX_SECONDS: u64 = 784_111_777;

    #[test]
    fn the_three_forms_of_a_date_are_the_same_instant() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            let date = HttpDate::parse(text.as_bytes()).map(|date| date.unix_seconds());
            assert_eq!(date, Some(EXAMPLE_UNIX_SECONDS), "{text}");
        }
    }

    #[test]
    fn a_date_is_written_as_imf_fixdate() {
        assert_eq!(
            HttpDate::new(EXAMPLE_UNIX_SECONDS).as_bytes(),
            b"Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(HttpDate::new(0).as_bytes(), b"Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn a_file_time_beyond_the_calendar_is_held_at_its_end() {
        assert_eq!(HttpDate::new(u64::MAX).as_bytes(), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn what_is_not_a_date_is_none() {
        for text in [
            "",
            "0",
            "yesterday",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "\u{e9}",
        ] {
            assert_eq!(HttpDate::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(HttpDate::parse(&[0xff; 29]), None);
    }
}
