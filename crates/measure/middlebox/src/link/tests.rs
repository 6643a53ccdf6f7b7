//! The link model in virtual time.

use super::*;
use crate::Chance;
use proptest::prelude::*;

const PACKET_BYTES: usize = 1000;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Offers packets 0..count, one per `gap`, and returns the arrivals with their times since the start.
fn carry(impairment: Impairment, seed: u64, count: u64, gap: Duration) -> Vec<(Duration, u64)> {
    let start = Instant::now();
    let mut link = SimulatedLink::new(impairment, seed);
    for number in 0..count {
        link.offer(start + gap * u32::try_from(number).expect("small"), number, PACKET_BYTES);
    }
    drain(&mut link, start)
}

fn drain(link: &mut SimulatedLink<u64>, start: Instant) -> Vec<(Duration, u64)> {
    let mut arrived = Vec::new();
    while let Some(due) = link.next_due() {
        let delivered = link.poll(due).expect("it is due");
        arrived.push((due - start, delivered.packet));
    }
    assert_eq!((link.held_packets(), link.held_bytes), (0, 0));
    arrived
}

#[test]
fn a_perfect_wire_hands_over_at_once_and_in_order() {
    let arrived = carry(Impairment::default(), 1, 3, ms(1));
    assert_eq!(arrived, [(ms(0), 0), (ms(1), 1), (ms(2), 2)]);
}

#[test]
fn nothing_arrives_before_its_delay() {
    let start = Instant::now();
    let mut link = SimulatedLink::new(Impairment { delay: ms(10), ..Impairment::default() }, 1);
    link.offer(start, 7, PACKET_BYTES);
    assert_eq!(link.poll(start + ms(9)), None);
    assert_eq!(link.next_due(), Some(start + ms(10)));
    assert_eq!(link.poll(start + ms(10)), Some(Delivered { packet: 7, marked: false }));
    assert_eq!(link.next_due(), None);
}

#[test]
fn jitter_spreads_arrivals_and_keeps_their_order() {
    let impairment = Impairment { delay: ms(10), jitter: ms(5), ..Impairment::default() };
    let arrived = carry(impairment, 3, 200, ms(1));
    assert!(arrived.iter().map(|(_, number)| *number).eq(0..200));
    let delays: Vec<_> = arrived.iter().map(|(at, number)| *at - ms(*number)).collect();
    assert!(delays.iter().all(|delay| (ms(10)..ms(15)).contains(delay)));
    assert!(delays.iter().any(|delay| *delay > ms(13)) && delays.iter().any(|d| *d < ms(12)));
}

/// 30 flows, two packets each, one packet per millisecond.
fn carry_flows(seed: u64) -> Vec<(Duration, u64)> {
    let start = Instant::now();
    let flow_delay = Some((ms(10), ms(80)));
    let mut link =
        SimulatedLink::new(Impairment { delay: ms(5), flow_delay, ..Impairment::default() }, seed);
    for number in 0..60 {
        link.offer_in_flow(start + ms(number), number % 30, number, PACKET_BYTES);
    }
    link.offer(start + ms(60), 60, PACKET_BYTES);
    drain(&mut link, start)
}

#[test]
fn each_flow_has_a_delay_of_its_own_and_keeps_it() {
    let arrived = carry_flows(1);
    let delay_of = |number: u64| {
        let (at, _) = arrived.iter().find(|(_, packet)| *packet == number).expect("it arrived");
        *at - ms(number)
    };
    assert_eq!(delay_of(60), ms(5), "it belongs to no flow");
    let delays: Vec<_> = (0..30).map(delay_of).collect();
    assert!(delays.iter().all(|delay| (ms(15)..=ms(85)).contains(delay)), "{delays:?}");
    assert!((30..60).map(delay_of).eq(delays.iter().copied()), "a flow's delay changes");
    // Of 30 draws from 70 ms, some are in the shortest and the longest ten.
    let (least, most) = (delays.iter().min().expect("30"), delays.iter().max().expect("30"));
    assert!(*least < ms(25) && *most > ms(75), "{delays:?}");
    assert!(!arrived.is_sorted_by_key(|(_, number)| *number), "no flow overtakes another");
    assert_eq!(arrived, carry_flows(2), "the way back has another seed, and the same delays");
}

#[test]
fn the_packets_lost_at_a_low_rate_are_lost_at_a_higher_rate_too() {
    let with = |count, jitter| {
        let loss = Chance::per_million(count);
        let arrived = carry(Impairment { loss, jitter, ..Impairment::default() }, 5, 1000, ms(1));
        arrived.into_iter().map(|(_, number)| number).collect::<Vec<_>>()
    };
    let (low, high) = (with(10_000, ms(0)), with(100_000, ms(3)));
    assert!((980..1000).contains(&low.len()), "{} of 1000 at 1%", low.len());
    assert!((870..930).contains(&high.len()), "{} of 1000 at 10%", high.len());
    assert!(high.iter().all(|number| low.contains(number)));
}

#[test]
fn reordering_holds_packets_back_while_others_pass() {
    let reorder = Chance::per_million(50_000);
    let impairment =
        Impairment { reorder, reorder_by: ms(20), delay: ms(10), ..Impairment::default() };
    let arrived = carry(impairment, 9, 400, ms(1));
    let numbers: Vec<_> = arrived.iter().map(|(_, number)| *number).collect();
    assert!(!numbers.is_sorted());
    let late = arrived.iter().filter(|(at, number)| *at > ms(number + 10)).count();
    assert!((5..40).contains(&late), "{late} of 400 at 5%");
    assert!(arrived.iter().all(|(at, number)| *at <= ms(number + 30)));
}

