//! Carries players' reports of their viewers' experience (CMCD) from the sessions of one worker to the admin listener's thread, which keeps
//! the figures ([`qoe`]).
//!
//! A request without CMCD costs a look at its query. A report is parsed and hashed, and joins a list that only this worker touches. Once a
//! second the list is handed over, so that no request takes a lock. Only hashes of a session's name and of its address leave this module, and the
//! large groups that the viewer belongs to ([`ViewerGroup`]).
//!
//! Events that players post have a list of their own, so that a flood of them takes no report's place.

use crate::event_intake::EventIntake;
use fullbore_http::{Field, Request};
use live_figures::audience::Audience;
use qoe::{Cmcd, CmcdEvents, Delivery, QoeEvent, QoeReport, Salt, ViewerGroup};
use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use telemetry::Numbers;

/// The most reports between two handovers: far more than a core answers requests in a second. Further ones are dropped and counted.
const REPORTS_MAX: usize = 8192;

/// The most events between two handovers: what 245,000 players post in a second if each posts one in 30 s.
const EVENTS_MAX: usize = 8192;

/// The argument's name in a query.
const ARGUMENT: &[u8] = b"CMCD=";

/// One worker's collection of reports.
pub struct Experience {
    salt: RefCell<Salt>,
    /// The start of all workers' times.
    epoch: Instant,
    reports: RefCell<Vec<QoeReport>>,
    deliveries: RefCell<Vec<Delivery>>,
    events: RefCell<Vec<QoeEvent>>,
    /// Limits the events of each client.
    pub(crate) intake: EventIntake,
}

impl Experience {
    /// An empty collection, with the salt and the start that all workers share.
    pub fn new(salt: Salt, epoch: Instant) -> Self {
        let (reports, deliveries, events) = Default::default();
        let intake = EventIntake::default();
        Self { salt: RefCell::new(salt), epoch, reports, deliveries, events, intake }
    }

    /// Notes the report in `request` by `client`, which is answered with the file at `path`.
    pub fn note(
        &self,
        request: &Request,
        client: IpAddr,
        path: &[u8],
        since_1970: Duration,
        numbers: &Numbers,
    ) {
        let query = request.query().and_then(in_query);
        let cmcd = cmcd_of(request, query.as_deref());
        if cmcd.is_empty() {
            return;
        }
        numbers.cmcd_malformed_total.add(u64::from(cmcd.malformed));
        let Some(name) = cmcd.session else {
            numbers.cmcd_sessionless_total.add(1);
            return;
        };
        let mut reports = self.reports.borrow_mut();
        if reports.len() >= REPORTS_MAX {
            numbers.cmcd_reports_lost_total.add(1);
            return;
        }
        numbers.cmcd_reports_total.add(1);
        let mut salt = self.salt.borrow_mut();
        let session = salt.session(name, since_1970.as_secs());
        let viewer = salt.session(&network(client), since_1970.as_secs());
        let report = QoeReport::new(self.now_us(), session, path, &cmcd);
        reports.push(QoeReport { viewer, ..report });
    }

    /// Records how many bytes of the response to `request` the viewer at `client` received, if the request names a session.
    pub fn note_delivery(
        &self,
        request: &Request,
        client: IpAddr,
        bytes: u64,
        since_1970: Duration,
    ) {
        let query = request.query().and_then(in_query);
        let cmcd = cmcd_of(request, query.as_deref());
        let mut deliveries = self.deliveries.borrow_mut();
        let Some(name) = cmcd.session.filter(|_| deliveries.len() < REPORTS_MAX) else { return };
        let mut salt = self.salt.borrow_mut();
        let session = salt.session(name, since_1970.as_secs());
        let viewer = salt.session(&network(client), since_1970.as_secs());
        // Only sessions that begin here are counted in groups, so the other requests need not be looked at for theirs.
        let of = || ViewerGroup::of(client, request.field(Field::UserAgent));
        let group = cmcd.startup.then(of);
        deliveries.push(Delivery { at_us: self.now_us(), session, viewer, group, bytes });
    }

    /// Whether a post of one event by the client in this network is taken, which its allowance then pays for.
    pub(crate) fn admits(&self, network: &[u8]) -> bool {
        let waiting = self.events.borrow().len();
        let pay = || self.intake.pay(network, self.now_ms(), 1, is_scarce(waiting));
        waiting < EVENTS_MAX && pay() == 1
    }

