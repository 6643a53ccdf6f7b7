//! The parameters of the networks, and their sources.
//!
//! - **Mobile**: the 40 logs of 4G in and around Ghent, on foot, by bicycle, bus, tram, train and car (van der Hooft and others,
//!   "HTTP/2-based adaptive streaming of HEVC video over 4G/LTE networks", IEEE Communications Letters, 2016), as distributed with the
//!   simulator Sabre (Spiteri and others, `MMSys` 2018). We computed from the logs: the mean rate has a median of 31.7 Mb/s and a deviation
//!   of the logarithm of 0.29 from log to log; within a log, means over 5 s have a median deviation of the logarithm of 0.43 and a
//!   correlation of 0.70 with the 5 s before (0.19 after 25 s, where an autoregression gives 0.17); every 450 s the rate falls below a
//!   tenth of its mean for 3 s or more, 6 s on average. Round trips are our own choice.
//! - **Home**: the median of 39 Mb/s is that of the sixth report "Measuring Broadband America" (FCC, 2016; measured in September 2015).
//!   Lines are faster today. The old figure is deliberate, because slow lines are where viewers differ. The correlation of 0.89 after 5 s
//!   is that of the FCC's traces as distributed with Sabre. The rest is our own choice: the spread between households, so that 5% have less
//!   than 6.4 Mb/s; a small deviation, because most of those lines keep their speed; and a dip each half-hour, for the Wi-Fi.
//! - **Office**: our own choice.

use super::NetworkKind;
use std::time::Duration;

/// The parameters of a kind of network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Median over viewers of their median rates.
    pub(crate) bits_per_second: f64,
    /// Deviation of its logarithm from viewer to viewer.
    pub(crate) viewers_sigma: f64,
    /// Deviation of the rate's logarithm over time.
    pub(crate) sigma: f64,
    /// How strongly a piece follows the one before it, 0 to 1.
    pub(crate) correlation: f64,
    /// Mean time from one dip to the next.
    pub(crate) dip_every: Duration,
    /// Mean length of a dip; at least one piece.
    pub(crate) dip_length: Duration,
    /// The share of the rate that remains in a dip.
    pub(crate) dip_factor: f64,
    /// Median over viewers, in milliseconds.
    pub(crate) round_trip_ms: f64,
    /// Deviation of its logarithm from viewer to viewer.
    pub(crate) round_trip_sigma: f64,
}

pub(crate) fn of(kind: NetworkKind) -> Model {
    match kind {
        NetworkKind::Home => Model {
            bits_per_second: 39e6,
            viewers_sigma: 1.1,
            sigma: 0.2,
            correlation: 0.89,
            dip_every: Duration::from_secs(1800),
            dip_length: Duration::from_secs(10),
            dip_factor: 0.1,
            round_trip_ms: 20.0,
            round_trip_sigma: 0.5,
        },
        NetworkKind::Mobile => Model {
            // The logs' mean of 31.7 Mb/s corresponds to this median: the mean of a log-normal law is e^(sigma^2 / 2) times its median.
            bits_per_second: 29e6,
            viewers_sigma: 0.29,
            sigma: 0.43,
            correlation: 0.70,
            dip_every: Duration::from_secs(450),
            dip_length: Duration::from_secs(6),
            dip_factor: 0.05,
            round_trip_ms: 45.0,
            round_trip_sigma: 0.3,
        },
        NetworkKind::Office => Model {
            bits_per_second: 80e6,
            viewers_sigma: 0.5,
            sigma: 0.3,
            correlation: 0.89,
            dip_every: Duration::from_secs(7200),
            dip_length: Duration::from_secs(10),
            dip_factor: 0.1,
            round_trip_ms: 10.0,
            round_trip_sigma: 0.4,
        },
    }
}
