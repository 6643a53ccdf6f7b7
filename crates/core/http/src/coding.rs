//! Content codings (RFC 9110 sections 8.4 and 12.5.3): the forms of a file, and which of them a client prefers.

use crate::fields::split_list;
use crate::{Field, Request};
use std::cmp::Reverse;

/// A content coding that a form of a file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

/// The form of a file that a response has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileForm {
    /// The file, which has no other forms, so responses don't vary.
    #[default]
    Only,
    /// The file itself. Other requests may get another form.
    Plain,
    /// Compressed.
    Coded(Coding),
}

impl Coding {
    /// All of them. The first is preferred if a client accepts several equally: Brotli's output is smaller.
    const ALL: [Self; 2] = [Self::Brotli, Self::Gzip];

    /// Its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

impl FileForm {
    /// The coding, if the form has one.
    pub fn coding(self) -> Option<Coding> {
        match self {
            Self::Only | Self::Plain => None,
            Self::Coded(coding) => Some(coding),
        }
    }
}

/// Returns true if files of this media type shrink when they are compressed: text. Media and pictures don't.
pub fn is_compressible(content_type: &str) -> bool {
    content_type.starts_with("text/")
        || matches!(
            content_type,
            "application/vnd.apple.mpegurl"
                | "audio/x-mpegurl"
                | "application/dash+xml"
                | "application/ttml+xml"
                | "application/x-subrip"
                | "application/json"
                | "application/xml"
                | "image/svg+xml"
                | "application/wasm"
        )
}

/// The codings that the client prefers to none, best first. If there is no form in any of them, send the file as it is, even if the client says that
/// it does not accept that: the alternative, 406, helps no client (RFC 9110 section 12.1 allows both).
///
/// A coding that only `*` matches is used if the client accepts no coding less than that. Clients that can decompress name the codings; a bare `*`
/// often comes from a program that does not look at `Content-Encoding`.
pub fn preferred_codings(request: &Request) -> impl Iterator<Item = Coding> {
    let weights = request.field(Field::AcceptEncoding).map(Weights::read).unwrap_or_default();
    let plain = weights.identity.or(weights.any).unwrap_or(0);
    let mut preferred = Coding::ALL.map(|coding| match (weights.of(coding), weights.any) {
        (Some(weight), _) => (weight, weight > 0 && weight >= plain, coding),
        (None, any) => (any.unwrap_or(0), any.unwrap_or(0) > plain, coding),
    });
    // Stable: at equal weight the order stays.
    preferred.sort_by_key(|(weight, ..)| Reverse(*weight));
    preferred.into_iter().filter(|(_, is_preferred, _)| *is_preferred).map(|(.., coding)| coding)
}

/// The weights in an `Accept-Encoding`, in thousandths. The first of several for one coding counts.
#[derive(Default)]
struct Weights {
    brotli: Option<u16>,
    gzip: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

impl Weights {
    fn read(value: &[u8]) -> Self {
        let mut weights = Self::default();
        for element in split_list(value) {
            let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = match &name[..] {
                b"br" => &mut weights.brotli,
                // RFC 9110 section 8.4.1.3: the two are equivalent.
                b"gzip" | b"x-gzip" => &mut weights.gzip,
                b"identity" => &mut weights.identity,
                b"*" => &mut weights.any,
                _ => continue,
            };
            weight.get_or_insert_with(|| parts.find_map(quality).unwrap_or(1000));
        }
        weights
    }

