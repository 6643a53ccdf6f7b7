//! Dates with a time of day (RFC 3339, and the forms of ISO 8601 that packagers write).

use std::time::Duration;

const DAY_SECONDS: i64 = 86_400;

/// Parses a date such as `2026-11-30T07:31:47.5Z` to the time since 1970. Offsets may be `+01:00` or `+0100`; without one, the date is in UTC.
/// `None` for other texts, and for dates before 1970.
pub(super) fn since_1970(text: &str) -> Option<Duration> {
    let (date, time) = text.trim().split_once('T')?;
    let mut date = date.split('-');
    let year = within(date.next()?, 1970, 9999)?;
    let (month, day) = (within(date.next()?, 1, 12)?, within(date.next()?, 1, 31)?);
    let (time, offset) = time.split_at(time.find(['Z', '+', '-']).unwrap_or(time.len()));
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (within(time.next()?, 0, 24)?, within(time.next()?, 0, 59)?);
    let seconds: f64 = time.next()?.parse().ok()?;
    let whole = days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60;
    let whole = u64::try_from(whole - offset_seconds(offset)?).ok()?;
    // A leap second is the 61st.
    let seconds = Some(seconds).filter(|seconds| (0.0..61.0).contains(seconds))?;
    Some(Duration::from_secs(whole) + Duration::from_secs_f64(seconds))
}

fn within(text: &str, min: i64, max: i64) -> Option<i64> {
    text.parse().ok().filter(|number| (min..=max).contains(number))
}

fn offset_seconds(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first() {
        None | Some(b'Z') => return Some(0),
        Some(b'-') => -1,
        Some(_) => 1,
    };
    let digits = text[1..].replace(':', "");
    let (hours, minutes) = (digits.get(..2)?, digits.get(2..).filter(|text| !text.is_empty()));
    let minutes = minutes.map_or(Some(0), |text| within(text, 0, 59))?;
    Some(sign * (within(hours, 0, 23)? * 3600 + minutes * 60))
}

/// Days since 1970 in the Gregorian calendar. Years are counted from March, so that a leap day is the last one; 400 of them have 146,097 days.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    // The days from the year 0 to 1970, counted in the same way.
    before + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_forms_that_packagers_write() {
        let seconds = |text| since_1970(text).map(|since| since.as_secs_f64());
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(seconds("2000-03-01T00:00:00Z"), Some(951_868_800.0));
        for text in [
            "2026-11-30T07:31:47.5Z",
            "2026-11-30T07:31:47.500+0000",
            "2026-11-30T08:31:47.5+01:00",
            "2026-11-30T02:31:47.5-05",
            "2026-11-30T07:31:47.5",
        ] {
            assert_eq!(seconds(text), Some(1_796_023_907.5), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "T",
            "2026-11-30",
            "2026-13-30T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-30T07:31Z",
            "2026-11-30T07:31:99Z",
            "2026-11-30T07:31:NaNZ",
            "2026-11-30T07:31:47+",
            "2026-11-30T07:31:47+1",
            "2026-11-30T07:31:47+\u{e9}\u{e9}",
            "1970-01-01T00:00:00+01:00",
        ] {
            assert_eq!(since_1970(text), None, "{text}");
        }
    }
}
