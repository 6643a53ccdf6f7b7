//! Joins the pure acknowledgements of a batch of segments, by connection: of several in a row only the last is processed, which includes everything
//! that the others reported (receive-side coalescing for the one kind of segment that it leaves alone).
//!
//! A segment is joined if it has no payload, the ACK flag and no other, and no options except timestamps. It must have the same sequence number and
//! ECN field as the one before, acknowledge more, and not be older. So a duplicate is never joined, nor are SACKs, marks, window updates that
//! acknowledge nothing, or anything that ends something. A connection gets the joined segment before any other, so its segments keep their order.
//!
//! Measurements stay the same. All segments of a batch are processed at one time, so the last one has the shortest round trip and the most delivered
//! bytes of all. The number of joined segments counts where samples are counted: HyStart++ and the gains of the smoothed round trip.
//!
//! A connection's place is computed from its addresses without a secret. A peer that makes two connections collide only keeps their segments from
//! being joined.

use std::net::IpAddr;

use crate::segment::{Arrived, Ecn};
use crate::seq::{Seq, timestamp_older};

/// Places. As many as a batch has segments, so that connections rarely share one.
const PLACES: usize = 64;

/// A header without options, and one with timestamps in the common layout (RFC 7323 appendix A).
const PLAIN_BYTES: usize = 20;
const STAMPED_BYTES: usize = 32;
const STAMPS: [u8; 4] = [1, 1, 8, 10];

const ACK: u8 = 0x10;

/// A pure acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    remote: IpAddr,
    local: IpAddr,
    ecn: Ecn,
    bytes: [u8; STAMPED_BYTES],
    length: u8,
    /// How many segments it stands for.
    pub(crate) acks: u32,
}

/// The decision about a segment.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The segment is held, in place of the one before it if `joined`.
    Held { joined: bool },
    /// The segment is held, and this one, which was held in its place, must be processed.
    Displaces(Held),
    /// The segment must be processed, after this one if there is one.
    After(Option<Held>),
}

/// The acknowledgements that are held.
#[derive(Debug)]
pub(crate) struct Merging {
    places: Box<[Option<Held>; PLACES]>,
    /// A bit for each place that holds one.
    taken: u64,
}

impl Default for Merging {
    fn default() -> Self {
        Self { places: Box::new([None; PLACES]), taken: 0 }
    }
}

impl Merging {
    /// Takes a segment.
    pub(crate) fn offer(&mut self, arrived: &Arrived<'_>) -> Fate {
        let Some(ports) = arrived.segment.first_chunk::<4>() else { return Fate::After(None) };
        let place = place(arrived.remote, *ports);
        let slot = &mut self.places[place];
        match Held::of(arrived) {
            Some(new) => match slot {
                Some(old) if new.follows(old) => {
                    let acks = old.acks.saturating_add(1);
                    *old = Held { acks, ..new };
                    Fate::Held { joined: true }
                }
                _ => {
                    self.taken |= 1 << place;
                    slot.replace(new).map_or(Fate::Held { joined: false }, Fate::Displaces)
                }
            },
            None => Fate::After(self.take(place)),
        }
    }

    /// The next one that is held.
    pub(crate) fn next(&mut self) -> Option<Held> {
        let place = self.taken.trailing_zeros() as usize;
        if place < PLACES { self.take(place) } else { None }
    }

    fn take(&mut self, place: usize) -> Option<Held> {
        self.taken &= !(1 << place);
        self.places[place].take()
    }
}

fn place(remote: IpAddr, ports: [u8; 4]) -> usize {
    let address = match remote {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            (bits ^ (bits >> 32) ^ (bits >> 64)) as u32
        }
    };
    // Fibonacci hashing (Knuth, volume 3, section 6.4).
    let mixed = (address ^ u32::from_be_bytes(ports)).wrapping_mul(0x9e37_79b9);
    (mixed >> 26) as usize
}

impl Held {
    /// None: it is not a pure acknowledgement.
    fn of(arrived: &Arrived<'_>) -> Option<Self> {
        let segment = arrived.segment;
        let length = segment.len();
        let is_stamped = length == STAMPED_BYTES && segment[PLAIN_BYTES..].starts_with(&STAMPS);
        let is_whole_header =
            (is_stamped || length == PLAIN_BYTES) && usize::from(segment[12] >> 4) * 4 == length;
        if !is_whole_header || segment[13] != ACK {
            return None;
        }
        let mut bytes = [0; STAMPED_BYTES];
        bytes[..length].copy_from_slice(segment);
        let Arrived { remote, local, ecn, .. } = *arrived;
        Some(Self { remote, local, ecn, bytes, length: length as u8, acks: 1 })
    }

    /// Returns true if this reports everything that `old` did, and more.
    fn follows(&self, old: &Self) -> bool {
        // Ports and sequence number.
        let is_alike = self.bytes[..8] == old.bytes[..8]
            && self.length == old.length
            && (self.remote, self.local, self.ecn) == (old.remote, old.local, old.ecn);
        let acknowledges_more = Seq(self.word(8)).ahead_of(Seq(old.word(8))) > 0;
        let is_older = usize::from(self.length) == STAMPED_BYTES
            && timestamp_older(self.word(24), old.word(24));
        is_alike && acknowledges_more && !is_older
    }

