//! One step of the search: a number of viewers for a while, their results, and whether these are stable.

use crate::search::Attempt;

/// The share of its rate that the median viewer of a stable step must get.
const MEDIAN_SHARE_MIN: f64 = 0.95;

/// The share of the median's rate that the viewer at the 1st percentile of a stable step must get.
const P1_SHARE_MIN: f64 = 0.8;

/// From this CPU percent on, a server counts as out of CPU time: the rest goes to other work of the kernel.
const FULL_PERCENT: f64 = 85.0;

/// The results of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trial {
    /// Concurrent viewers.
    pub(crate) viewers: usize,
    /// Bits of bodies per second that all of them received together, in 10^9.
    pub(crate) gbps: f64,
    /// Handshakes per second.
    pub(crate) handshakes_per_second: f64,
    /// The share of its cores that the server used.
    pub(crate) cpu_percent: f64,
    /// The clients were out of CPU time as well.
    pub(crate) clients_are_full: bool,
    /// The rate of each viewer in bits per second; `None` if viewers take all they can get.
    pub(crate) asked_bits_per_second: Option<f64>,
    /// The rate that each viewer present for the whole step received.
    pub(crate) viewer_bits_per_second: Vec<f64>,
    /// The first kind of error, if any, with its count and an example.
    pub(crate) error: Option<String>,
}

impl Attempt for Trial {
    fn viewers(&self) -> usize {
        self.viewers
    }

    fn trouble(&self) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(error.clone());
        }
        let asked = self.asked_bits_per_second?;
        let unfair = self.unfairness(asked)?;
        Some(if self.clients_are_full {
            format!("the clients' core was full; {unfair}")
        } else if self.cpu_percent < FULL_PERCENT {
            format!("{unfair}, although no core was full: by disk, network, or other programs")
        } else {
            unfair
        })
    }
}

impl Trial {
    fn unfairness(&self, asked: f64) -> Option<String> {
        if self.viewer_bits_per_second.is_empty() {
            return Some("no viewer was there for the whole step".into());
        }
        let (p1, median) = (self.viewer_percentile(0.01), self.viewer_percentile(0.5));
        let megabits = |bits: f64| bits * 1e-6;
        if median < MEDIAN_SHARE_MIN * asked {
            let (got, asked) = (megabits(median), megabits(asked));
            return Some(format!("the median viewer got {got:.1} of {asked:.1} Mb/s"));
        }
        if p1 < P1_SHARE_MIN * median {
            let (p1, median) = (megabits(p1), megabits(median));
            return Some(format!(
                "1% of the viewers got {p1:.1} Mb/s or less, the median {median:.1}"
            ));
        }
        None
    }

    /// The rate that this share of viewers stays below.
    fn viewer_percentile(&self, share: f64) -> f64 {
        let mut rates = self.viewer_bits_per_second.clone();
        rates.sort_by(f64::total_cmp);
        rates[((rates.len() - 1) as f64 * share) as usize]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A step in which every viewer got `share` of its 10 Mb/s.
    pub(crate) fn trial(viewers: usize, share: f64) -> Trial {
        Trial {
            viewers,
            gbps: viewers as f64 * share * 0.01,
            handshakes_per_second: 0.0,
            cpu_percent: 50.0,
            clients_are_full: false,
            asked_bits_per_second: Some(1e7),
            viewer_bits_per_second: vec![1e7 * share; viewers],
            error: None,
        }
    }

    #[test]
    fn viewers_who_get_what_they_ask_for_are_stable() {
        assert_eq!(trial(100, 1.0).trouble(), None);
        assert_eq!(trial(100, 0.96).trouble(), None);
        assert_eq!(trial(1, 1.0).trouble(), None);
    }

    #[test]
    fn a_median_below_what_was_asked_is_not_stable() {
        let trouble = trial(100, 0.9).trouble().unwrap();
        assert!(trouble.contains("9.0 of 10.0 Mb/s"), "{trouble}");
    }

    #[test]
    fn a_few_starved_viewers_are_not_stable() {
        let mut trial = trial(200, 1.0);
        trial.viewer_bits_per_second[..3].fill(5e6);
        assert!(trial.trouble().unwrap().contains("1% of the viewers"));
    }

    #[test]
    fn errors_and_full_clients_are_named() {
        let error = Some("3 x reset".to_owned());
        assert_eq!(Trial { error: error.clone(), ..trial(5, 1.0) }.trouble(), error);
        let idle = trial(5, 0.5);
        assert!(idle.trouble().unwrap().contains("no core was full"));
        let busy = Trial { cpu_percent: 99.0, ..idle };
        assert!(!busy.trouble().unwrap().contains("no core"));
        let full = Trial { clients_are_full: true, ..trial(5, 0.5) };
        assert!(full.trouble().unwrap().contains("clients' core"));
    }

    #[test]
    fn nobody_is_not_taken_for_everybody_content() {
        let nobody = Trial { viewer_bits_per_second: Vec::new(), ..trial(5, 1.0) };
        assert!(nobody.trouble().is_some());
        // Viewers who take all they can get cannot get too little.
        let greedy = Trial { asked_bits_per_second: None, ..nobody };
        assert_eq!(greedy.trouble(), None);
    }
}
