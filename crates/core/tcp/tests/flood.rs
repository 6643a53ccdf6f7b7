//! Attackers: memory stays bounded, counted by the allocator, and honest peers are still served.

mod peer;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use fullbore_tcp::{CloseReason, Config, Event, KeepAlive};
use peer::{ACK, Peer, RST, SYN, World};

/// Counts the bytes that each thread, and so each test, holds.
struct Counting;

thread_local! {
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn held_bytes() -> isize {
    HELD_BYTES.with(Cell::get)
}

fn count(bytes: isize) {
    // A thread that is ending holds nothing that matters.
    let _ = HELD_BYTES.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is passed to the system's allocator unchanged; counting neither allocates nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and the pointer is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How much a connection may hold in addition to its receive buffer.
const CONNECTION_BYTES_MAX: isize = 8 << 10;

fn config() -> Config {
    Config { listen: vec![443], receive_bytes_max: 4096, ..Config::default() }
}

#[test]
fn a_flood_of_syns_takes_no_more_memory_than_its_queue() {
    let mut world = World::new(Config { half_open_max: 64, ..config() });
    let mut honest = Peer::connect(&mut world, 1, 5000).expect("let in before the flood");
    let before = held_bytes();
    for stranger in 0..200_000 {
        world.take(&Peer::stranger(stranger).segment(SYN, 0, 0));
        if stranger % 10_000 == 0 {
            // A device that cannot keep up: answers wait in vain.
            world.poll_segments();
            world.pass(Duration::from_millis(100));
        }
    }
    let grown = held_bytes() - before;
    assert!(grown < 64 * CONNECTION_BYTES_MAX, "{grown} bytes");
    let statistics = world.endpoint.statistics();
    assert!(statistics.syn_cookies_sent > 100_000, "{statistics:?}");
    assert!(statistics.replies_dropped > 100_000, "{statistics:?}");
    assert_eq!(world.endpoint.connections(), 1);
    honest.fetch(&mut world, 100_000);
    let late = Peer::connect(&mut world, 2, 5000);
    late.expect("let in by a cookie, in the middle of the flood").fetch(&mut world, 100_000);
    assert_eq!(world.endpoint.statistics().syn_cookies_accepted, 1);
}

#[test]
fn lies_in_sack_cost_neither_memory_nor_the_stream() {
    let mut world = World::new(config());
    let mut liar = Peer::connect(&mut world, 1, 60_000).expect("let in");
    let mut honest = Peer::connect(&mut world, 2, 60_000).expect("let in");
    world.write(liar.port(), 4_000_000);
    // Let the window grow, so that the peer has more to lie about.
    while liar.heard_below() < 1_000_000 {
        liar.acknowledge_all(&mut world);
        world.pass(Duration::from_millis(5));
    }
    let before = held_bytes();
    let base = liar.acknowledged();
    for round in 0_u64..20_000 {
        // Every other byte, everywhere, within the sent bytes and beyond them.
        let start = base + round * 7919 % 400_000;
        let blocks = [(start, start + 1), (start + 2, start + 3), (start + 1_000_000, start + 9)];
        liar.acknowledge_with_sack(&mut world, &blocks);
        if round % 100 == 0 {
            world.pass(Duration::from_millis(1));
        }
    }
    let grown = held_bytes() - before;
    assert!(grown < CONNECTION_BYTES_MAX, "{grown} bytes");
    let statistics = world.endpoint.statistics();
    assert!(statistics.sack_invalid > 0, "{statistics:?}");
    honest.fetch(&mut world, 200_000);
    // A peer that lied may have lost data, but the stream is still in order: all of it arrives, or the connection ends.
    liar.fetch_rest(&mut world, 4_000_000);
}

#[test]
fn acknowledging_what_did_not_come_yet_opens_no_window_without_bound() {
    let window_bytes_max = 1 << 20;
    let mut world = World::new(Config { window_bytes_max, ..config() });
    let mut eager = Peer::connect(&mut world, 1, 65_535).expect("let in");
    world.write(eager.port(), 1 << 40);
    for _ in 0..5_000 {
        // First bytes that were sent but cannot have arrived, then bytes that were not even sent.
        eager.acknowledge_all(&mut world);
        eager.acknowledge_beyond(&mut world, 1_000_000);
        world.pass(Duration::from_micros(100));
        let info = world.info(eager.port()).expect("it lives on");
        assert!(info.sent_below - info.acknowledged_below <= u64::from(window_bytes_max));
        assert!(info.cwnd_bytes <= u64::from(window_bytes_max), "{}", info.cwnd_bytes);
        assert!(info.acknowledged_below <= info.sent_below);
    }
    assert!(world.endpoint.statistics().ack_unsent > 0);
}

#[test]
fn windows_held_shut_for_ever_end_and_hold_little_until_then() {
    const PEERS: u16 = 1000;
    let mut world = World::new(Config { stall: Duration::from_secs(60), ..config() });
    let before = held_bytes();
    let mut peers: Vec<_> = (0..PEERS)
        .map(|number| Peer::connect(&mut world, number, number % 3).expect("let in"))
        .collect();
    for peer in &peers {
        world.write(peer.port(), 1_000_000);
    }
    for _ in 0..40 {
        for peer in &mut peers {
            peer.acknowledge_all(&mut world);
        }
        world.pass(Duration::from_secs(1));
    }
    // The test's own end of a connection is counted as well.
    let each = (held_bytes() - before) / isize::try_from(PEERS).expect("small");
    assert!(each < CONNECTION_BYTES_MAX, "{each} bytes for each");
    let sent = world.endpoint.statistics().payload_bytes_sent;
    // One window of at most 32 bytes for each of the peer's segments, and a few probes.
    assert!(sent < 4000 * u64::from(PEERS), "{sent} bytes");
    world.pass(Duration::from_secs(300));
    assert_eq!(world.endpoint.connections(), 0, "{:?}", world.endpoint.statistics());
    assert!(world.endpoint.statistics().stalled > 0);
}

#[test]
fn resets_and_syns_outside_the_window_end_nothing() {
    let mut world = World::new(config());
    let mut peer = Peer::connect(&mut world, 1, 60_000).expect("let in");
    world.write(peer.port(), 3_000_000);
    for round in 0_u32..10_000 {
        // Anywhere except where a reset is accepted (RFC 5961), which is the next sequence number.
        let shift = 1 + round.wrapping_mul(429_496);
        for flags in [RST, RST | ACK, SYN, SYN | ACK] {
            world.take(&peer.shifted(flags, shift));
        }
        if round % 10 == 0 {
            peer.acknowledge_all(&mut world);
            world.pass(Duration::from_millis(1));
        }
    }
    let statistics = world.endpoint.statistics().clone();
    assert!(statistics.reset_outside_window > 0 && statistics.reset_challenged > 0);
    assert!(statistics.syn_challenged > 0 && statistics.challenges_throttled > 0);
    assert!(statistics.challenges_sent < 10_000, "{statistics:?}");
    peer.fetch_rest(&mut world, 3_000_000);
    assert!(!world.events.iter().any(|(_, event)| matches!(event, Event::Ended(_))));
}

#[test]
fn malformed_headers_are_dropped_and_malformed_options_end_the_reading() {
    let mut world = World::new(config());
    let mut peer = Peer::connect(&mut world, 1, 60_000).expect("let in");
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = peer.shifted(ACK, 0);
        change(&mut packet.segment);
        packet
    };
    for bytes in 0..20 {
        world.take(&changed(&|segment| segment.truncate(bytes)));
    }
    for header_words in [0, 4, 15] {
        world.take(&changed(&|segment| segment[12] = header_words << 4));
    }
    assert_eq!(world.endpoint.statistics().header_malformed, 23);
    // A SACK block cut short, a length of zero, a length beyond the end.
    for options in [[5, 4, 0, 0], [5, 0, 0, 0], [1, 1, 1, 8]] {
        world.take(&changed(&|segment| {
            segment.truncate(20);
            segment.extend(options);
            segment[12] = 6 << 4;
        }));
    }
    assert_eq!(world.endpoint.statistics().option_malformed, 3);
    peer.fetch(&mut world, 100_000);
}

#[test]
fn a_silent_peer_is_let_go() {
    let keep_alive =
        KeepAlive { idle: Duration::from_secs(10), interval: Duration::from_secs(5), probes: 3 };
    let mut world = World::new(Config { keep_alive: Some(keep_alive), ..config() });
    Peer::connect(&mut world, 1, 5000).expect("let in");
    world.pass(Duration::from_secs(60));
    assert_eq!(world.endpoint.connections(), 0);
    assert_eq!(world.endpoint.statistics().silent, 1);
}

/// Peers that have everything they requested and never finish (FIN-WAIT-2), or do not even acknowledge our FIN (FIN-WAIT-1).
#[test]
fn peers_that_never_finish_keep_nobody_out() {
    const PLACES: u16 = 8;
    let mut world = World::new(Config { connections_max: PLACES.into(), ..config() });
    let connect = |number: u16, world: &mut World| {
        let mut peer = Peer::connect(world, number, 5000)?;
        peer.fetch(world, 1000);
        Some(peer)
    };
    let leave = |numbers: std::ops::Range<u16>, world: &mut World| {
        for number in numbers {
            let mut peer = connect(number, world).expect("let in");
            world.let_go(peer.port());
            if number % 2 == 0 {
                peer.acknowledge_beyond(world, 1);
            }
        }
    };
    leave(0..100, &mut world);
    let before = held_bytes();
    leave(100..1000, &mut world);
    let grown = held_bytes() - before;
    // The test's own bookkeeping is most of it: a few dozen bytes for each.
    assert!(grown < 1000 * 256, "{grown} bytes");
    assert_eq!(world.endpoint.connections(), PLACES.into());
    assert_eq!(world.endpoint.statistics().connections_full, 0);
    let evicted =
        world.events.iter().filter(|(_, event)| *event == Event::Ended(CloseReason::Evicted));
    assert_eq!(evicted.count(), 1000 - usize::from(PLACES));
    // They make room; connections that are still served do not.
    let mut honest: Vec<_> = (0..PLACES)
        .map(|number| Peer::connect(&mut world, 2000 + number, 5000).expect("let in"))
        .collect();
    assert!(Peer::connect(&mut world, 3000, 5000).is_none(), "all places are taken");
    assert_eq!(world.endpoint.statistics().orphans_evicted, 1000);
    honest.iter_mut().for_each(|peer| peer.fetch(&mut world, 100_000));
}
