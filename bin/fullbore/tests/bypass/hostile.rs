//! An attacker on the same network: other viewers are still served, memory does not grow, and counters show the attack.

use crate::support::raw::{ACK, RST, Raw, SYN, Seen, set_ip_checksum};
use crate::support::served::{PORT, Room, Server, V4};
use fullbore_tests::{Namespace, tool, until};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The TAP's name, which only this test needs to know.
const TAP: &str = "fb-hostile";

/// SYNs in the flood: what one core can send in a few seconds.
const FLOOD: u32 = 300_000;

/// The most that a server may grow, whatever it receives. Buffers for reading and for connections come and go by the megabyte.
const GROWTH_KIB_MAX: u64 = 32 << 10;

/// A server, a film, and a namespace for the attacker; none if they are not available.
struct Target {
    space: Arc<Namespace>,
    room: Room,
    server: Server,
}

impl Target {
    fn new(film_bytes: usize) -> Option<Self> {
        let space = tool::are_here(&[("curl", "curl")])
            .then(Namespace::if_possible)
            .flatten()
            .map(Arc::new)?;
        let mut room = Room::new(film_bytes);
        room.device = format!("interface = \"{TAP}\"\n{}", room.device);
        let server = Server::start(&space, &room, &["--tls", "off"], "");
        Some(Self { space, room, server })
    }

    /// An honest client gets every byte.
    #[track_caller]
    fn serves(&self, more: &[&str]) {
        let common = ["--silent", "--show-error", "--fail", "--max-time", "600"];
        let url = self.server.url();
        let got = self.space.succeed("curl", &[&common[..], more, &[&url]].concat());
        assert!(got == self.room.film, "{} bytes", got.len());
    }

    /// Its resident memory, in KiB.
    fn resident_kib(&self) -> u64 {
        self.server.of_every_thread("VmRSS")[0].parse().unwrap()
    }

    #[track_caller]
    fn assert_grew_little(&self, before_kib: u64) {
        let grown_kib = self.resident_kib().saturating_sub(before_kib);
        assert!(grown_kib <= GROWTH_KIB_MAX, "it grew by {grown_kib} KiB");
    }

    /// A captured segment of an honest client.
    fn seen(&self) -> (Raw, Seen) {
        let mut raw = Raw::open(&self.space, TAP);
        self.serves(&["--local-port", "40000"]);
        let seen = raw.receive_between(viewer(40_000), server());
        (raw, seen)
    }
}

fn viewer(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new([192, 0, 2, 1].into(), port)
}

fn server() -> SocketAddrV4 {
    format!("{V4}:{PORT}").parse().unwrap()
}

#[test]
fn a_flood_of_syns_shuts_nobody_out_and_takes_no_memory() {
    let Some(target) = Target::new(2_000_003) else { return };
    let (raw, seen) = target.seen();
    let syn = Seen { flags: SYN, options: Vec::new(), ..seen };
    let before_kib = target.resident_kib();
    let (began, is_over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let attacker = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut taken = 0_u32;
            // Each SYN has another unused address, so no RST removes the half-open connections.
            for number in 0..FLOOD {
                let from =
                    SocketAddrV4::new((0x0a00_0000 + number).into(), 1024 + number as u16 % 60_000);
                let segment = Seen { from, sequence: number, ..syn.clone() };
                taken += u32::from(raw.send(&segment.frame(&[])));
            }
            is_over.store(true, Ordering::Relaxed);
            (taken, began.elapsed())
        }
    });
    let mut served = 0;
    while !is_over.load(Ordering::Relaxed) || served == 0 {
        target.serves(&[]);
        served += 1;
    }
    let (taken, time) = attacker.join().unwrap();
    let rate = f64::from(taken) / time.as_secs_f64();
    let number =
        |event: &str| target.server.number(&format!("tcp_events_total{{event=\"{event}\"}}"));
    target.server.await_number("tcp_events_total{event=\"syn_cookies_sent\"}", 1000);
    eprintln!(
        "{taken} SYNs at {rate:.0}/s, {served} films served meanwhile, {} SYNs queued, {} cookies sent, {} accepted, {} KiB before and {} after",
        number("syn_queued"),
        number("syn_cookies_sent"),
        number("syn_cookies_accepted"),
        before_kib,
        target.resident_kib(),
    );
    target.assert_grew_little(before_kib);
    target.serves(&[]);
    target.server.end();
}

