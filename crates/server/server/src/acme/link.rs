//! Reports from the ACME helper: how often it failed, and how long the certificate is valid.

use acme::{AcmeNews, AcmePacket, AcmeProof, AcmeProving, AcmeTold, AcmeTrouble};
use helper_process::packets;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use telemetry::{Exposition, Kind, Metric};
use tls::AlpnProofs;

const FAILURES: Metric = Metric::new(
    Kind::Counter,
    "fullbore_acme_failures_total",
    "Failed attempts to get a certificate by ACME, by reason.",
)
.by("reason");

const OBTAINED: Metric = Metric::new(
    Kind::Counter,
    "fullbore_acme_certificates_total",
    "Certificates obtained by ACME.",
);

const LEFT: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_acme_certificate_left_seconds",
    "Time until the ACME certificate expires; 0 if there is none.",
);

const OVERDUE: Metric = Metric::new(
    Kind::Gauge,
    "fullbore_acme_overdue_seconds",
    "How long a new ACME certificate has been due; 0 if none is.",
);

/// The metrics of a server that gets its certificate by ACME.
pub(crate) const METRICS: [Metric; 4] = [FAILURES, OBTAINED, LEFT, OVERDUE];

/// How long another server waits at most for a proof that the authority may be checking; it would wait twice as long
/// (`upgrade::handoff_client`).
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// How often to check whether the authority has seen the proof.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Which server receives the authority's handshakes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// This server's.
    Kept,
    /// Another server, which may still fail and leave them to this one again.
    HandedOver,
    /// Another server, for good.
    Left,
}

/// The helper's reports so far.
#[derive(Default)]
struct Heard {
    /// Counts by the label of the reason.
    failures: BTreeMap<&'static str, u64>,
    obtained: u64,
    ends: Option<u64>,
    due: Option<u64>,
}

/// Receives the helper's reports.
pub(crate) struct AcmeLink {
    heard: Mutex<Heard>,
    /// The proofs that handshakes show to the authority.
    proofs: AlpnProofs,
    socket: OwnedFd,
    place: Mutex<Place>,
    /// Signals each change of `place`.
    moved: Condvar,
}

impl AcmeLink {
    /// Starts the thread that receives from the helper at the other end of `socket`.
    pub(super) fn start(socket: OwnedFd, proofs: AlpnProofs) -> io::Result<Arc<Self>> {
        let failures = AcmeTrouble::ALL.map(|why| (why.as_str(), 0)).into();
        let heard = Mutex::new(Heard { failures, ..Heard::default() });
        let (place, moved) = (Mutex::new(Place::Kept), Condvar::new());
        let link = Arc::new(Self { heard, proofs, socket, place, moved });
        let listener = Arc::clone(&link);
        let thread = std::thread::Builder::new().name("acme".into());
        thread.spawn(move || listener.listen())?;
        Ok(link)
    }

