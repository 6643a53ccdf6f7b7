//! The most that a box may send if no ceiling is set: nine tenths of the speed of its network links. The rest is for headers,
//! retransmissions and heartbeats; a full link drops packets of every viewer.

use machine::{LinkSpeed, Topology};

/// The percentage of the links' speed.
const PERCENT: u64 = 90;

/// The ceiling of this machine in bits per second, and a line for its operator. 0 if no link reports its speed: then the box never says
/// `at_ceiling`.
pub fn ceiling_of_links() -> (u64, String) {
    of(&Topology::open().links())
}

fn of(links: &[LinkSpeed]) -> (u64, String) {
    let known = || links.iter().filter_map(|link| Some((&link.nic, link.bits_per_second?)));
    let sum = known().fold(0_u64, |sum, (_, speed)| sum.saturating_add(speed));
    if sum == 0 {
        let line = "the network speed of this box is unknown, so it never reports itself as full: set it with --ceiling GBPS";
        return (0, line.to_owned());
    }
    let ceiling = sum / 100 * PERCENT;
    let gigabits = |bits: u64| bits as f64 / 1e9;
    let nics: Vec<_> =
        known().map(|(nic, speed)| format!("{nic} ({} Gb/s)", gigabits(speed))).collect();
    let (nics, ceiling_told) = (nics.join(" and "), gigabits(ceiling));
    (ceiling, format!("the ceiling is {ceiling_told} Gb/s, {PERCENT}% of {nics}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(nic: &str, gigabits: Option<u64>) -> LinkSpeed {
        let bits_per_second = gigabits.map(|speed| speed * 1_000_000_000);
        LinkSpeed { nic: nic.to_owned(), bits_per_second }
    }

    #[test]
    fn the_ceiling_is_nine_tenths_of_what_the_links_say() {
        let (ceiling, line) =
            of(&[link("eth0", Some(10)), link("eth1", None), link("eth2", Some(100))]);
        assert_eq!(ceiling, 99_000_000_000);
        assert_eq!(line, "the ceiling is 99 Gb/s, 90% of eth0 (10 Gb/s) and eth2 (100 Gb/s)");
    }

    #[test]
    fn without_a_speed_there_is_no_ceiling_and_that_is_said() {
        for links in [vec![], vec![link("eth0", None)]] {
            let (ceiling, line) = of(&links);
            assert_eq!(ceiling, 0);
            assert!(line.contains("--ceiling"), "{line}");
        }
        // For this machine, whatever links it has.
        assert!(!ceiling_of_links().1.is_empty());
    }
}
