//! The claim `catu`: the URIs that a token is for.
//!
//! It compares parts of the requested URI with texts or hashes; all comparisons have to match. Paths are compared decoded, so that every spelling
//! of a path, in the claim or in the request, means the same. Regular expressions are refused: their cost can't be limited simply.

use std::borrow::Cow;

use aws_lc_rs::digest::{self, SHA256, SHA512_256};
use coset::cbor::Value;
use data_encoding::HEXLOWER;
use escape::percent;

use super::{CAT_ARGUMENT, CatFault, CatRequest};
use crate::place;

/// Rules of a claim. Issuers write two or three, and each is compared with each request.
const RULES_MAX: usize = 256;

/// A part of a URI, by its number in the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UriPart {
    Scheme = 0,
    Host = 1,
    Port = 2,
    Path = 3,
    Query = 4,
    ParentPath = 5,
    Filename = 6,
    Stem = 7,
    Extension = 8,
}

/// A comparison, by its number in the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Exact,
    Prefix,
    Suffix,
    Contains,
    Sha256,
    Sha512Half,
}

/// One part of the URI, how it is compared, and with what.
#[derive(Debug)]
struct UriRule {
    part: UriPart,
    comparison: Comparison,
    value: Box<[u8]>,
}

/// The rules of a claim, in the order of their parts.
#[derive(Debug)]
pub(super) struct UriRules {
    rules: Vec<UriRule>,
    /// Whether one of them may be for a path as it was sent instead of the composed one.
    may_be_decomposed: bool,
}

impl UriPart {
    const ALL: [Self; 9] = [
        Self::Scheme,
        Self::Host,
        Self::Port,
        Self::Path,
        Self::Query,
        Self::ParentPath,
        Self::Filename,
        Self::Stem,
        Self::Extension,
    ];

    fn of(number: i128) -> Option<Self> {
        Self::ALL.into_iter().find(|part| *part as i128 == number)
    }

    fn is_of_path(self) -> bool {
        !matches!(self, Self::Scheme | Self::Host | Self::Port | Self::Query)
    }

    /// A claim's text in the form that is compared.
    fn normal(self, text: &str) -> Box<[u8]> {
        match self {
            Self::Scheme | Self::Host => text.to_ascii_lowercase().into_bytes(),
            Self::Port | Self::Query => text.as_bytes().to_vec(),
            _ => percent::decode_leniently(text.as_bytes()),
        }
        .into()
    }

    /// The texts of this part, of which one has to match; of a stem and an extension, both, where a name has several dots: readers of the
    /// standard differ about which dot counts.
    fn texts<'r>(self, request: &CatRequest<'r>, path: &'r [u8]) -> Vec<Cow<'r, [u8]>> {
        let (parent, filename) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], path),
        };
        let dots = || {
            let is_dot = |byte: &u8| *byte == b'.';
            let first = filename.iter().position(is_dot).unwrap_or(filename.len());
            [first, filename.iter().rposition(is_dot).unwrap_or(filename.len())]
        };
        match self {
            Self::Scheme => vec![Cow::Borrowed(scheme(request).as_bytes())],
            Self::Host => {
                let host = split_host(request.host).0;
                // A name in DNS may end with a dot.
                let host = host.strip_suffix(b".").unwrap_or(host);
                vec![host.to_ascii_lowercase().into()]
            }
            Self::Port => ports(request),
            Self::Path => vec![[b"/", path].concat().into()],
            Self::Query => vec![query(request.query).into()],
            Self::ParentPath if parent.is_empty() => vec![Cow::Borrowed(parent)],
            Self::ParentPath => vec![[b"/", parent].concat().into()],
            Self::Filename => vec![filename.into()],
            Self::Stem => dots().map(|dot| Cow::Borrowed(&filename[..dot])).into(),
            Self::Extension => dots().map(|dot| Cow::Borrowed(&filename[dot..])).into(),
        }
    }
}