    fn of(&self, coding: Coding) -> Option<u16> {
        match coding {
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
        }
    }
}

/// `q=0.5` in thousandths (RFC 9110 section 12.4.2); none for another parameter. A malformed weight counts as 0, because the file as it is suits
/// every client.
fn quality(parameter: &[u8]) -> Option<u16> {
    let equals = parameter.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (parameter[..equals].trim_ascii(), &parameter[equals + 1..]);
    if !name.eq_ignore_ascii_case(b"q") {
        return None;
    }
    let (whole, digits) = match value.trim_ascii() {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (*whole, digits),
        _ => return Some(0),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Some(0);
    }
    let thousandths = digits.iter().chain(b"000").take(3);
    let fraction = thousandths.fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
    Some((1000 * u16::from(whole - b'0') + fraction).min(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parse, RequestLimits, content_type, parse};
    use Coding::{Brotli, Gzip};

    fn preferred(lines: &str) -> Vec<Coding> {
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let parsed = parse(head.as_bytes(), &RequestLimits::default());
        let Ok(Parse::Complete { request, .. }) = parsed else { panic!("{head:?}") };
        preferred_codings(&request).collect()
    }

    #[test]
    fn the_client_chooses_by_weight_and_brotli_comes_first_among_equals() {
        for (accepted, expected) in [
            ("", &[][..]),
            ("gzip, deflate, br, zstd", &[Brotli, Gzip]),
            ("gzip", &[Gzip]),
            ("x-gzip", &[Gzip]),
            ("BR", &[Brotli]),
            ("br;q=0.5, gzip", &[Gzip, Brotli]),
            ("br ; q=0.5 ,\tgzip;q=0.4", &[Brotli, Gzip]),
            ("br;Q=0.5,,gzip; q = 0.6", &[Gzip, Brotli]),
            ("br;q=0, gzip;q=0", &[]),
            ("br;q=0.000, gzip;q=0.", &[]),
            ("gzip;q=0.001", &[Gzip]),
            ("gzip;q=1.000", &[Gzip]),
            ("gzip;level=9", &[Gzip]),
            ("gzip;level=9;q=0", &[]),
            ("gzip;q=0, gzip", &[]),
            ("deflate", &[]),
            ("gzipped, brr, xbr", &[]),
        ] {
            assert_eq!(preferred(&format!("Accept-Encoding: {accepted}\r\n")), expected);
        }
        assert_eq!(preferred(""), []);
        assert_eq!(preferred("Accept-Encoding: gzip;q=0.1\r\nAccept-Encoding: br\r\n").len(), 2);
    }

    #[test]
    fn identity_is_a_choice_like_the_others() {
        for (accepted, expected) in [
            ("identity", &[][..]),
            ("identity, gzip", &[Gzip]),
            ("gzip;q=0.2, identity", &[]),
            ("gzip;q=0.2, identity;q=0.1", &[Gzip]),
            ("identity;q=0.5, br, gzip;q=0.2", &[Brotli]),
            ("identity;q=0, gzip;q=0.1", &[Gzip]),
            ("identity;q=0", &[]),
            // `*` stands for identity, too.
            ("*;q=0.5, gzip;q=0.2", &[]),
            ("*;q=0.2, gzip;q=0.5", &[Gzip]),
            ("*;q=0, gzip", &[Gzip]),
            ("*;q=0", &[]),
        ] {
            assert_eq!(
                preferred(&format!("Accept-Encoding: {accepted}\r\n")),
                expected,
                "{accepted}"
            );
        }
    }

    #[test]
    fn a_star_alone_gets_the_file_as_it_is_unless_that_is_less_welcome() {
        for (accepted, expected) in [
            ("*", &[][..]),
            ("br;q=0, *", &[]),
            ("identity;q=0, *", &[Brotli, Gzip]),
            ("identity;q=0, *;q=0.1, br;q=0", &[Gzip]),
            ("identity;q=0.5, *", &[Brotli, Gzip]),
            ("identity;q=0.5, *, br;q=0.6", &[Gzip, Brotli]),
        ] {
            assert_eq!(
                preferred(&format!("Accept-Encoding: {accepted}\r\n")),
                expected,
                "{accepted}"
            );
        }
    }

    #[test]
    fn a_malformed_weight_is_no_wish() {
        for weight in ["high", "2", "1.5x", "0.0001", "-1", "", "1e3", "0,5"] {
            assert_eq!(preferred(&format!("Accept-Encoding: gzip;q={weight}\r\n")), [], "{weight}");
        }
        assert_eq!(preferred("Accept-Encoding: gzip;q=1.5\r\n"), [Gzip], "as much as there is");
    }

    #[test]
    fn text_is_compressible_and_no_segment_is() {
        for name in ["a.m3u8", "a.m3u", "a.mpd", "a.vtt", "a.srt", "a.ttml", "a.json", "a.html"] {
            assert!(is_compressible(content_type(name.as_bytes())), "{name}");
        }
        for name in ["a.mp4", "a.m4s", "a.ts", "a.m2ts", "a.webm", "a.mp3", "a.jpg", "a", "a.gz"] {
            assert!(!is_compressible(content_type(name.as_bytes())), "{name}");
        }
    }
}
