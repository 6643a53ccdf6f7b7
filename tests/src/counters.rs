//! The server's counters, from its admin listener.

use crate::plain::Plain;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// One reading of `/metrics`.
#[derive(Clone, Debug)]
pub struct Counters {
    samples: BTreeMap<String, f64>,
    /// The names that the server declares, whether or not anything was counted under them.
    declared: BTreeSet<String>,
}

impl Counters {
    /// Reads them over a new connection.
    ///
    /// # Panics
    /// If the admin listener does not answer, or not in Prometheus' text format.
    pub fn read(admin: SocketAddr) -> Self {
        Self::read_over(&mut Plain::connect(admin))
    }

    /// Reads them over an existing connection.
    ///
    /// # Panics
    /// As [`Self::read`].
    pub fn read_over(connection: &mut Plain) -> Self {
        let response = connection.fetch("/metrics");
        assert_eq!(response.status, 200);
        let text = String::from_utf8(response.body).expect("text");
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let declared =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        Self {
            samples: samples.map(sample).collect(),
            declared: declared.map(str::to_owned).collect(),
        }
    }

    /// A counter by its name in Prometheus, labels included and `fullbore_` left out; 0 if nothing was counted yet.
    pub fn value(&self, name: &str) -> u64 {
        self.samples.get(&format!("fullbore_{name}")).copied().unwrap_or(0.0) as u64
    }

    /// A number by its name, summed over all labels; 0 if nothing was counted yet.
    ///
    /// # Panics
    /// If the server has no number of this name: a missing counter is not 0.
    pub fn sum(&self, name: &str) -> u64 {
        let wanted = format!("fullbore_{name}");
        assert!(self.declared.contains(&wanted), "no {name} among {:?}", self.declared);
        let of_name = self
            .samples
            .iter()
            .filter(|(sample, _)| sample.split('{').next() == Some(wanted.as_str()));
        of_name.map(|(_, value)| *value).sum::<f64>() as u64
    }

    /// Every number whose name begins with `start`, each with its labels.
    pub(crate) fn with_labels(&self, start: &str) -> Vec<(String, f64)> {
        let start = format!("fullbore_{start}");
        let all = self.samples.iter().map(|(sample, value)| (sample.clone(), *value));
        all.filter(|(sample, _)| sample.starts_with(&start)).collect()
    }
}

fn sample(line: &str) -> (String, f64) {
    let (name, value) = line.rsplit_once(' ').expect("a name, a space, a value");
    (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line:?}: {error}")))
}
