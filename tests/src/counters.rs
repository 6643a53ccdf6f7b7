//! The server's counters, as its admin listener tells them.

use crate::plain::Plain;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One reading of `/metrics`.
#[derive(Clone, Debug)]
pub struct Counters(BTreeMap<String, f64>);

impl Counters {
    /// Reads them over a new connection.
    ///
    /// # Panics
    /// When the admin listener does not answer, or not in Prometheus' text format.
    pub fn read(admin: SocketAddr) -> Self {
        Self::read_over(&mut Plain::connect(admin))
    }

    /// Reads them over a connection that is there.
    ///
    /// # Panics
    /// As [`Self::read`].
    pub fn read_over(connection: &mut Plain) -> Self {
        let response = connection.fetch("/metrics");
        assert_eq!(response.status, 200);
        let text = String::from_utf8(response.body).expect("text");
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Self(samples.map(sample).collect())
    }

    /// A counter by its name as Prometheus has it, labels included and `fullbore_` left out; 0 if it has not been counted yet.
    pub fn value(&self, name: &str) -> u64 {
        self.0.get(&format!("fullbore_{name}")).copied().unwrap_or(0.0) as u64
    }

    /// A number by its name, summed over all labels.
    ///
    /// # Panics
    /// When there is none of this name: a number that nobody has is not 0.
    pub fn sum(&self, name: &str) -> u64 {
        let wanted = format!("fullbore_{name}");
        let of_name = |sample: &str| sample.split('{').next() == Some(wanted.as_str());
        let values: Vec<f64> =
            self.0.iter().filter(|(sample, _)| of_name(sample)).map(|(_, value)| *value).collect();
        assert!(!values.is_empty(), "no {name} among {:?}", self.0.keys());
        values.iter().sum::<f64>() as u64
    }

    /// Every number whose name begins with `start`, each with its labels.
    pub(crate) fn with_labels(&self, start: &str) -> Vec<(String, f64)> {
        let start = format!("fullbore_{start}");
        let all = self.0.iter().map(|(sample, value)| (sample.clone(), *value));
        all.filter(|(sample, _)| sample.starts_with(&start)).collect()
    }
}

fn sample(line: &str) -> (String, f64) {
    let (name, value) = line.rsplit_once(' ').expect("a name, a space, a value");
    (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line:?}: {error}")))
}
