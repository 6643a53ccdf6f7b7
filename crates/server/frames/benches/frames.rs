//! Measures the cost of frames on this machine, in CPU time of one thread. Needs root: it works in a network namespace of its own.
//!
//! Prints, as median and median absolute deviation of the rounds: nanoseconds to parse a full segment with an unknown checksum; and bytes of payload
//! per CPU second that each device takes, in super-segments and one segment at a time. The kernel drops each frame as soon as it has looked up its
//! route. So the figure covers the way there: the copy, and for AF_XDP the cutting and checksumming.
//!
//! `--rounds N` (default 9).

use fullbore_frames::checksum::Sum;
use fullbore_frames::{
    Between, Checksum, FrameHead, Hop, Interface, Mac, Packet, TapSetup, XdpSetup, parse,
};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

const SEGMENT_BYTES: u16 = 1448;
/// About three TLS records with their headers.
const SUPER_SEGMENT_BYTES: usize = 49_500;
const PAYLOAD_PER_ROUND_BYTES: usize = 200_000_000;
const PARSES_PER_ROUND: usize = 100_000;
/// A peer without a route (RFC 5737).
const BETWEEN: Between = Between {
    local: std::net::IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1)),
    remote: std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 99)),
    ecn: 0,
};

fn main() {
    // SAFETY: only this thread's network namespace changes, on which no memory depends.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        fullbore_tests::tool::skip("a network namespace needs root");
        return;
    }
    show("take a segment apart, ns", 1.0, || {
        let frame = frame();
        let seconds = processor_time(|| (0..PARSES_PER_ROUND).for_each(|_| take(&frame)));
        seconds.as_nanos() as f64 / PARSES_PER_ROUND as f64
    });
    let tap = TapSetup { addresses: vec![BETWEEN.local], ..TapSetup::default() };
    measure("TAP", tap.open().expect("a TAP").remove(0), Mac([2; 6]));
    ip("link add near type veth peer name far");
    ip("addr add 198.51.100.1/24 dev near");
    ip("link set near up");
    ip("link set far up");
    let xdp = XdpSetup {
        interface: "near".to_owned(),
        queues: 1,
        flows: vec![(BETWEEN.local, 443).into()],
        zero_copy: false,
        lends: Vec::new(),
        lends_to_kernel: false,
        streams_payload: false,
    };
    measure("AF_XDP on veth", xdp.open().expect("an AF_XDP socket").remove(0), Mac([2; 6]));
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("there is `ip`");
    assert!(status.success(), "ip {arguments}");
}

fn hop(destination: Mac) -> Hop {
    Hop { destination, source: Mac([4; 6]), mtu_bytes: 1500 }
}

fn head(hop: &Hop, payload_bytes: usize) -> FrameHead {
    let mut tcp = [0; 32];
    tcp[12..14].copy_from_slice(&[0x80, 0x10]);
    FrameHead::tcp(hop, BETWEEN, &tcp, payload_bytes)
}

fn frame() -> Vec<u8> {
    let payload = [7; SEGMENT_BYTES as usize];
    let mut head = head(&hop(Mac([2; 6])), payload.len());
    let mut sum = Sum::default();
    sum.add(&payload);
    head.complete_checksum(sum);
    [head.bytes(), &payload].concat()
}

fn take(frame: &[u8]) {
    let packet = parse(black_box(frame), Checksum::Unknown, |address| address == BETWEEN.remote);
    assert!(matches!(packet, Ok(Packet::Tcp(_))));
}

fn measure(name: &str, mut interface: Interface, destination: Mac) {
    let payload = vec![7; SUPER_SEGMENT_BYTES];
    for (what, bytes) in
        [("super-segments", SUPER_SEGMENT_BYTES), ("segments", SEGMENT_BYTES.into())]
    {
        show(&format!("{name}, {what}, Gb/s"), 8e-9, || {
            let seconds = processor_time(|| send(&mut interface, destination, &payload[..bytes]));
            PAYLOAD_PER_ROUND_BYTES as f64 / seconds.as_secs_f64()
        });
    }
    let statistics = interface.device.statistics();
    assert_eq!(statistics.send_errors, 0);
}

/// Sends a round's bytes. Flushes once per super-segment's worth of bytes.
fn send(interface: &mut Interface, destination: Mac, payload: &[u8]) {
    let (device, hop) = (&mut interface.device, hop(destination));
    let mut unflushed = 0;
    for _ in 0..PAYLOAD_PER_ROUND_BYTES / payload.len() {
        while !device.can_send(payload.len(), SEGMENT_BYTES) {
            device.flush().expect("the device is up");
        }
        device.send(head(&hop, payload.len()), &[payload], SEGMENT_BYTES).expect("there is room");
        unflushed += payload.len();
        if unflushed >= SUPER_SEGMENT_BYTES {
            device.flush().expect("the device is up");
            unflushed = 0;
        }
    }
}

fn processor_time(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    work();
    now() - before
}

fn show(what: &str, unit: f64, mut round: impl FnMut() -> f64) {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--rounds").skip(1);
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(9);
    let mut values: Vec<_> = (0..rounds).map(|_| round() * unit).collect();
    let middle = median(&mut values);
    let mut apart: Vec<_> = values.iter().map(|value| (value - middle).abs()).collect();
    println!("{what:36} {middle:8.1} +- {:.1}", median(&mut apart));
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