impl UriRules {
    /// The rules in the value of the claim.
    pub(super) fn parse(value: &Value) -> Result<Self, CatFault> {
        let Value::Map(parts) = value else { return Err(malformed()) };
        let mut rules: Vec<UriRule> = Vec::new();
        for (part, comparisons) in parts {
            let Value::Integer(part) = part else { return Err(malformed()) };
            let part = UriPart::of(i128::from(*part))
                .ok_or(CatFault::unsupported("catu with an unknown part of a URI"))?;
            let Value::Map(comparisons) = comparisons else { return Err(malformed()) };
            // It would restrict nothing.
            if comparisons.is_empty() {
                return Err(malformed());
            }
            for (comparison, value) in comparisons {
                let Value::Integer(comparison) = comparison else { return Err(malformed()) };
                rules.push(UriRule::parse(part, i128::from(*comparison), value)?);
            }
        }
        if rules.is_empty() || rules.len() > RULES_MAX {
            return Err(malformed());
        }
        rules.sort_by_key(|rule| rule.part as u8);
        let may_be_decomposed = rules.iter().any(UriRule::may_be_decomposed);
        Ok(Self { rules, may_be_decomposed })
    }

    /// Whether the rules allow `request`, by one of the spellings of its path. A rule in composed form is not compared with a decomposed path, which
    /// has a letter without its accent: `/e` would be a prefix of `/é`.
    pub(super) fn allow(&self, request: &CatRequest<'_>) -> bool {
        let [composed, as_sent] = request.paths;
        self.allow_path(request, composed)
            || self.may_be_decomposed && composed != as_sent && self.allow_path(request, as_sent)
    }

    fn allow_path(&self, request: &CatRequest<'_>, path: &[u8]) -> bool {
        // One text has to match all comparisons of its part.
        self.rules.chunk_by(|one, other| one.part == other.part).all(|rules| {
            let part = rules[0].part;
            let mut texts = part.texts(request, path).into_iter();
            let matches_all = |text: Cow<'_, [u8]>| rules.iter().all(|rule| rule.matches(&text));
            match part {
                UriPart::Stem | UriPart::Extension => texts.all(matches_all),
                _ => texts.any(matches_all),
            }
        })
    }
}

impl UriRule {
    fn parse(part: UriPart, number: i128, value: &Value) -> Result<Self, CatFault> {
        let comparison = match number {
            0 => Comparison::Exact,
            1 => Comparison::Prefix,
            2 => Comparison::Suffix,
            3 => Comparison::Contains,
            4 => return Err(CatFault::unsupported("catu with a regular expression")),
            -1 => Comparison::Sha256,
            -2 => Comparison::Sha512Half,
            _ => return Err(CatFault::unsupported("catu with an unknown comparison")),
        };
        let value = match (comparison, value) {
            (Comparison::Sha256 | Comparison::Sha512Half, Value::Bytes(hash)) => {
                hash.clone().into()
            }
            // Some issuers write the digits of a hash.
            (Comparison::Sha256 | Comparison::Sha512Half, Value::Text(digits)) => {
                HEXLOWER.decode(digits.as_bytes()).map_err(|_| malformed())?.into()
            }
            (_, Value::Text(text)) => part.normal(text),
            _ => return Err(malformed()),
        };
        Ok(Self { part, comparison, value })
    }

    /// A hash doesn't tell what it is of.
    fn may_be_decomposed(&self) -> bool {
        let is_hash = matches!(self.comparison, Comparison::Sha256 | Comparison::Sha512Half);
        self.part.is_of_path()
            && (is_hash || *escape::unicode::composed(&self.value) != *self.value)
    }

    fn matches(&self, text: &[u8]) -> bool {
        let value = &*self.value;
        match self.comparison {
            Comparison::Exact => text == value,
            Comparison::Prefix => text.starts_with(value),
            Comparison::Suffix => text.ends_with(value),
            Comparison::Contains => {
                value.is_empty() || text.windows(value.len()).any(|window| window == value)
            }
            Comparison::Sha256 => self.is_hash_of(&SHA256, text),
            Comparison::Sha512Half => self.is_hash_of(&SHA512_256, text),
        }
    }

    /// A hash may be of a path as it is, or as it is in a URL.
    fn is_hash_of(&self, algorithm: &'static digest::Algorithm, text: &[u8]) -> bool {
        let is_of = |text: &[u8]| digest::digest(algorithm, text).as_ref() == &*self.value;
        is_of(text) || self.part.is_of_path() && is_of(percent::encode_path(text).as_bytes())
    }
}