#[test]
fn a_copy_follows_its_packet() {
    let duplicate = Chance::ALWAYS;
    let arrived = carry(Impairment { duplicate, ..Impairment::default() }, 1, 2, ms(1));
    assert_eq!(arrived, [(ms(0), 0), (ms(0), 0), (ms(1), 1), (ms(1), 1)]);
}

#[test]
fn the_bottleneck_takes_its_time_for_each_packet() {
    // 1000 bytes at 8 Mbit/s take a millisecond.
    let rate_bits_per_second = Some(8_000_000);
    let arrived = carry(Impairment { rate_bits_per_second, ..Impairment::default() }, 1, 3, ms(0));
    assert_eq!(arrived, [(ms(1), 0), (ms(2), 1), (ms(3), 2)]);
    let idle = carry(Impairment { rate_bits_per_second, ..Impairment::default() }, 1, 2, ms(5));
    assert_eq!(idle, [(ms(1), 0), (ms(6), 1)]);
}

#[test]
fn what_does_not_fit_the_queue_is_dropped_and_counted() {
    let start = Instant::now();
    let rate_bits_per_second = Some(8_000_000);
    let impairment =
        Impairment { rate_bits_per_second, queue_bytes: 3000, ..Impairment::default() };
    let mut link = SimulatedLink::new(impairment, 1);
    let fates: Vec<_> = (0..6).map(|number| link.offer(start, number, PACKET_BYTES)).collect();
    assert_eq!(fates[..3], [Fate::Carried; 3]);
    assert_eq!(fates[3..], [Fate::QueueFull; 3]);
    assert_eq!(link.counters().queue_full_packets, 3);
    assert_eq!(link.offer(start + ms(1), 6, PACKET_BYTES), Fate::Carried, "one has left");
    assert_eq!(drain(&mut link, start).len(), 4);
}

#[test]
fn a_queue_of_nothing_still_carries_what_need_not_wait() {
    let rate_bits_per_second = Some(8_000_000);
    let impairment = Impairment { rate_bits_per_second, queue_bytes: 0, ..Impairment::default() };
    assert_eq!(carry(impairment, 1, 4, ms(1)).len(), 4);
    assert_eq!(carry(impairment, 1, 4, ms(0)).len(), 1);
}

#[test]
fn what_the_path_holds_is_bounded() {
    let start = Instant::now();
    let impairment = Impairment { delay: ms(100), held_bytes_max: 5000, ..Impairment::default() };
    let mut link = SimulatedLink::new(impairment, 1);
    let fates: Vec<_> = (0..6).map(|number| link.offer(start, number, PACKET_BYTES)).collect();
    assert_eq!(fates[5], Fate::HeldTooMuch);
    assert_eq!(link.held_packets(), 5);
}

#[test]
fn a_change_leaves_alone_what_is_under_way() {
    let start = Instant::now();
    let mut link = SimulatedLink::new(Impairment { delay: ms(10), ..Impairment::default() }, 1);
    link.offer(start, 1, PACKET_BYTES);
    link.change(Impairment { loss: Chance::ALWAYS, ..Impairment::default() });
    assert_eq!(link.offer(start, 2, PACKET_BYTES), Fate::Lost);
    assert_eq!(drain(&mut link, start), [(ms(10), 1)]);
}

fn any_impairment() -> impl Strategy<Value = Impairment> {
    let chance = || (0_u64..300_000).prop_map(Chance::per_million);
    let time = || (0_u64..50).prop_map(ms);
    let rate = prop::option::of(100_000_u64..1_000_000_000);
    (time(), time(), (chance(), chance(), chance(), chance()), time(), rate, 0_u64..100_000)
        .prop_map(|(delay, jitter, chances, reorder_by, rate_bits_per_second, queue_bytes)| {
            let (loss, reorder, duplicate, mark) = chances;
            Impairment {
                delay,
                flow_delay: Some((delay, delay + reorder_by)),
                jitter,
                loss,
                reorder,
                reorder_by,
                duplicate,
                mark,
                rate_bits_per_second,
                queue_bytes,
                held_bytes_max: 500_000,
            }
        })
}

proptest! {
    /// Every packet is accounted for, none arrives early, and the same seed gives the same fates.
    #[test]
    fn every_packet_is_accounted_for(
        impairment in any_impairment(),
        seed: u64,
        gaps in prop::collection::vec((0_u64..3000, 1_usize..9000), 1..200),
    ) {
        let start = Instant::now();
        let run = || {
            let (mut link, mut now, mut arrived) = (SimulatedLink::new(impairment, seed), start, Vec::new());
            for (number, (gap_us, bytes)) in gaps.iter().enumerate() {
                now += Duration::from_micros(*gap_us);
                while let Some(due) = link.next_due().filter(|due| *due <= now) {
                    arrived.push((due, link.poll(due).expect("due")));
                }
                link.offer_in_flow(now, number as u64 % 3, (number, now), *bytes);
            }
            while let Some(due) = link.next_due() {
                arrived.push((due, link.poll(due).expect("due")));
            }
            (arrived, *link.counters())
        };
        let (arrived, counters) = run();
        prop_assert_eq!(&run(), &(arrived.clone(), counters));
        prop_assert!(arrived.is_sorted_by_key(|(due, _)| *due));
        for (due, delivered) in &arrived {
            prop_assert!(*due >= delivered.packet.1 + impairment.delay);
        }
        prop_assert_eq!(counters.offered_packets, gaps.len() as u64);
        prop_assert_eq!(counters.delivered_packets, arrived.len() as u64);
        let gone = counters.lost_packets + counters.queue_full_packets + counters.held_too_much_packets;
        prop_assert_eq!(
            counters.delivered_packets,
            counters.offered_packets - gone + counters.duplicated_packets
        );
    }
}
