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
}

fn sample(line: &str) -> (String, f64) {
    let (name, value) = line.rsplit_once(' ').expect("a name, a space, a value");
    (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line:?}: {error}")))
}
