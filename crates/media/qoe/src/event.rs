//! The event mode of CMCD's second version: players post what happens while it happens, one event on each line.
//!
//! A line is a structured-fields dictionary, like the report of a request. It needs `sid`, `e` (the event) and `ts` (when it happened, by the
//! player's clock). Of the other keys, this reads `sta` and `msd`; it skips all others unread, vendors' keys included.
//!
//! The names and meanings are those of the npm package @svta/cml-cmcd 2.7.0, which documents them with links to CTA-5004-B. Earlier versions of it
//! make the events of dash.js 5.2.1, hls.js 1.7.4 and Shaka Player 5.2.12. docs/qoe.md says which key was learned from which.

use crate::TEXT_BYTES_MAX;
use crate::cmcd::{MILLISECONDS_MAX, is_key, number, session, split_key, split_member, unquoted};

/// The most events of one post that are read. Players send one at a time, or a handful.
pub const EVENTS_MAX: usize = 256;

/// The largest integer of a structured field (RFC 8941 section 3.3.1).
const TIMESTAMP_MS_MAX: u64 = 999_999_999_999_999;

/// What happened (`e`), as far as the figures depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `e`: the player reports an error.
    Error,
    /// `rr`: a response has arrived. Its time is that of the request, so its state may be older than that of events before it.
    Response,
    /// Any other: `ps` (the state has changed), `t` (time has passed), and those that say nothing about waiting.
    Other,
}

/// The player's state as its viewer perceives it (`sta`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerState {
    /// `d`: it loads ahead of the request to play.
    Preloading,
    /// `s`: the viewer wants to watch, and it does not play yet.
    Starting,
    /// `p`
    Playing,
    /// `k`: it moves to another place.
    Seeking,
    /// `r`: the buffer is empty.
    Rebuffering,
    /// `a`
    Paused,
    /// `w`: it waits. Not in the newest text of the standard, but dash.js says it of the time before the first picture.
    Waiting,
    /// `e`: the end of the film.
    Ended,
    /// `f`: an error ended playback.
    Failed,
    /// `q`: the viewer left.
    Quit,
    /// One that is not known here.
    Unknown,
}

/// One event. Nothing in it is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmcdEvent<'a> {
    /// `sid`: the session's name, without its quotes.
    pub session: &'a [u8],
    /// `e`: what happened.
    pub kind: EventKind,
    /// `ts`: when, in milliseconds since 1970 by the player's clock.
    pub timestamp_ms: u64,
    /// `sta`: the player's state from then on.
    pub state: Option<PlayerState>,
    /// `msd`: the time from the request to play until playback began, in milliseconds.
    pub start_delay_ms: Option<u32>,
}

/// The events of one post.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CmcdEvents<'a> {
    /// Those that could be read, at most [`EVENTS_MAX`].
    pub events: Vec<CmcdEvent<'a>>,
    /// Lines without the name of a session.
    pub sessionless: u32,
    /// Members that could not be parsed, and lines without an event or its time.
    pub malformed: u32,
    /// Lines that were not read, because there were too many.
    pub left_out: u32,
}

impl<'a> CmcdEvents<'a> {
    /// Reads the body of a post. Lines end with LF or CR LF; empty ones are skipped.
    pub fn read(body: &'a [u8]) -> Self {
        let mut read = Self::default();
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        for (index, line) in lines.filter(|line| !line.is_empty()).enumerate() {
            if index >= EVENTS_MAX {
                read.left_out += 1;
                continue;
            }
            let parts = Parts::read(line);
            read.malformed += parts.malformed;
            match (parts.session, parts.kind, parts.timestamp_ms) {
                (None, ..) => read.sessionless += 1,
                (Some(session), Some(kind), Some(timestamp_ms)) => {
                    let Parts { state, start_delay_ms, .. } = parts;
                    let event = CmcdEvent { session, kind, timestamp_ms, state, start_delay_ms };
                    read.events.push(event);
                }
                // A part that could not be parsed is counted already.
                _ => read.malformed += u32::from(parts.malformed == 0),
            }
        }
        read
    }
}

/// The parts of one line.
#[derive(Default)]
struct Parts<'a> {
    session: Option<&'a [u8]>,
    kind: Option<EventKind>,
    timestamp_ms: Option<u64>,
    state: Option<PlayerState>,
    start_delay_ms: Option<u32>,
    malformed: u32,
}

