//! Hashes that are equal on every machine and in every release: they determine a title's nodes, and replays of logged decisions.

/// Mixes all bits of `value`: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The hash of a name: FNV-1a, mixed. Operators choose names, so collisions by attackers are not a concern.
pub(crate) fn of_text(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mix(text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Weighted rendezvous hashing: the candidate with the lowest cost wins, and each wins in proportion to its weight (Schindelhauer and Schomaker,
/// SPAA 2005: the logarithmic method). Adding or removing a candidate moves only what it wins or loses.
pub(crate) fn cost(key: u64, weight: f64) -> f64 {
    // In (0, 1], with the 53 bits of a float's mantissa.
    let share = ((key >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -share.ln() / weight
}

#[cfg(test)]
mod tests {
    use super::{cost, mix, of_text};

    #[test]
    fn candidates_win_in_proportion_to_their_weights() {
        let names = ["a", "b", "c"].map(of_text);
        let weights = [10.0, 20.0, 70.0];
        let mut wins = [0u32; 3];
        for title in 0..100_000 {
            let costs: Vec<f64> = names
                .iter()
                .zip(weights)
                .map(|(name, weight)| cost(mix(name ^ mix(title)), weight))
                .collect();
            let least = (0..3).min_by(|one, two| costs[*one].total_cmp(&costs[*two]));
            wins[least.expect("three candidates")] += 1;
        }
        for (won, weight) in wins.iter().zip(weights) {
            let share = f64::from(*won) / 1000.0;
            assert!((share - weight).abs() < 0.6, "{share} % for a weight of {weight} %");
        }
    }

    #[test]
    fn hashes_stay_as_they_are() {
        // A change would assign every title to other nodes, and contradict old logs.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(of_text("a"), mix(0xaf63_dc4c_8601_ec8c));
    }
}