fn scheme(request: &CatRequest<'_>) -> &'static str {
    if request.is_tls { "https" } else { "http" }
}

/// The ports that a request's URI can be written with: none or the scheme's own, or the one in `Host`.
fn ports<'r>(request: &CatRequest<'r>) -> Vec<Cow<'r, [u8]>> {
    let usual: &[u8] = if request.is_tls { b"443" } else { b"80" };
    match split_host(request.host).1 {
        Some(port) if port != usual && !port.is_empty() => vec![port.into()],
        _ => vec![Cow::Borrowed(b""), usual.into()],
    }
}

/// Host and port of a value of `Host`. An address of IPv6 keeps its brackets.
fn split_host(host: &[u8]) -> (&[u8], Option<&[u8]>) {
    let past_bracket = host.iter().position(|byte| *byte == b']').unwrap_or(0);
    match host[past_bracket..].iter().position(|byte| *byte == b':') {
        Some(colon) => (&host[..past_bracket + colon], Some(&host[past_bracket + colon + 1..])),
        None => (host, None),
    }
}

/// A query without tokens.
fn query(query: &[u8]) -> Vec<u8> {
    let is_token = |parameter: &&[u8]| {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        name == CAT_ARGUMENT.as_bytes() || name == place::ARGUMENT.as_bytes()
    };
    let parameters = query.split(|byte| *byte == b'&').filter(|parameter| !is_token(parameter));
    parameters.collect::<Vec<_>>().join(&b'&')
}