impl<'a> Parts<'a> {
    fn read(line: &'a [u8]) -> Self {
        let mut parts = Self::default();
        if line.len() > TEXT_BYTES_MAX {
            parts.malformed = 1;
            return parts;
        }
        let mut rest = line;
        while !rest.is_empty() {
            let (member, after) = split_member(rest);
            rest = after;
            let member = member.trim_ascii();
            if !member.is_empty() && parts.take(member).is_none() {
                parts.malformed += 1;
            }
        }
        parts
    }

    /// Takes one member; `None` if it cannot be parsed.
    fn take(&mut self, member: &'a [u8]) -> Option<()> {
        let (key, value) = split_key(member);
        match key {
            b"sid" => self.session = Some(session(value?)?),
            b"e" => self.kind = Some(kind(value?)?),
            b"ts" => self.timestamp_ms = Some(timestamp(value?)?),
            b"sta" => self.state = Some(state(value?)?),
            b"msd" => self.start_delay_ms = Some(number(value?, MILLISECONDS_MAX)?),
            key => return is_key(key).then_some(()),
        }
        Some(())
    }
}

/// The token in `value`: one of letters, as all of these are.
fn token(value: &[u8]) -> Option<&[u8]> {
    let token = unquoted(value)?;
    (!token.is_empty() && token.iter().all(u8::is_ascii_alphanumeric)).then_some(token)
}

fn kind(value: &[u8]) -> Option<EventKind> {
    Some(match token(value)? {
        b"e" => EventKind::Error,
        b"rr" => EventKind::Response,
        // Standards add events, which must not count as malformed.
        _ => EventKind::Other,
    })
}

fn state(value: &[u8]) -> Option<PlayerState> {
    Some(match token(value)? {
        b"d" => PlayerState::Preloading,
        b"s" => PlayerState::Starting,
        b"p" => PlayerState::Playing,
        b"k" => PlayerState::Seeking,
        b"r" => PlayerState::Rebuffering,
        b"a" => PlayerState::Paused,
        b"w" => PlayerState::Waiting,
        b"e" => PlayerState::Ended,
        b"f" => PlayerState::Failed,
        b"q" => PlayerState::Quit,
        _ => PlayerState::Unknown,
    })
}

fn timestamp(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(unquoted(value)?).ok()?;
    // Some clocks of browsers have fractions.
    let whole = text.split('.').next().unwrap_or_default();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    whole.parse().ok().filter(|ms| is_number(text) && *ms <= TIMESTAMP_MS_MAX)
}

/// An event of a session, for the [collector](crate::Collector).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QoeEvent {
    /// When it arrived, as in [`crate::QoeReport::at_us`].
    pub at_us: u64,
    /// The number that stands for the session ([`crate::Salt`]).
    pub session: u64,
    /// The number that stands for the network of the client that posted it, as in [`crate::QoeReport::viewer`].
    pub viewer: u64,
    /// When it happened, by the player's clock.
    pub timestamp_ms: u64,
    /// It is an error.
    pub is_error: bool,
    /// The player's state from then on.
    pub state: Option<PlayerState>,
    /// The time from the request to play until playback began.
    pub start_delay_ms: Option<u32>,
}

impl QoeEvent {
    /// The event that `viewer` posted in the session that `session` stands for; `None` if the figures do not depend on it.
    pub fn new(at_us: u64, session: u64, viewer: u64, event: &CmcdEvent<'_>) -> Option<Self> {
        let CmcdEvent { kind, timestamp_ms, state, start_delay_ms, .. } = *event;
        let is_error = kind == EventKind::Error;
        let event = Self { at_us, session, viewer, timestamp_ms, is_error, state, start_delay_ms };
        (kind != EventKind::Response).then_some(event)
    }

