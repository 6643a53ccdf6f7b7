//! The data about its viewer that a request carries to the server: Common Media Client Data, version 2 (CTA-5004-A).
//!
//! Version 2 is a structured-fields dictionary with its keys in alphabetical order. Values that belong to one type of
//! object are inner lists with that type as parameter: `br=(3200;v)`. Servers that know only version 1 read the rest.
//!
//! A stall and a start delay are each reported once, by the next request.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Type of the requested object (`ot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmcdObject {
    Manifest,
    Start,
    Pictures,
    /// Pictures and sound together.
    Muxed,
    Sound,
    Other,
}

impl CmcdObject {
    fn as_str(self) -> &'static str {
        match self {
            Self::Manifest => "m",
            Self::Start => "i",
            Self::Pictures => "v",
            Self::Muxed => "av",
            Self::Sound => "a",
            Self::Other => "o",
        }
    }
}

/// The report in one request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cmcd {
    /// Session id (`sid`).
    pub(crate) session: Arc<str>,
    /// Object type (`ot`).
    pub(crate) object: CmcdObject,
    /// Duration of a segment (`d`).
    pub(crate) duration: Option<Duration>,
    /// Bit rate (`br`), here in bits per second.
    pub(crate) bits_per_second: Option<u64>,
    /// Top bit rate (`tb`), here in bits per second.
    pub(crate) top_bits_per_second: Option<u64>,
    /// Buffer length (`bl`).
    pub(crate) buffered: Option<Duration>,
    /// Measured throughput (`mtp`), here in bits per second.
    pub(crate) measured: Option<f64>,
    /// Buffer starvation (`bs`).
    pub(crate) is_starved: bool,
    /// Duration of the buffer starvation (`bsd`).
    pub(crate) starved_for: Option<Duration>,
    /// Urgent start-up (`su`).
    pub(crate) is_urgent: bool,
    /// Start delay (`msd`).
    pub(crate) start_delay: Option<Duration>,
    /// Streaming format (`sf`): `h` or `d`; unknown before the manifest is read.
    pub(crate) format: Option<char>,
    /// Stream type (`st`): live or on demand.
    pub(crate) is_live: Option<bool>,
}

impl Cmcd {
    /// A report that contains only the session and the object's type.
    pub(crate) fn new(session: Arc<str>, object: CmcdObject) -> Self {
        Self {
            session,
            object,
            duration: None,
            bits_per_second: None,
            top_bits_per_second: None,
            buffered: None,
            measured: None,
            is_starved: false,
            starved_for: None,
            is_urgent: false,
            start_delay: None,
            format: None,
            is_live: None,
        }
    }

    /// The dictionary, not yet percent-encoded.
    pub(crate) fn text(&self) -> String {
        let object = self.object.as_str();
        let mut text = Members(String::with_capacity(192));
        // The standard rounds buffers and throughput to hundreds, so that they do not identify a viewer.
        text.listed("bl", self.buffered.map(|buffered| hundreds(millis(buffered))), object);
        text.listed("br", self.bits_per_second.map(kilobits), object);
        text.flag("bs", self.is_starved);
        text.listed("bsd", self.starved_for.map(millis), object);
        text.number("d", self.duration.map(millis));
        text.number("msd", self.start_delay.map(millis));
        let measured = self.measured.map(|measured| hundreds(kilobits(measured as u64)));
        text.listed("mtp", measured, object);
        text.token("ot", Some(object));
        text.token("sf", self.format);
        text.quoted("sid", &self.session);
        text.token("st", self.is_live.map(|is_live| if is_live { "l" } else { "v" }));
        text.flag("su", self.is_urgent);
        text.listed("tb", self.top_bits_per_second.map(kilobits), object);
        text.number("v", Some(2));
        text.0
    }
}

/// Members of a dictionary, separated by commas.
struct Members(String);

impl Members {
    fn add(&mut self, member: std::fmt::Arguments<'_>) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.write_fmt(member).expect("a string takes any text");
    }

    fn listed(&mut self, key: &str, value: Option<u64>, object: &str) {
        if let Some(value) = value {
            self.add(format_args!("{key}=({value};{object})"));
        }
    }

    fn number(&mut self, key: &str, value: Option<u64>) {
        self.token(key, value);
    }

    fn token(&mut self, key: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.add(format_args!("{key}={value}"));
        }
    }

    fn flag(&mut self, key: &str, is_set: bool) {
        if is_set {
            self.add(format_args!("{key}"));
        }
    }

    fn quoted(&mut self, key: &str, value: &str) {
        let plain: String = value.chars().filter(|char| !matches!(char, '"' | '\\')).collect();
        self.add(format_args!("{key}=\"{plain}\""));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().saturating_add(500_000) / 1_000_000).unwrap_or(u64::MAX)
}

fn hundreds(value: u64) -> u64 {
    value.saturating_add(50) / 100 * 100
}

fn kilobits(bits: u64) -> u64 {
    bits.saturating_add(500) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Cmcd {
        Cmcd {
            duration: Some(Duration::from_millis(4004)),
            bits_per_second: Some(3_200_400),
            top_bits_per_second: Some(6_000_000),
            buffered: Some(Duration::from_millis(21_349)),
            measured: Some(48_149_000.0),
            is_starved: true,
            starved_for: Some(Duration::from_micros(812_400)),
            is_urgent: true,
            start_delay: Some(Duration::from_millis(650)),
            format: Some('h'),
            is_live: Some(false),
            ..Cmcd::new("viewer-7".into(), CmcdObject::Pictures)
        }
    }

    #[test]
    fn the_text_is_in_the_standards_order() {
        assert_eq!(
            full().text(),
            "bl=(21300;v),br=(3200;v),bs,bsd=(812;v),d=4004,msd=650,mtp=(48100;v),ot=v,sf=h,\
             sid=\"viewer-7\",st=v,su,tb=(6000;v),v=2"
        );
        let little = Cmcd::new("a\"b".into(), CmcdObject::Manifest);
        assert_eq!(little.text(), "ot=m,sid=\"ab\",v=2");
    }

    #[test]
    fn the_server_understands_it() {
        let text = full().text();
        let mut read = qoe::Cmcd::default();
        read.read(text.as_bytes());
        let expected = qoe::Cmcd {
            session: Some(b"viewer-7"),
            object: Some(qoe::ObjectType::Video),
            duration_ms: Some(4004),
            bitrate_kbps: Some(3200),
            top_kbps: Some(6000),
            buffer_ms: Some(21_300),
            starved: true,
            startup: true,
            start_delay_ms: Some(650),
            starved_ms: Some(812),
            malformed: 0,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn every_type_of_object_is_understood() {
        use qoe::ObjectType as Read;
        let types = [
            (CmcdObject::Manifest, Read::Manifest),
            (CmcdObject::Start, Read::Other),
            (CmcdObject::Pictures, Read::Video),
            (CmcdObject::Muxed, Read::Video),
            (CmcdObject::Sound, Read::Audio),
            (CmcdObject::Other, Read::Other),
        ];
        for (object, expected) in types {
            let text = Cmcd { object, ..full() }.text();
            let mut read = qoe::Cmcd::default();
            read.read(text.as_bytes());
            assert_eq!((read.object, read.malformed), (Some(expected), 0), "{text}");
            assert_eq!(read.bitrate_kbps, Some(3200), "{text}");
        }
    }
}
