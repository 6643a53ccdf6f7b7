//! Parses the attributes of ethtool's answers (kernel documentation: networking/ethtool-netlink).

use super::{Coalescing, NicFeatures, PauseFrames, QueueCounts, RingSizes};
use crate::netlink::attributes::{attribute, attributes, number, text};
use std::collections::BTreeSet;

/// `ETHTOOL_A_RINGS_*`.
pub(crate) fn rings(bytes: &[u8]) -> Option<RingSizes> {
    Some(RingSizes {
        receive: number(bytes, 6)?,
        receive_max: number(bytes, 2)?,
        send: number(bytes, 9)?,
        send_max: number(bytes, 5)?,
    })
}

/// `ETHTOOL_A_CHANNELS_*`. Drivers have queues that do both, or queues of each kind.
pub(crate) fn channels(bytes: &[u8]) -> Option<QueueCounts> {
    let sum = |both, receiving| match (number(bytes, both), number(bytes, receiving)) {
        (None, None) => None,
        (both, receiving) => both.unwrap_or(0).checked_add(receiving.unwrap_or(0)),
    };
    let [receive, receive_max] = [sum(9, 6)?, sum(5, 2)?];
    (receive > 0).then_some(QueueCounts { receive, receive_max })
}

/// `ETHTOOL_A_COALESCE_*`.
pub(crate) fn coalescing(bytes: &[u8]) -> Option<Coalescing> {
    let receive_us = number(bytes, 2)?;
    Some(Coalescing { receive_us, is_adaptive: number(bytes, 11).is_some_and(|on| on != 0) })
}

/// `ETHTOOL_A_PAUSE_*`.
pub(crate) fn pause(bytes: &[u8]) -> Option<PauseFrames> {
    Some(PauseFrames { heeds: number(bytes, 3)? != 0, sends: number(bytes, 4)? != 0 })
}

/// `ETHTOOL_A_FEATURES_*`: the card's features, and the active ones.
pub(crate) fn features(bytes: &[u8]) -> Option<NicFeatures> {
    Some(NicFeatures {
        switchable: names_set(attribute(bytes, 2)?),
        on: names_set(attribute(bytes, 4)?),
    })
}

/// The names of the bits that are set in `ETHTOOL_A_BITSET_*`. Without a mask, a listed bit is set; otherwise the list has
/// its value.
fn names_set(bitset: &[u8]) -> BTreeSet<String> {
    let has_mask = attribute(bitset, 1).is_none();
    let bits = attributes(attribute(bitset, 3).unwrap_or_default());
    let set = bits.filter(|(_, bit)| !has_mask || attribute(bit, 3).is_some());
    set.filter_map(|(_, bit)| text(bit, 2)).collect()
}

/// `ETHTOOL_A_RSS_INDIR`.
pub(crate) fn spread(bytes: &[u8]) -> Vec<u32> {
    let table = attribute(bytes, 4).unwrap_or_default().chunks_exact(4);
    let queue = |entry: &[u8]| u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
    table.map(queue).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attributes::{put, put_nested};

    fn numbers(pairs: &[(u16, u32)]) -> Vec<u8> {
        let mut message = Vec::new();
        pairs.iter().for_each(|(kind, value)| put(&mut message, *kind, &value.to_ne_bytes()));
        message
    }

    fn bit(name: &str, value: bool) -> Vec<u8> {
        let mut bit = Vec::new();
        put(&mut bit, 1, &7_u32.to_ne_bytes());
        put(&mut bit, 2, format!("{name}\0").as_bytes());
        if value {
            put(&mut bit, 3, &[]);
        }
        bit
    }

    fn bitset(bits: &[(&str, bool)], has_mask: bool) -> Vec<u8> {
        let mut list = Vec::new();
        bits.iter().for_each(|(name, value)| put_nested(&mut list, 1, &bit(name, *value)));
        let mut bitset = Vec::new();
        if !has_mask {
            put(&mut bitset, 1, &[]);
        }
        put_nested(&mut bitset, 3, &list);
        bitset
    }

    #[test]
    fn numbers_are_those_of_their_kinds() {
        let sizes = RingSizes { receive: 1024, receive_max: 8192, send: 512, send_max: 4096 };
        assert_eq!(rings(&numbers(&[(2, 8192), (5, 4096), (6, 1024), (9, 512)])), Some(sizes));
        assert_eq!(rings(&numbers(&[(2, 8192)])), None);
        let both = QueueCounts { receive: 8, receive_max: 32 };
        assert_eq!(channels(&numbers(&[(5, 32), (9, 8), (4, 1)])), Some(both));
        assert_eq!(channels(&numbers(&[(2, 32), (6, 8)])), Some(both));
        assert_eq!(channels(&[]), None);
        let mut message = numbers(&[(2, 8)]);
        put(&mut message, 11, &[1]);
        assert_eq!(coalescing(&message), Some(Coalescing { receive_us: 8, is_adaptive: true }));
    }

    #[test]
    fn features_are_set_by_their_value_or_by_being_listed() {
        let mut message = Vec::new();
        let can = bitset(&[("tx-tcp-segmentation", true), ("rx-lro", false)], true);
        put_nested(&mut message, 2, &can);
        put_nested(&mut message, 4, &bitset(&[("rx-gro", false)], false));
        let found = features(&message).unwrap();
        assert_eq!(found.switchable, BTreeSet::from(["tx-tcp-segmentation".to_owned()]));
        assert_eq!(found.on, BTreeSet::from(["rx-gro".to_owned()]));
    }

    #[test]
    fn messages_cut_short_or_scrambled_are_read_without_harm() {
        let mut message = Vec::new();
        put_nested(&mut message, 2, &bitset(&[("a", true), ("b", true)], true));
        put_nested(&mut message, 4, &bitset(&[("c", true)], false));
        for end in 0..message.len() {
            features(&message[..end]);
            rings(&message[..end]);
            spread(&message[..end]);
        }
        for at in 0..message.len() {
            for byte in [0, 1, 3, 0xff] {
                let mut scrambled = message.clone();
                scrambled[at] = byte;
                features(&scrambled);
                channels(&scrambled);
                attributes(&scrambled).count();
            }
        }
    }
}
