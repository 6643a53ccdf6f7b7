//! Dates as origins write them (RFC 9110 section 5.6.7), also with names in another case, or with the wrong weekday. The date itself says
//! enough, and a lifetime that is lost costs the origin a request for each viewer.

use httpdate::HttpDate;
use std::time::{SystemTime, UNIX_EPOCH};

/// Their names in the three formats.
const WEEKDAYS: [&str; 14] = [
    "Mon",
    "Tue",
    "Wed",
    "Thu",
    "Fri",
    "Sat",
    "Sun",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The date in a text, in seconds since 1970, if it is one.
pub(crate) fn unix_seconds(text: &str) -> Option<u64> {
    let date = text.parse().ok().or_else(|| leniently(text))?;
    Some(SystemTime::from(date).duration_since(UNIX_EPOCH).ok()?.as_secs())
}

fn leniently(text: &str) -> Option<HttpDate> {
    let (weekday, rest) = text.split_at(text.find([',', ' '])?);
    if !WEEKDAYS.iter().any(|name| name.eq_ignore_ascii_case(weekday)) {
        return None;
    }
    let rest = capitalized(rest).replace(" Gmt", " GMT");
    // The library refuses all weekdays but the right one.
    WEEKDAYS.iter().find_map(|name| format!("{name}{rest}").parse().ok())
}

fn capitalized(text: &str) -> String {
    let mut is_inside = false;
    let letter = |one: char| {
        let is_first = !std::mem::replace(&mut is_inside, one.is_ascii_alphabetic());
        if is_first { one.to_ascii_uppercase() } else { one.to_ascii_lowercase() }
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_in_any_case_and_with_any_weekday() {
        for text in [
            "Thu, 18 Aug 2050 02:01:18 GMT",
            "THU, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 AUG 2050 02:01:18 gMT",
            "Mon, 18 Aug 2050 02:01:18 GMT",
            "thu Aug 18 02:01:18 2050",
            "Fri Aug 18 02:01:18 2050",
        ] {
            assert_eq!(unix_seconds(text), Some(2_544_400_878), "{text}");
        }
        assert_eq!(unix_seconds("MONDAY, 06-NOV-94 08:49:37 GMT"), Some(784_111_777));
    }

    #[test]
    fn what_is_no_date_stays_none() {
        for text in [
            "",
            "0",
            ", ",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu,  18  Aug  2050  02:01:18  GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 31 Feb 2050 02:01:18 GMT",
            "Day, 18 Aug 2050 02:01:18 GMT",
            "Donnerstag, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 Aug 9999999999 02:01:18 GMT",
            "\u{e9}, 18 Aug 2050 02:01:18 GMT",
        ] {
            assert_eq!(unix_seconds(text), None, "{text}");
        }
    }
}