    /// When it arrived, in milliseconds.
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_us / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A body as hls.js 1.7.4 makes it.
    const BODY: &str = "bl=(21300),br=(3200),e=ps,msd=640,sf=h,sid=\"6e2fb550\",sn=2,sta=p,ts=1790000000123,v=2\n\
        e=t,pr=1.5,sid=\"6e2fb550\",sn=3,sta=p,ts=1790000030123,v=2\n\
        e=rr,rc=206,sid=\"6e2fb550\",sn=4,sta=p,ts=1790000029000,ttfb=12,ttlb=80,url=\"https://h/a,b.m4s\",v=2\n\
        com.example-key=\"x,y\",e=e,ec=(\"fragLoadError\"),sid=\"6e2fb550\",sn=5,sta=f,ts=1790000031000,v=2";

    #[test]
    fn a_batch_is_read() {
        let event = |kind, timestamp_ms, state, start_delay_ms| CmcdEvent {
            session: b"6e2fb550",
            kind,
            timestamp_ms,
            state: Some(state),
            start_delay_ms,
        };
        let events = vec![
            event(EventKind::Other, 1_790_000_000_123, PlayerState::Playing, Some(640)),
            event(EventKind::Other, 1_790_000_030_123, PlayerState::Playing, None),
            event(EventKind::Response, 1_790_000_029_000, PlayerState::Playing, None),
            event(EventKind::Error, 1_790_000_031_000, PlayerState::Failed, None),
        ];
        let expected = CmcdEvents { events, ..CmcdEvents::default() };
        assert_eq!(CmcdEvents::read(BODY.as_bytes()), expected);
        let with_returns = format!("\r\n{}\r\n\r\n", BODY.replace('\n', "\r\n"));
        assert_eq!(CmcdEvents::read(with_returns.as_bytes()), expected);
    }

    #[test]
    fn what_is_new_in_the_standard_is_not_malformed() {
        let read = CmcdEvents::read(b"e=h,sid=\"s\",sta=z,ts=5.75,new,h=\"n1.example\",v=3");
        let [event] = read.events[..] else { panic!("{read:?}") };
        assert_eq!(event.state, Some(PlayerState::Unknown));
        assert_eq!((event.kind, event.timestamp_ms, read.malformed), (EventKind::Other, 5, 0));
    }

    #[test]
    fn lines_that_are_no_events_are_counted() {
        for (line, sessionless, malformed) in [
            ("e=ps,ts=1", 1, 0),
            ("{\"sid\":\"s\"}", 1, 1),
            ("sid=\"s\"", 0, 1),
            ("sid=\"s\",e=ps", 0, 1),
            ("sid=\"s\",ts=1", 0, 1),
            ("sid=\"s\",e=ps,ts=x", 0, 1),
            ("sid=\"s\",e=ps,ts=-1", 0, 1),
            ("sid=\"s\",e=ps,ts=1e3", 0, 1),
            ("sid=\"s\",e=ps,ts=1000000000000000", 0, 1),
            ("sid=\"s\",e=,ts=1", 0, 1),
            ("sid=\"s\",e=\"p s\",ts=1", 0, 1),
            ("sid=\"\",e=ps,ts=1", 1, 1),
        ] {
            let expected = CmcdEvents { sessionless, malformed, ..CmcdEvents::default() };
            assert_eq!(CmcdEvents::read(line.as_bytes()), expected, "{line}");
        }
        let long = format!("sid=\"s\",e=ps,ts=1,x=\"{}\"", "y".repeat(TEXT_BYTES_MAX));
        assert_eq!(CmcdEvents::read(long.as_bytes()).malformed, 1);
        let read = CmcdEvents::read(b"sid=\"s\",e=ps,ts=1,sta=,msd=x,d=\nnonsense!");
        assert_eq!((read.events.len(), read.sessionless, read.malformed), (1, 1, 3));
    }

    #[test]
    fn a_batch_that_is_too_long_is_read_in_part() {
        let body = "e=t,sid=\"s\",ts=1\n".repeat(EVENTS_MAX + 7);
        let read = CmcdEvents::read(body.as_bytes());
        assert_eq!((read.events.len(), read.left_out), (EVENTS_MAX, 7));
    }

    proptest! {
        #[test]
        fn any_body_is_survived(body in "([a-z]{1,3}=)?[a-z0-9=,;()\"\\\\?. \n\r]{0,300}") {
            let read = CmcdEvents::read(body.as_bytes());
            prop_assert!(read.events.len() <= EVENTS_MAX);
            prop_assert!(read.malformed as usize <= body.len());
        }
    }
}