#[test]
fn segments_that_nobody_sent_end_no_connection() {
    let Some(target) = Target::new(6_000_001) else { return };
    let mut raw = Raw::open(&target.space, TAP);
    let before_kib = target.resident_kib();
    let is_over = Arc::new(AtomicBool::new(false));
    let attacker = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let is_over = &*is_over;
            while let Some(seen) = raw.receive_between_until(viewer(41_000), server(), is_over) {
                // During the handshake, a guess at the middle of its window may end it.
                if seen.flags & SYN == 0 {
                    inject(&raw, &seen);
                }
                if seen.flags & 1 != 0 {
                    return;
                }
            }
        }
    });
    target.serves(&["--local-port", "41000", "--limit-rate", "2M"]);
    is_over.store(true, Ordering::Relaxed);
    attacker.join().unwrap();
    for event in ["reset_outside_window", "reset_challenged", "syn_challenged", "ack_unsent"] {
        target.server.await_number(&format!("tcp_events_total{{event=\"{event}\"}}"), 1);
    }
    target.assert_grew_little(before_kib);
    target.serves(&[]);
    target.server.end();
}

/// Segments of an attacker who sees a connection, including timestamps, except a RST at the very next byte, which would rightly end it.
fn inject(raw: &Raw, seen: &Seen) {
    let next = seen.sequence;
    let segment =
        |ahead: u32, flags: u8| Seen { sequence: next.wrapping_add(ahead), flags, ..seen.clone() };
    let far = 1 << 20;
    raw.send(&segment(far, RST).frame(&[]));
    raw.send(&segment(0_u32.wrapping_sub(far), RST).frame(&[]));
    raw.send(&segment(100, RST).frame(&[]));
    raw.send(&segment(0, SYN).frame(&[]));
    raw.send(&segment(far, SYN).frame(&[]));
    raw.send(&segment(far, ACK).frame(b"GET /other HTTP/1.1\r\n\r\n"));
    let unsent = seen.acknowledgment.wrapping_add(1 << 28);
    raw.send(&Seen { acknowledgment: unsent, ..segment(0, ACK) }.frame(&[]));
}

#[test]
fn fragments_and_noise_are_counted_and_nothing_else() {
    let Some(target) = Target::new(2_000_003) else { return };
    let (raw, seen) = target.seen();
    let before_kib = target.resident_kib();
    let whole =
        Seen { from: viewer(42_000), flags: SYN, options: Vec::new(), ..seen }.frame(&[7; 64]);
    let counted = "frames_refused_total{reason=\"fragment\"}";
    // The interface takes some hundred frames only while the server has no processor.
    until("most of them to be taken", || {
        send_noise(&raw, &whole);
        target.server.wait_for_news();
        target.server.number(counted) >= 1000
    });
    target.serves(&[]);
    target.assert_grew_little(before_kib);
    target.server.end();
}

/// Fragments, and frames that are cut short or have anything in them.
fn send_noise(raw: &Raw, whole: &[u8]) {
    for number in 0..20_000_u32 {
        let mut frame = whole.to_vec();
        match number % 4 {
            // More fragments follow; or this is not the first (RFC 791 section 3.1).
            0 => frame[20..22].copy_from_slice(&[0x20, 0]),
            1 => frame[20..22].copy_from_slice(&[0, 16]),
            // Cut short, its header unchanged.
            2 => frame.truncate(14 + number as usize / 4 % 40),
            // Any bytes where TCP's header was.
            _ => {
                let noise = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
                frame[34..]
                    .chunks_mut(4)
                    .for_each(|four| four.copy_from_slice(&noise[..four.len()]));
            }
        }
        if frame.len() >= 34 {
            set_ip_checksum(&mut frame);
        }
        raw.send(&frame);
    }
}
