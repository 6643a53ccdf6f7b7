//! Paths and queries of requests: percent-decoding, and players' reports about themselves.

use fleet_protocol::Name;

use crate::manifest::ManifestKind;

/// Decodes `%XX`. `None` if a `%` is not followed by two digits, or if the result is not UTF-8.
pub(crate) fn decoded(text: &str) -> Option<String> {
    String::from_utf8(escape::percent::decode(text.as_bytes())?).ok()
}

/// The first value of a parameter, decoded like an HTML form, where `+` is a space.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    decoded(&value.replace('+', " "))
}

/// A player's report about the node that it plays from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    /// The pathway. dash.js lists all that it has used since its last request, the fastest first; this is the first one.
    pub(crate) pathway: Option<Name>,
    /// Its throughput, which is not verified.
    pub(crate) bits_per_second: Option<u64>,
}

impl Reported {
    /// `_HLS_pathway`, `_HLS_throughput` (RFC 8216, second edition, section 7), or DASH's (ETSI TS 103 998, section 8). Values may have quotes.
    pub(crate) fn of(kind: ManifestKind, query: &str) -> Self {
        let (pathway, throughput) = match kind {
            ManifestKind::Hls => ("_HLS_pathway", "_HLS_throughput"),
            ManifestKind::Dash => ("_DASH_pathway", "_DASH_throughput"),
        };
        let first = |name: &str| {
            let value = parameter(query, name)?;
            Some(value.trim_matches('"').split(',').next()?.trim().to_owned())
        };
        Self {
            pathway: first(pathway).and_then(|name| name.parse().ok()),
            bits_per_second: first(throughput).and_then(|rate| rate.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_decoded_once() {
        assert_eq!(decoded("a%20b%2fc%25").as_deref(), Some("a b/c%"));
        assert_eq!(decoded("%C3%A4").as_deref(), Some("ä"));
        for bad in ["%", "%2", "%zz", "%+1", "%ff", "a%C3"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_first_parameter_of_a_name_counts() {
        let query = "a=1+2&b=%2B&a=3&ab=4&c";
        assert_eq!(parameter(query, "a").as_deref(), Some("1 2"));
        assert_eq!(parameter(query, "b").as_deref(), Some("+"));
        assert_eq!(parameter(query, "c"), None);
    }

    #[test]
    fn players_reports_are_read_as_each_writes_them() {
        let reported = |name: &str, rate| Reported {
            pathway: Some(name.parse().expect("a name")),
            bits_per_second: rate,
        };
        for (kind, query, expected) in [
            (
                ManifestKind::Hls,
                "s=1&_HLS_pathway=node-1&_HLS_throughput=5140000",
                reported("node-1", Some(5_140_000)),
            ),
            (ManifestKind::Hls, "_HLS_pathway=%22node-1%22", reported("node-1", None)),
            // hls.js truncates to 32 bits: above 2 Gb/s it reports a negative number.
            (ManifestKind::Hls, "_HLS_pathway=a&_HLS_throughput=-5", reported("a", None)),
            (
                ManifestKind::Dash,
                "_DASH_pathway=%22b%2Ca%22&_DASH_throughput=7000,6000",
                reported("b", Some(7000)),
            ),
            (ManifestKind::Dash, "_DASH_pathway=%22%22&_DASH_throughput=", Reported::default()),
            (ManifestKind::Dash, "_HLS_pathway=a", Reported::default()),
            (ManifestKind::Hls, "_HLS_pathway=../../etc", Reported::default()),
        ] {
            assert_eq!(Reported::of(kind, query), expected, "{query}");
        }
    }
}
