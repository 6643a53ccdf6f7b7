//! CMCD as it arrives with a request: in four headers, or percent-encoded in the query as `CMCD=`. It is a list of `key=value`, separated by
//! commas.
//!
//! The second version is a structured-fields dictionary (RFC 8941 section 3.2): values may have parameters, and may be inner lists with one
//! item per type of object. The first version's text is parsed by the same rules. Parsing is lenient, because players differ: booleans may be
//! written `true`, strings without quotes, whole numbers with a fraction. Keys that this crate does not use are skipped unread; a used key
//! with an invalid value is counted and left out.

/// Bytes of one text of CMCD; a longer one is not read. A player's whole report has some 200.
pub const TEXT_BYTES_MAX: usize = 2048;

/// Bytes of a session's name: the standard allows 64 characters.
const SESSION_BYTES_MAX: usize = 128;

/// A day: longer than any object, buffer, start-up or stall that is worth counting.
pub(crate) const MILLISECONDS_MAX: f64 = 86_400_000.0;

/// 10 Gb/s.
const KBPS_MAX: f64 = 10_000_000.0;

/// The type of the requested object (`ot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectType {
    /// A manifest or playlist.
    Manifest,
    /// Sound alone.
    Audio,
    /// Pictures, with or without sound.
    Video,
    /// An object without playing time: initialisation, captions, keys and such.
    Other,
}

/// The part of a request's CMCD that is used here. Nothing in it is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cmcd<'a> {
    /// `sid`: the session's name, without its quotes; escapes in it are left as they are.
    pub session: Option<&'a [u8]>,
    /// `ot`: the type of the requested object.
    pub object: Option<ObjectType>,
    /// `d`: the object's playing time, in milliseconds.
    pub duration_ms: Option<u32>,
    /// `br`: its bit rate, in kbit/s.
    pub bitrate_kbps: Option<u32>,
    /// `tb`: the highest bit rate that the player may choose, in kbit/s.
    pub top_kbps: Option<u32>,
    /// `bl`: how much is buffered of this type, in milliseconds.
    pub buffer_ms: Option<u32>,
    /// `bs`: whether the buffer ran dry since the last request.
    pub starved: bool,
    /// `su`: whether the object is needed urgently, to start or resume playback.
    pub startup: bool,
    /// `msd` (version 2): the time from the request to play until playback began, in milliseconds. Sent once.
    pub start_delay_ms: Option<u32>,
    /// `bsd` (version 2): how long the last stall was, in milliseconds. Sent once per stall.
    pub starved_ms: Option<u32>,
    /// Members that could not be parsed.
    pub malformed: u32,
}

impl<'a> Cmcd<'a> {
    /// Parses another text; its values replace earlier ones of the same keys.
    pub fn read(&mut self, text: &'a [u8]) {
        if text.len() > TEXT_BYTES_MAX {
            self.malformed += 1;
            return;
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (member, after) = split_member(rest);
            rest = after;
            let member = member.trim_ascii();
            // Some players begin with a comma.
            if !member.is_empty() && self.take(member).is_none() {
                self.malformed += 1;
            }
        }
    }

    /// Whether it has no member that is used here.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes one member; `None` if it cannot be parsed.
    fn take(&mut self, member: &'a [u8]) -> Option<()> {
        let (key, value) = split_key(member);
        match key {
            b"sid" => self.session = Some(session(value?)?),
            b"ot" => self.object = Some(object(value?)?),
            b"d" => self.duration_ms = Some(number(value?, MILLISECONDS_MAX)?),
            b"br" => self.bitrate_kbps = Some(number(value?, KBPS_MAX)?),
            b"tb" => self.top_kbps = Some(number(value?, KBPS_MAX)?),
            b"bl" => self.buffer_ms = Some(number(value?, MILLISECONDS_MAX)?),
            b"msd" => self.start_delay_ms = Some(number(value?, MILLISECONDS_MAX)?),
            b"bsd" => self.starved_ms = Some(sum(value?, MILLISECONDS_MAX)?),
            b"bs" => self.starved = boolean(value)?,
            b"su" => self.startup = boolean(value)?,
            key => return is_key(key).then_some(()),
        }
        Some(())
    }
}

/// The text before the first comma outside quotes and parentheses, and the text after it.
pub(crate) fn split_member(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut quoted, mut escaped, mut listed) = (false, false, false);
    for (index, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'(' if !quoted => listed = true,
            b')' if !quoted => listed = false,
            b',' if !quoted && !listed => return (&text[..index], &text[index + 1..]),
            _ => {}
        }
    }
    (text, &[])
}