    /// Records the events in the body of a post by `client`. Returns whether it had any.
    pub(crate) fn note_events(
        &self,
        body: &[u8],
        client: IpAddr,
        since_1970: Duration,
        numbers: &Numbers,
    ) -> bool {
        let read = CmcdEvents::read(body);
        numbers.cmcd_malformed_total.add(u64::from(read.malformed));
        numbers.cmcd_sessionless_total.add(u64::from(read.sessionless));
        let mut events = self.events.borrow_mut();
        // The post itself has paid for the first one.
        let more = u32::try_from(read.events.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let is_scarce = is_scarce(events.len());
        let paid = self.intake.pay(&network(client), self.now_ms(), more, is_scarce) as usize + 1;
        let taken = read.events.len().min(paid).min(EVENTS_MAX - events.len());
        let lost = read.events.len() - taken + read.left_out as usize;
        numbers.cmcd_events_lost_total.add(lost as u64);
        numbers.cmcd_events_total.add(taken as u64);
        let mut salt = self.salt.borrow_mut();
        let at_us = self.now_us();
        let viewer = salt.session(&network(client), since_1970.as_secs());
        events.extend(read.events[..taken].iter().filter_map(|event| {
            let session = salt.session(event.session, since_1970.as_secs());
            QoeEvent::new(at_us, session, viewer, event)
        }));
        !read.events.is_empty()
    }

    fn now_ms(&self) -> u64 {
        self.now_us() / 1000
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Hands over the recorded reports.
    pub fn publish(&self, audience: &Audience) {
        audience.hand_over(&mut self.reports.borrow_mut());
        audience.hand_over_deliveries(&mut self.deliveries.borrow_mut());
        audience.hand_over_events(&mut self.events.borrow_mut());
    }
}

/// Whether half of the room for events is taken.
fn is_scarce(waiting: usize) -> bool {
    waiting >= EVENTS_MAX / 2
}

/// The part of an address that counts as one viewer: an IPv4 address, or an IPv6 network of 64 bits, the least that one subscriber has (RFC 6177).
pub(crate) fn network(client: IpAddr) -> Vec<u8> {
    match client.to_canonical() {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets()[..8].into(),
    }
}

/// The CMCD of a request: in its field, and in its query as [`in_query`] has decoded it. The query's values replace the field's.
fn cmcd_of<'a>(request: &'a Request, in_query: Option<&'a [u8]>) -> Cmcd<'a> {
    let mut cmcd = Cmcd::default();
    request.field(Field::Cmcd).into_iter().chain(in_query).for_each(|text| cmcd.read(text));
    cmcd
}

/// The CMCD in a query, decoded. Text with broken encoding is passed on as it is, and will hardly parse.
pub(crate) fn in_query(query: &[u8]) -> Option<Cow<'_, [u8]>> {
    let value = query.split(|byte| *byte == b'&').find_map(|pair| pair.strip_prefix(ARGUMENT))?;
    // Players that build the query with URLSearchParams write a space as a plus sign, and a plus sign as %2B (URL Standard, section 5.2).
    let value = match value.contains(&b'+') {
        true => {
            Cow::Owned(value.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect())
        }
        false => Cow::Borrowed(value),
    };
    Some(escape::percent::decode(&value).map_or(value, Cow::Owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_http::{Parse, RequestLimits};
    use std::net::Ipv4Addr;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    /// The reports and counters of one request.
    fn noted(target: &str, lines: &str) -> (Vec<QoeReport>, Numbers) {
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let parsed = fullbore_http::parse(head.as_bytes(), &RequestLimits::default()).unwrap();
        let Parse::Complete { request, .. } = parsed else { panic!("{head:?}") };
        let now = Duration::from_secs(1_790_000_000);
        let experience = Experience::new(Salt::random(now.as_secs()).unwrap(), Instant::now());
        let numbers = Numbers::default();
        experience.note(&request, CLIENT, b"a/1.m4s", now, &numbers);
        let audience = Audience::default();
        experience.publish(&audience);
        (audience.take_reports(), numbers)
    }

    #[test]
    fn what_a_session_took_is_noted_by_network() {
        let now = Duration::from_secs(1_790_000_000);
        let experience = Experience::new(Salt::random(now.as_secs()).unwrap(), Instant::now());
        let head = b"GET /a?CMCD=sid%3D%22x%22 HTTP/1.1\r\nHost: h\r\n\r\n";
        let Ok(Parse::Complete { request, .. }) =
            fullbore_http::parse(head, &RequestLimits::default())
        else {
            panic!()
        };
        let addresses =
            ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2:1"];
        for address in addresses {
            experience.note_delivery(&request, address.parse().unwrap(), 7, now);
        }
        let audience = Audience::default();
        experience.publish(&audience);
        let noted = audience.take_deliveries();
        let viewers: Vec<_> = noted.iter().map(|delivery| delivery.viewer).collect();
        assert!(noted.iter().all(|one| one.session == noted[0].session && one.bytes == 7));
        assert_eq!((viewers[0], viewers[3]), (viewers[1], viewers[4]));
        assert!(viewers[0] != viewers[2] && viewers[0] != viewers[3]);
        let plain =
            fullbore_http::parse(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n", &RequestLimits::default());
        let Ok(Parse::Complete { request, .. }) = plain else { panic!() };
        experience.note_delivery(&request, addresses[0].parse().unwrap(), 7, now);
        experience.publish(&audience);
        assert!(audience.take_deliveries().is_empty());
    }

    #[test]
    fn query_and_headers_tell_the_same() {
        let query = "/a/1.m4s?x=1&CMCD=br%3D3200%2Cd%3D4004%2Cot%3Dv%2Csid%3D%22me%22%2Csu";
        let lines =
            "CMCD-Object: br=3200,d=4004,ot=v\r\ncmcd-request: su\r\nCMCD-Session: sid=\"me\"\r\n";
        for (reports, numbers) in [noted(query, ""), noted("/a/1.m4s", lines)] {
            let [report] = &reports[..] else { panic!("{reports:?}") };
            assert_eq!(
                (report.bitrate_kbps, report.duration_ms, report.startup),
                (Some(3200), Some(4004), true)
            );
            assert_eq!(&*report.path, "a/1.m4s");
            assert_eq!(numbers.cmcd_reports_total.value(), 1);
        }
    }

    #[test]
    fn a_plus_sign_in_the_query_is_a_space() {
        let query = "/a/1.m4s?CMCD=br%3D%28128%3Ba+5000%3Bv%29%2Csid%3D%22a%2Bb+c%22";
        let (reports, numbers) = noted(query, "");
        let [report] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((report.bitrate_kbps, numbers.cmcd_malformed_total.value()), (Some(5000), 0));
    }

    #[test]
    fn what_tells_nothing_is_not_noted() {
        for target in
            ["/a/1.m4s", "/a/1.m4s?cmcd=sid%3D%22x%22", "/a/1.m4s?CMCD=", "/a?xCMCD=sid%3D%22x%22"]
        {
            let (reports, numbers) = noted(target, "");
            assert!(reports.is_empty(), "{target}");
            assert_eq!(numbers.cmcd_sessionless_total.value(), 0, "{target}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_counted() {
        let (reports, numbers) = noted("/a/1.m4s?CMCD=br%3D3200%2Cd%3Dx", "");
        assert!(reports.is_empty());
        assert_eq!(
            (numbers.cmcd_sessionless_total.value(), numbers.cmcd_malformed_total.value()),
            (1, 1)
        );
        let (_, numbers) = noted("/a/1.m4s?CMCD=sid%3D%zz", "");
        assert_eq!(numbers.cmcd_malformed_total.value(), 1, "broken encoding");
    }

    #[test]
    fn a_flood_of_events_is_bounded_and_takes_no_reports_place() {
        let now = Duration::from_secs(1_790_000_000);
        let experience = Experience::new(Salt::random(now.as_secs()).unwrap(), Instant::now());
        let numbers = Numbers::default();
        let body = "e=t,sid=\"x\",sta=p,ts=1790000000000\n".repeat(300);
        for last in 0..=255 {
            let client = IpAddr::from([192, 0, 2, last]);
            assert!(experience.note_events(body.as_bytes(), client, now, &numbers));
        }
        assert!(!experience.admits(b"another"));
        assert_eq!(numbers.cmcd_events_total.value(), EVENTS_MAX as u64);
        let lost = numbers.cmcd_events_lost_total.value();
        assert_eq!(lost, 256 * 300 - EVENTS_MAX as u64);
        assert!(!experience.note_events(b"nonsense\n\n", [192, 0, 2, 1].into(), now, &numbers));
        assert_eq!(numbers.cmcd_sessionless_total.value(), 1);
        let head = b"GET /a?CMCD=sid%3D%22x%22 HTTP/1.1\r\nHost: h\r\n\r\n";
        let Ok(Parse::Complete { request, .. }) =
            fullbore_http::parse(head, &RequestLimits::default())
        else {
            panic!()
        };
        experience.note(&request, CLIENT, b"a", now, &numbers);
        let audience = Audience::default();
        experience.publish(&audience);
        let (events, reports) = (audience.take_events(), audience.take_reports());
        assert_eq!((events.len(), reports.len()), (EVENTS_MAX, 1));
        assert_eq!(events[0].session, reports[0].session, "one session");
        assert!(experience.admits(b"another"));
    }

    #[test]
    fn a_flood_is_bounded() {
        let now = Duration::from_secs(1_790_000_000);
        let experience = Experience::new(Salt::random(now.as_secs()).unwrap(), Instant::now());
        let head = b"GET /a?CMCD=sid%3D%22x%22 HTTP/1.1\r\nHost: h\r\n\r\n";
        let Ok(Parse::Complete { request, .. }) =
            fullbore_http::parse(head, &RequestLimits::default())
        else {
            panic!()
        };
        let numbers = Numbers::default();
        for _ in 0..REPORTS_MAX + 5 {
            experience.note(&request, CLIENT, b"a", now, &numbers);
        }
        assert_eq!(numbers.cmcd_reports_lost_total.value(), 5);
        let audience = Audience::default();
        // The reports are not taken: new ones are dropped, waiting ones are not.
        for _ in 0..3 {
            experience.publish(&audience);
            experience.note(&request, CLIENT, b"a", now, &numbers);
        }
        assert_eq!(audience.take_reports().len(), REPORTS_MAX);
    }
}