    fn listen(&self) {
        let mut buffer = Vec::new();
        loop {
            match packets::receive::<AcmePacket>(&self.socket, &mut buffer) {
                Ok(Some((AcmePacket::Told(told), _))) => self.take(&told),
                Ok(Some((AcmePacket::Prove { number, proofs }, _))) => {
                    self.prove(number, &proofs);
                }
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    complain(&format!(
                        "ignored a message from the helper for certificates: {error}"
                    ));
                }
                Err(error) => {
                    complain(&format!("cannot receive from the helper for certificates: {error}"));
                    break;
                }
            }
        }
        // No helper is left to report when a proof has been seen.
        let _ = self.proofs.replace([]);
        if *self.place() == Place::Left {
            return;
        }
        complain(
            "the helper for certificates and its keeper are gone: the certificate in use stays, and is not renewed; restart the server",
        );
    }

    /// Proves these names from now on, and confirms it to the helper. If it cannot, it sends no confirmation, and the helper reports the consequence.
    fn prove(&self, number: u64, proofs: &[AcmeProof]) {
        if proofs.iter().any(|proof| !self.proofs.prove(&proof.name)) && !self.await_place() {
            return;
        }
        let wanted = proofs.iter().map(|proof| (proof.name.as_str(), proof.digest));
        match self.proofs.replace(wanted) {
            // If the helper is gone, the next one starts over.
            Ok(()) => drop(packets::send(&self.socket, &AcmeProving { number }, None)),
            Err(error) => complain(&error.to_string()),
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().expect("no holder of this lock can panic")
    }

    /// Waits while another server receives the handshakes. Returns whether this one receives them again.
    fn await_place(&self) -> bool {
        let is_handed_over = |place: &mut Place| *place == Place::HandedOver;
        let place = self.moved.wait_while(self.place(), is_handed_over);
        *place.expect("no holder of this lock can panic") == Place::Kept
    }

    fn move_to(&self, place: Place) {
        *self.place() = place;
        self.moved.notify_all();
    }

    /// Another server is about to take over: starts no new proof, and returns once the authority has seen the proofs that it may be checking, or does
    /// not come for them.
    pub(crate) fn hand_over_place(&self) {
        self.move_to(Place::HandedOver);
        let began = Instant::now();
        while self.proofs.are_there() && began.elapsed() < SEEN_WITHIN {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The other server does not take over, or has failed.
    pub(crate) fn keep_place(&self) {
        self.move_to(Place::Kept);
    }

    /// The other server has taken over for good: this one's helper ends, so that the other one's can start.
    pub(crate) fn leave_place(&self) {
        self.move_to(Place::Left);
        // If the helper is gone already, there is nothing to do.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    fn take(&self, told: &AcmeTold) {
        let mut heard = self.heard();
        (heard.ends, heard.due) = (told.ends, Some(told.due));
        match told.news {
            AcmeNews::Planned => {}
            AcmeNews::Obtained => heard.obtained += 1,
            AcmeNews::Failed(why) => *heard.failures.entry(why.as_str()).or_default() += 1,
        }
        drop(heard);
        if !told.said.is_empty() {
            complain(&told.said);
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().expect("no holder of this lock can panic")
    }

    /// Adds the helper's metrics to `out`.
    pub(crate) fn expose(&self, out: &mut Exposition) {
        let heard = self.heard();
        out.labelled(&FAILURES, heard.failures.iter().map(|(why, count)| (*why, *count)));
        out.one(&OBTAINED, heard.obtained);
        out.one(&LEFT, heard.left_seconds());
        out.one(&OVERDUE, heard.overdue_seconds());
    }

    /// The same, for `/status.json`.
    pub(crate) fn json(&self) -> serde_json::Value {
        let heard = self.heard();
        serde_json::json!({
            FAILURES.key(): heard.failures,
            OBTAINED.key(): heard.obtained,
            LEFT.key(): heard.left_seconds(),
            OVERDUE.key(): heard.overdue_seconds(),
        })
    }
}

impl Heard {
    fn left_seconds(&self) -> u64 {
        self.ends.map_or(0, |ends| ends.saturating_sub(now()))
    }

    fn overdue_seconds(&self) -> u64 {
        self.due.map_or(0, |due| now().saturating_sub(due))
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Logs a message, which may contain the authority's text.
fn complain(what: &str) {
    eprintln!("fullbore: {}", ingest::shown(what));
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_tests::until;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Asks the server to prove these names.
    fn ask_for(helper: &OwnedFd, number: u64, names: &[&str]) {
        let proof = |name: &&str| AcmeProof { name: (*name).into(), digest: [7; 32] };
        let proofs = names.iter().map(proof).collect();
        packets::send(helper, &AcmePacket::Prove { number, proofs }, None).unwrap();
    }

    fn answer(helper: &OwnedFd) -> Option<u64> {
        let answer = packets::receive::<AcmeProving>(helper, &mut Vec::new()).unwrap();
        answer.map(|(AcmeProving { number }, _)| number)
    }

    #[test]
    fn another_server_gets_the_place_between_two_proofs() {
        let (ours, theirs) = packets::pair().unwrap();
        let proofs = AlpnProofs::default();
        let link = AcmeLink::start(ours, proofs.clone()).unwrap();
        ask_for(&theirs, 1, &["a.example"]);
        assert_eq!(answer(&theirs), Some(1));
        let is_handed_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                link.hand_over_place();
                is_handed_over.store(true, Ordering::SeqCst);
            });
            until("it to be asked for", || *link.place() == Place::HandedOver);
            assert!(!is_handed_over.load(Ordering::SeqCst), "the authority may be looking");
            // Proofs that are already under way continue, and end.
            ask_for(&theirs, 2, &["a.example"]);
            assert_eq!(answer(&theirs), Some(2));
            ask_for(&theirs, 3, &[]);
            assert_eq!(answer(&theirs), Some(3));
            until("nothing to prove", || is_handed_over.load(Ordering::SeqCst));
        });
        ask_for(&theirs, 4, &["b.example"]);
        // sleeps: the link has to have looked once; that it proves nothing then is also seen by the answer below
        std::thread::sleep(LOOK_EVERY);
        assert!(!proofs.are_there(), "the authority would not meet this server");
        link.keep_place();
        assert_eq!(answer(&theirs), Some(4));
        assert!(proofs.prove("b.example"));
        // A proof that the authority never fetches.
        link.hand_over_place();
        ask_for(&theirs, 5, &["c.example"]);
        link.leave_place();
        assert_eq!(answer(&theirs), None, "the helper ends");
        until("the thread to end", || !proofs.are_there());
    }

    fn exposed(link: &AcmeLink) -> String {
        let mut out = Exposition::default();
        link.expose(&mut out);
        out.into_text()
    }

    #[test]
    fn what_the_helper_tells_is_counted() {
        let now = now();
        let (ours, theirs) = packets::pair().unwrap();
        let proofs = AlpnProofs::default();
        let link = AcmeLink::start(ours, proofs).unwrap();
        assert!(exposed(&link).contains("fullbore_acme_failures_total{reason=\"rejected\"} 0"));
        let told =
            |news, ends, due| AcmePacket::Told(AcmeTold { news, ends, due, said: String::new() });
        for message in [
            told(AcmeNews::Failed(AcmeTrouble::Rejected), None, now - 1000),
            told(AcmeNews::Failed(AcmeTrouble::Rejected), None, now - 1000),
        ] {
            packets::send(&theirs, &message, None).unwrap();
        }
        until("two failures", || {
            exposed(&link).contains("fullbore_acme_failures_total{reason=\"rejected\"} 2")
        });
        let value = |name: &str| {
            let text = exposed(&link);
            let line = text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
            line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
        };
        assert!((1000..1100).contains(&value("fullbore_acme_overdue_seconds")));
        assert_eq!(value("fullbore_acme_certificate_left_seconds"), 0);
        packets::send(&theirs, &told(AcmeNews::Obtained, Some(now + 9000), now + 6000), None)
            .unwrap();
        until("a certificate", || value("fullbore_acme_certificates_total") == 1);
        assert_eq!(value("fullbore_acme_overdue_seconds"), 0);
        assert!((8900..=9000).contains(&value("fullbore_acme_certificate_left_seconds")));
    }
}