/// The key of a member, and its value if it has one: a key alone, with or without parameters, is true.
pub(crate) fn split_key(member: &[u8]) -> (&[u8], Option<&[u8]>) {
    let end = member.iter().position(|byte| matches!(byte, b'=' | b';')).unwrap_or(member.len());
    let (key, rest) = member.split_at(end);
    (key.trim_ascii(), rest.strip_prefix(b"=").map(<[u8]>::trim_ascii))
}

fn without_parameters(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

pub(crate) fn is_key(key: &[u8]) -> bool {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(byte);
    !key.is_empty() && key.iter().all(belongs)
}

/// The text between the quotes, if it has quotes.
pub(crate) fn unquoted(value: &[u8]) -> Option<&[u8]> {
    match value.starts_with(b"\"") {
        true => quoted(value).map(|(text, _)| text),
        false => Some(without_parameters(value)),
    }
}

/// The text between the quotes with which `value` begins, and what follows them.
pub(crate) fn quoted(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = value.strip_prefix(b"\"")?;
    let mut escaped = false;
    let end = inner.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some((&inner[..end], &inner[end + 1..]))
}

pub(crate) fn session(value: &[u8]) -> Option<&[u8]> {
    let name = unquoted(value)?;
    (1..=SESSION_BYTES_MAX).contains(&name.len()).then_some(name)
}

fn object(value: &[u8]) -> Option<ObjectType> {
    Some(match unquoted(value)? {
        b"m" => ObjectType::Manifest,
        b"a" => ObjectType::Audio,
        b"v" | b"av" => ObjectType::Video,
        b"i" | b"c" | b"tt" | b"k" | b"o" => ObjectType::Other,
        _ => return None,
    })
}

fn boolean(value: Option<&[u8]>) -> Option<bool> {
    match value.map(without_parameters) {
        None | Some(b"?1" | b"true" | b"1") => Some(true),
        Some(b"?0" | b"false" | b"0") => Some(false),
        Some(_) => None,
    }
}

/// Parses a number from 0 to `max`, rounded. Of an inner list, it takes the item for pictures, else the first item.
pub(crate) fn number(value: &[u8], max: f64) -> Option<u32> {
    let item = match value.strip_prefix(b"(") {
        Some(list) => item_of(list)?,
        None => value,
    };
    let text = std::str::from_utf8(without_parameters(item)).ok()?;
    // Neither "inf" nor exponents.
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (number <= max).then_some(number.round() as u32)
}

/// The sum of an inner list's numbers for pictures, else of all: a list of stalls has each one's length.
fn sum(value: &[u8], max: f64) -> Option<u32> {
    let Some(list) = value.strip_prefix(b"(") else { return number(value, max) };
    let has_video = items(list)?.any(is_video);
    let wanted = items(list)?.filter(|item| !has_video || is_video(item));
    let numbers = wanted.map(|item| number(item, max)).collect::<Option<Vec<_>>>()?;
    let sum: f64 = numbers.iter().copied().map(f64::from).sum();
    (!numbers.is_empty() && sum <= max).then_some(sum as u32)
}

fn items(list: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let end = list.iter().position(|byte| *byte == b')')?;
    Some(list[..end].split(|byte| *byte == b' ').filter(|item| !item.is_empty()))
}

fn is_video(item: &[u8]) -> bool {
    let mut parameters = item.split(|byte| *byte == b';').skip(1);
    parameters.any(|parameter| matches!(parameter, b"v" | b"av"))
}

fn item_of(list: &[u8]) -> Option<&[u8]> {
    items(list)?.find(|item| is_video(item)).or_else(|| items(list)?.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Cmcd<'_> {
        let mut cmcd = Cmcd::default();
        cmcd.read(text.as_bytes());
        cmcd
    }

    #[test]
    fn the_first_version_is_read() {
        let text = "bl=21300,br=3200,bs,cid=\"faec5fc2\",d=4004,dl=18500,mtp=48100,nor=\"..%2F300kbps%2Ftrack.m4v\",\
            nrr=\"12323-48763\",ot=v,pr=1.08,rtp=12000,sf=d,sid=\"6e2fb550-c457-11e9\",st=v,su,tb=6000,v=1";
        let expected = Cmcd {
            session: Some(b"6e2fb550-c457-11e9"),
            object: Some(ObjectType::Video),
            duration_ms: Some(4004),
            bitrate_kbps: Some(3200),
            top_kbps: Some(6000),
            buffer_ms: Some(21_300),
            starved: true,
            startup: true,
            ..Cmcd::default()
        };
        assert_eq!(read(text), expected);
    }

    #[test]
    fn the_second_version_is_read() {
        let text = "v=2,sid=\"s\",br=(128;a 5000;v),tb=(8000;v),bl=(1200),msd=812,bsd=(340;v),bs=?0,su;x=1,sn=7,sta=p,\
            ec=(\"a,b\" \"c)\"),ot=av;y";
        let expected = Cmcd {
            session: Some(b"s"),
            object: Some(ObjectType::Video),
            bitrate_kbps: Some(5000),
            top_kbps: Some(8000),
            buffer_ms: Some(1200),
            startup: true,
            start_delay_ms: Some(812),
            starved_ms: Some(340),
            ..Cmcd::default()
        };
        assert_eq!(read(text), expected);
    }

    #[test]
    fn lengths_of_several_stalls_add_up() {
        let told = |text| read(text).starved_ms;
        assert_eq!(told("bsd=(340;v 500;v 900;a)"), Some(840));
        assert_eq!(told("bsd=(340 500)"), Some(840));
        assert_eq!(told("bsd=(340;a)"), Some(340));
        assert_eq!(told("bsd=7"), Some(7));
        for text in ["bsd=()", "bsd=(x)", "bsd=(1", "bsd=(1 y)", "bsd=(86400000 1)"] {
            assert_eq!((told(text), read(text).malformed), (None, 1), "{text}");
        }
    }

    #[test]
    fn odd_players_are_understood() {
        assert_eq!(read(",d=3000, bs=false , su=true").duration_ms, Some(3000));
        assert!(read("su=true").startup && !read("su=true,su=?0").startup);
        assert_eq!(read("sid=abc-1").session, Some(&b"abc-1"[..]));
        assert_eq!(read("sid=\"a,b\\\"c=d\",br=1").session, Some(&b"a,b\\\"c=d"[..]));
        assert_eq!(read("sid=\"a,b\\\"c=d\",br=1").bitrate_kbps, Some(1));
        assert_eq!(read("d=4004.6").duration_ms, Some(4005));
        assert_eq!(read("com.example-key=\"x\",unknown,ANY=1").malformed, 0);
    }

    #[test]
    fn what_makes_no_sense_is_counted_and_left_out() {
        for text in [
            "d=",
            "d",
            "d=-1",
            "d=x",
            "d=1e3",
            "d=inf",
            "d=1.2.3",
            "d=99999999999",
            "br=10000001",
            "d=()",
            "d=(",
            "sid",
            "sid=",
            "sid=\"\"",
            "sid=\"open",
            "ot=z",
            "ot",
            "bs=maybe",
            "=1",
            "k\u{e9}y=1",
            "d=.",
        ] {
            let cmcd = read(text);
            assert_eq!(cmcd, Cmcd { malformed: 1, ..Cmcd::default() }, "{text}");
        }
        assert_eq!(read(&format!("sid=\"{}\"", "x".repeat(129))).malformed, 1);
        let good_after_bad = read("d=x,br=5,=,tb=7");
        assert_eq!((good_after_bad.bitrate_kbps, good_after_bad.top_kbps), (Some(5), Some(7)));
        assert_eq!(good_after_bad.malformed, 2);
    }

    #[test]
    fn a_text_that_is_too_long_is_not_read() {
        let text = format!("br=1,x=\"{}\"", "y".repeat(TEXT_BYTES_MAX));
        assert_eq!(read(&text), Cmcd { malformed: 1, ..Cmcd::default() });
    }

    #[test]
    fn texts_add_up() {
        let mut cmcd = Cmcd::default();
        for text in ["br=3200,d=4004,ot=v,tb=6000", "bl=100,su", "sid=\"s\"", "bs"] {
            cmcd.read(text.as_bytes());
        }
        assert_eq!(cmcd.session, Some(&b"s"[..]));
        assert!(cmcd.starved && cmcd.startup && cmcd.bitrate_kbps == Some(3200));
    }

    proptest! {
        #[test]
        fn anything_is_survived(text in "[a-z=,;()\"\\\\?0-9. ]{0,200}") {
            let cmcd = read(&text);
            prop_assert!(cmcd.malformed as usize <= text.len());
        }
    }
}