    fn word(&self, at: usize) -> u32 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|byte| self.bytes[at + byte]);
        u32::from_be_bytes([a, b, c, d])
    }

    /// The segment as it arrived.
    pub(crate) fn arrived(&self) -> Arrived<'_> {
        let segment = &self.bytes[..self.length.into()];
        Arrived { remote: self.remote, local: self.local, ecn: self.ecn, segment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pure acknowledgement of a peer with this port.
    fn ack(port: u16, ack: u32, stamp: u32) -> Vec<u8> {
        let mut bytes = vec![0; STAMPED_BYTES];
        bytes[..2].copy_from_slice(&port.to_be_bytes());
        bytes[8..12].copy_from_slice(&ack.to_be_bytes());
        bytes[12..14].copy_from_slice(&[0x80, ACK]);
        bytes[20..24].copy_from_slice(&STAMPS);
        bytes[24..28].copy_from_slice(&stamp.to_be_bytes());
        bytes
    }

    fn arrived(segment: &[u8]) -> Arrived<'_> {
        let [remote, local] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        Arrived { remote, local, ecn: Ecn::NotCapable, segment }
    }

    /// The segments processed for these, in order: bytes, and how many each stands for.
    fn processed(segments: &[Vec<u8>]) -> Vec<(Vec<u8>, u32)> {
        let mut merging = Merging::default();
        let mut out = Vec::new();
        for segment in segments {
            let before = match merging.offer(&arrived(segment)) {
                Fate::Held { .. } => continue,
                Fate::Displaces(held) => Some(held),
                Fate::After(held) => {
                    out.extend(held.map(|held| (held.arrived().segment.to_vec(), held.acks)));
                    out.push((segment.clone(), 1));
                    continue;
                }
            };
            out.extend(before.map(|held| (held.arrived().segment.to_vec(), held.acks)));
        }
        while let Some(held) = merging.next() {
            out.push((held.arrived().segment.to_vec(), held.acks));
        }
        out
    }

    #[test]
    fn the_last_of_several_stands_for_all() {
        let segments = [ack(7, 100, 5), ack(7, 200, 5), ack(7, 1000, 9)];
        assert_eq!(processed(&segments), [(segments[2].clone(), 3)]);
        // Across the ends of both number spaces.
        let segments = [ack(7, u32::MAX - 5, u32::MAX), ack(7, 10, 0)];
        assert_eq!(processed(&segments), [(segments[1].clone(), 2)]);
        let plain = |number| {
            let mut segment = ack(7, number, 0);
            segment.truncate(PLAIN_BYTES);
            segment[12] = 0x50;
            segment
        };
        let segments = [plain(1), plain(2)];
        assert_eq!(processed(&segments), [(segments[1].clone(), 2)]);
    }

    #[test]
    fn what_says_something_of_its_own_is_not_joined() {
        let first = ack(7, 100, 5);
        let changed = |at: usize, value: u8| {
            let mut segment = ack(7, 200, 5);
            segment[at] = value;
            segment
        };
        let mut with_payload = ack(7, 200, 5);
        with_payload.push(1);
        let others = [
            first.clone(),         // a duplicate
            ack(7, 90, 5),         // an older one
            ack(7, 200, 4),        // an older timestamp
            changed(13, ACK | 1),  // FIN
            changed(13, ACK | 8),  // PSH
            changed(13, ACK | 64), // ECE
            changed(7, 1),         // another sequence number
            changed(23, 9),        // another option
            changed(12, 0x50),     // another length of the header
            with_payload,
            b"abc".to_vec(), // no header at all
        ];
        for other in others {
            let seen = processed(&[first.clone(), other.clone()]);
            let mut seen: Vec<_> =
                seen.into_iter().map(|(segment, acks)| (acks, segment)).collect();
            let is_in_order = other.len() < 4 || seen[0].1 == first;
            assert!(is_in_order, "{other:?}");
            seen.sort();
            let mut both = vec![(1, first.clone()), (1, other)];
            both.sort();
            assert_eq!(seen, both);
        }
    }

    #[test]
    fn another_ecn_field_is_not_joined() {
        let (first, second) = (ack(7, 100, 5), ack(7, 200, 5));
        let mut merging = Merging::default();
        merging.offer(&arrived(&first));
        let marked = Arrived { ecn: Ecn::Congestion, ..arrived(&second) };
        assert!(matches!(merging.offer(&marked), Fate::Displaces(held) if held.acks == 1));
    }

    #[test]
    fn many_connections_at_once_all_get_theirs() {
        let segments: Vec<_> =
            (0..3).flat_map(|round| (0..500).map(move |port| ack(port, 100 + round, 5))).collect();
        let seen = processed(&segments);
        assert_eq!(seen.iter().map(|(_, acks)| acks).sum::<u32>(), 1500);
        let last = |port: u16| seen.iter().rfind(|(segment, _)| segment[..2] == port.to_be_bytes());
        assert!((0..500).all(|port| last(port).is_some_and(|(segment, _)| segment[11] == 102)));
    }
}
