//! The parts that a byte passes through, and the ceiling that follows from them.

use super::parts::Part;
use crate::versus::Workload;

/// The consecutive parts that a workload's bytes pass through on one core.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) workload: Workload,
    pub(crate) parts: &'static [Part],
}

/// The chains that the server is compared with.
pub(crate) const CHAINS: [Chain; 4] = [
    Chain { workload: Workload::TlsWarm, parts: &[Part::SealHot, Part::Send] },
    Chain { workload: Workload::TlsCold, parts: &[Part::ReadDirect, Part::SealAes128, Part::Send] },
    // The kernel sends directly from the page cache.
    Chain { workload: Workload::HttpWarm, parts: &[Part::Sendfile] },
    Chain { workload: Workload::Viewers, parts: &[Part::SealPaced, Part::SendPaced] },
];

/// The parts for a byte copied from another node: anyone who wants it checked and stored needs these.
pub(crate) const FILL: [Part; 3] = [Part::Open, Part::Sha256, Part::WriteDirect];

/// The ceiling of consecutive parts, in the unit of their rates: a byte's time is the sum of its times in the parts.
pub(crate) fn ceiling(rates: &[f64]) -> f64 {
    1.0 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>()
}

/// The share of a byte's time that each part takes, 0 to 1.
pub(crate) fn shares(rates: &[f64]) -> Vec<f64> {
    let ceiling = ceiling(rates);
    rates.iter().map(|rate| ceiling / rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_follow_each_other_add_their_times() {
        assert!((ceiling(&[100.0, 100.0]) - 50.0).abs() < 1e-9);
        assert!((ceiling(&[250.0, 184.0, 92.0]) - 49.2).abs() < 0.1);
        let shares = shares(&[250.0, 184.0, 92.0]);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares[2] > shares[1] && shares[1] > shares[0]);
    }
}