fn malformed() -> CatFault {
    CatFault::Malformed("catu is a map of comparisons for each part of a URI")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &'static str) -> CatRequest<'static> {
        CatRequest {
            method: "GET",
            is_tls: true,
            host: b"TV.example:8443",
            paths: [path.as_bytes(); 2],
            query: b"a=1&CAT=x&token=y&b",
            client: std::net::Ipv4Addr::LOCALHOST.into(),
            now_unix_seconds: 0,
        }
    }

    fn rules(rules: &[(i32, i32, Value)]) -> Result<UriRules, CatFault> {
        let rule = |(part, comparison, value): &(i32, i32, Value)| {
            let comparison = Value::Map(vec![((*comparison).into(), value.clone())]);
            ((*part).into(), comparison)
        };
        UriRules::parse(&Value::Map(rules.iter().map(rule).collect()))
    }

    #[test]
    fn every_part_is_compared_in_every_way() {
        let request = request("films/a b/x.m4s");
        let sha = |algorithm, text: &str| {
            Value::Bytes(digest::digest(algorithm, text.as_bytes()).as_ref().to_vec())
        };
        for (part, comparison, good, wrong) in [
            (0, 0, "HTTPS".into(), "http".into()),
            (1, 0, "tv.EXAMPLE".into(), "tv.example:8443".into()),
            (1, 2, ".example".into(), "w.example".into()),
            (2, 0, "8443".into(), "443".into()),
            (3, 0, "/films/a%20b/x.m4s".into(), "films/a b/x.m4s".into()),
            (3, 1, "/films/a b/".into(), "/films/a/".into()),
            (3, 3, "/a%20b/".into(), "/b/".into()),
            (4, 0, "a=1&b".into(), "a=1".into()),
            (4, 1, "a=1".into(), "CAT".into()),
            (5, 0, "/films/a b".into(), "/films/a b/".into()),
            (6, 0, "x.m4s".into(), "/x.m4s".into()),
            (7, 0, "x".into(), "x.".into()),
            (8, 0, ".m4s".into(), "m4s".into()),
            (3, -1, sha(&SHA256, "/films/a%20b/x.m4s"), sha(&SHA256, "/films/a b/")),
            (3, -1, sha(&SHA256, "/films/a b/x.m4s"), sha(&SHA512_256, "/films/a b/x.m4s")),
            (6, -2, sha(&SHA512_256, "x.m4s"), Value::Bytes(Vec::new())),
        ] {
            let allowed = |value: &Value| {
                rules(&[(part, comparison, value.clone())]).unwrap().allow(&request)
            };
            assert!(allowed(&good), "{part} {comparison} {good:?}");
            assert!(!allowed(&wrong), "{part} {comparison} {wrong:?}");
        }
    }

    #[test]
    fn all_rules_have_to_match() {
        let both = rules(&[(3, 1, "/films/".into()), (8, 0, ".m4s".into())]).unwrap();
        assert!(both.allow(&request("films/x.m4s")));
        assert!(!both.allow(&request("films/x.mp4")) && !both.allow(&request("x.m4s")));
    }

    #[test]
    fn a_claim_without_rules_is_refused() {
        for value in [vec![], vec![(Value::from(3), Value::Map(vec![]))]] {
            let fault = UriRules::parse(&Value::Map(value)).unwrap_err();
            assert!(matches!(fault, CatFault::Malformed(_)));
        }
        let many = Value::Map(vec![(0.into(), "https".into()); RULES_MAX + 1]);
        assert!(UriRules::parse(&Value::Map(vec![(0.into(), many)])).is_err());
    }

    #[test]
    fn a_composed_rule_is_not_for_the_decomposed_spelling() {
        let sent = CatRequest {
            paths: ["films/priv\u{e9}/x".as_bytes(), "films/prive\u{301}/x".as_bytes()],
            ..request("")
        };
        for (comparison, value, is_allowed) in [
            (1, "/films/prive", false),
            (3, "/prive", false),
            (1, "/films/priv\u{e9}/", true),
            (1, "/films/prive\u{301}/", true),
            (0, "/films/prive%CC%81/x", true),
        ] {
            let rules = rules(&[(3, comparison, value.into())]).unwrap();
            assert_eq!(rules.allow(&sent), is_allowed, "{comparison} {value}");
        }
    }

    #[test]
    fn where_readers_differ_about_dots_both_have_to_agree() {
        for (part, value) in [(7, "a"), (7, "a.b"), (8, ".b.c"), (8, ".c")] {
            let rules = rules(&[(part, 0, value.into())]).unwrap();
            assert!(!rules.allow(&request("a.b.c")), "{value}");
        }
        assert!(rules(&[(8, 2, ".c".into())]).unwrap().allow(&request("a.b.c")));
        assert!(rules(&[(8, 0, "".into())]).unwrap().allow(&request("a")));
    }

    #[test]
    fn a_schemes_own_port_is_written_or_not() {
        let at = |host: &'static str, is_tls| CatRequest {
            host: host.as_bytes(),
            is_tls,
            ..request("x")
        };
        for (port, host, is_tls, is_allowed) in [
            ("", "h", true, true),
            ("443", "h", true, true),
            ("443", "h:443", true, true),
            ("", "h:80", false, true),
            ("443", "h", false, false),
            ("8443", "[::1]:8443", true, true),
            ("", "[::1]", true, true),
        ] {
            let rules = rules(&[(2, 0, port.into())]).unwrap();
            assert_eq!(rules.allow(&at(host, is_tls)), is_allowed, "{port} {host}");
        }
        assert!(rules(&[(1, 0, "tv.example".into())]).unwrap().allow(&at("TV.example.:1", true)));
        assert!(rules(&[(1, 0, "[::1]".into())]).unwrap().allow(&at("[::1]:8443", true)));
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let regex = Value::Array(vec!["a".into()]);
        for unsupported in [(3, 4, regex), (9, 0, "x".into()), (3, 5, "x".into())] {
            let fault = rules(std::slice::from_ref(&unsupported)).unwrap_err();
            assert!(matches!(fault, CatFault::Unsupported(_)), "{unsupported:?}");
        }
        for wrong in [(3, 0, 1.into()), (3, -1, "no digits".into()), (3, 0, Value::Bytes(vec![]))] {
            let fault = rules(std::slice::from_ref(&wrong)).unwrap_err();
            assert!(matches!(fault, CatFault::Malformed(_)), "{wrong:?}");
        }
        for value in [Value::Null, Value::Map(vec![("path".into(), Value::Map(vec![]))])] {
            assert!(UriRules::parse(&value).is_err());
        }
    }
}
