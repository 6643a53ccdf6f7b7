//! The effects of a path on packets in one direction, as numbers and as text.

use std::time::Duration;

use crate::{BadChance, Chance, Random};

/// One direction of a path. The default is a perfect wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairment {
    /// Delay of every packet.
    pub delay: Duration,
    /// Extra delay of each flow, drawn evenly between the first and the second and then constant; `None`: all flows are alike. Packets
    /// without a flow ([`crate::SimulatedLink::offer`]) do not get it.
    pub flow_delay: Option<(Duration, Duration)>,
    /// Extra delay up to this, drawn evenly. It keeps the order: a packet waits for the one before it.
    pub jitter: Duration,
    /// Share of packets lost, independently of each other.
    pub loss: Chance,
    /// Share of packets held back by up to [`Impairment::reorder_by`] while others pass.
    pub reorder: Chance,
    /// The longest time by which a packet is held back.
    pub reorder_by: Duration,
    /// Share of packets that arrive twice.
    pub duplicate: Chance,
    /// Share of packets marked as having met congestion, if the caller of [`crate::SimulatedLink::poll`] can carry such a mark.
    pub mark: Chance,
    /// The bottleneck's rate; `None`: there is no bottleneck.
    pub rate_bits_per_second: Option<u64>,
    /// Bytes that may wait for the bottleneck. A packet that does not fit is dropped on arrival; one that need not wait always fits.
    pub queue_bytes: u64,
    /// Total bytes on the path, waiting or under way. It limits the memory of a middlebox whose senders are too fast.
    pub held_bytes_max: u64,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            flow_delay: None,
            jitter: Duration::ZERO,
            loss: Chance::NEVER,
            reorder: Chance::NEVER,
            reorder_by: Duration::from_millis(5),
            duplicate: Chance::NEVER,
            mark: Chance::NEVER,
            rate_bits_per_second: None,
            queue_bytes: 256 << 10,
            held_bytes_max: 256 << 20,
        }
    }
}

/// An invalid setting. Its display text explains why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSetting(String);

/// The names of settings, as [`Impairment::set`] takes them.
const NAMES: &str =
    "delay, flow-delay, jitter, loss, reorder, reorder-by, duplicate, rate, queue, held";

impl Impairment {
    /// The extra delay of the packets of `flow`.
    pub(crate) fn flow_delay_of(&self, flow: u64) -> Duration {
        let Some((least, most)) = self.flow_delay else { return Duration::ZERO };
        let spread = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
        least + Duration::from_nanos(Random::new(flow).below(spread.saturating_add(1)))
    }

    /// Sets `name` to `value`, in a form such as `10ms`, `1%`, `100Mbit`, `256KiB`.
    ///
    /// # Errors
    /// [`BadSetting`] if there is no such setting, or the value has the wrong form.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadSetting> {
        match name {
            "delay" => self.delay = duration(value)?,
            "flow-delay" => self.flow_delay = Some(durations(value)?),
            "jitter" => self.jitter = duration(value)?,
            "loss" => self.loss = chance(value)?,
            "reorder" => self.reorder = chance(value)?,
            "reorder-by" => self.reorder_by = duration(value)?,
            "duplicate" => self.duplicate = chance(value)?,
            "rate" => self.rate_bits_per_second = Some(rate(value)?),
            "queue" => self.queue_bytes = bytes(value)?,
            "held" => self.held_bytes_max = bytes(value)?,
            _ => return Err(BadSetting(format!("there is no setting {name}; there are {NAMES}"))),
        }
        Ok(())
    }

    /// Changes several settings: `delay=10ms,loss=1%`.
    ///
    /// # Errors
    /// As [`Impairment::set`]; the settings before the bad one have been changed.
    pub fn set_all(&mut self, settings: &str) -> Result<(), BadSetting> {
        for setting in settings.split(',') {
            let (name, value) = setting.split_once('=').ok_or_else(|| {
                BadSetting(format!("{setting} is not a setting: write delay=10ms,loss=1%"))
            })?;
            self.set(name, value)?;
        }
        Ok(())
    }
}

fn chance(text: &str) -> Result<Chance, BadSetting> {
    text.parse().map_err(|error: BadChance| BadSetting(error.to_string()))
}

fn duration(text: &str) -> Result<Duration, BadSetting> {
    const UNITS: [(&str, u64); 4] =
        [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let nanoseconds = scaled(text, &UNITS, "a duration: write 10ms, 500us or 1s")?;
    Ok(Duration::from_nanos(nanoseconds))
}

fn durations(text: &str) -> Result<(Duration, Duration), BadSetting> {
    let bad = || BadSetting(format!("{text} is not a range of delays: write 10ms-80ms"));
    let (least, most) = text.split_once('-').ok_or_else(bad)?;
    let (least, most) = (duration(least)?, duration(most)?);
    if least > most { Err(bad()) } else { Ok((least, most)) }
}

fn rate(text: &str) -> Result<u64, BadSetting> {
    const UNITS: [(&str, u64); 4] =
        [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
    match scaled(text, &UNITS, "a rate: write 100Mbit or 1.5Gbit")? {
        0 => Err(BadSetting("a rate of 0 would hold packets forever: use loss=100%".to_owned())),
        bits_per_second => Ok(bits_per_second),
    }
}

fn bytes(text: &str) -> Result<u64, BadSetting> {
    const UNITS: [(&str, u64); 3] = [("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    scaled(text, &UNITS, "a size: write 256KiB or 1MiB")
}

/// The number before one of `units`, times that unit.
fn scaled(text: &str, units: &[(&str, u64)], wanted: &str) -> Result<u64, BadSetting> {
    let split = |(unit, factor): &(&str, u64)| Some((text.strip_suffix(unit)?, *factor));
    let value = units
        .iter()
        .find_map(split)
        .and_then(|(number, factor)| Some(number.parse::<f64>().ok()? * factor as f64));
    match value {
        // Below 2^53 a double represents every integer exactly.
        Some(value) if (0.0..9e15).contains(&value) => Ok(value.round() as u64),
        _ => Err(BadSetting(format!("{text} is not {wanted}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_with_their_units() {
        let mut read = Impairment::default();
        read.set_all(
            "delay=10ms,flow-delay=10ms-80ms,jitter=1.5us,loss=1%,rate=1.5Gbit,queue=64KiB",
        )
        .expect("good");
        assert_eq!(
            read,
            Impairment {
                delay: Duration::from_millis(10),
                flow_delay: Some((Duration::from_millis(10), Duration::from_millis(80))),
                jitter: Duration::from_nanos(1500),
                loss: Chance::per_million(10_000),
                rate_bits_per_second: Some(1_500_000_000),
                queue_bytes: 65_536,
                ..Impairment::default()
            }
        );
    }

    #[test]
    fn every_setting_that_is_named_exists() {
        for name in NAMES.split(", ") {
            let error = Impairment::default().set(name, "?").expect_err("no value of any kind");
            assert!(!error.to_string().contains("there is no setting"), "{error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_said() {
        let delays = ["delay", "delay=10", "delay=-1ms", "flow-delay=10ms", "flow-delay=80ms-10ms"];
        let others = ["rate=0bit", "queue=1KB", "loss=200%", "speed=1"];
        for settings in delays.into_iter().chain(others) {
            let error = Impairment::default().set_all(settings).expect_err(settings);
            assert!(!error.to_string().is_empty());
        }
    }
}
