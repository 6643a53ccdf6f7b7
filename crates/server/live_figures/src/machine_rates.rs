//! The traffic of the machine's disks and network cards, of all programs together: `/proc/diskstats` (the kernel's
//! Documentation/admin-guide/iostats.rst) and `/proc/net/dev`.
//!
//! The files are opened before the server is confined, and read again from their beginning each second.

use super::Sources;
use super::snapshot::rounded;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The most disks and cards reported, the busiest first.
const DEVICES_MAX: usize = 12;

/// The unit of sectors in `/proc/diskstats`, whatever the disk's own sector size.
const SECTOR_BYTES: u64 = 512;

/// The most bytes read of such a file: a few hundred devices.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DiskRate {
    /// The kernel's name.
    pub name: String,
    /// Millions of bytes read per second.
    pub read_mb_per_second: f64,
    /// Millions of bytes written per second.
    pub written_mb_per_second: f64,
    /// Reads completed per second.
    pub reads_per_second: f64,
    /// The share of the time in which it was busy, 0 to 1.
    pub busy_ratio: f64,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NicRate {
    /// The kernel's name.
    pub name: String,
    /// Sent, in 10^9 bits per second.
    pub sent_gbps: f64,
    /// Received.
    pub received_gbps: f64,
    /// Packets dropped or in error per second, in both directions.
    pub faults_per_second: f64,
}

/// All rates in one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Whole disks, not partitions.
    pub disks: Vec<DiskRate>,
    /// Interfaces.
    pub nics: Vec<NicRate>,
}

impl Sources {
    /// Opens the sources that exist.
    pub fn open() -> Self {
        let blocks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let names = blocks.filter_map(|entry| entry.file_name().into_string().ok());
        let is_disk =
            |name: &String| !["loop", "ram", "zram"].iter().any(|no| name.starts_with(no));
        Self {
            disks: File::open("/proc/diskstats").ok(),
            disk_names: names.filter(is_disk).collect(),
            nics: File::open("/proc/self/net/dev").ok(),
        }
    }
}

/// The last counters of the devices.
pub(super) struct MachineRates {
    sources: Sources,
    disks: HashMap<String, [u64; 4]>,
    nics: HashMap<String, [u64; 3]>,
}

impl MachineRates {
    /// Reads the counters for the first time.
    pub(super) fn new(sources: Sources) -> Self {
        let mut rates = Self { sources, disks: HashMap::new(), nics: HashMap::new() };
        rates.advance(1.0);
        rates
    }

    /// The rates over the `seconds` since the last call.
    pub(super) fn advance(&mut self, seconds: f64) -> Rates {
        let disks = disk_counters(&read(self.sources.disks.as_ref()), &self.sources.disk_names);
        let nics = nic_counters(&read(self.sources.nics.as_ref()));
        let rates = Rates {
            disks: disk_rates(&disks, &self.disks, seconds),
            nics: nic_rates(&nics, &self.nics, seconds),
        };
        (self.disks, self.nics) = (disks, nics);
        rates
    }
}

fn read(file: Option<&File>) -> String {
    let mut text = vec![0; TEXT_BYTES_MAX];
    let mut filled = 0;
    while let Some(Ok(bytes @ 1..)) =
        file.map(|file| file.read_at(&mut text[filled..], filled as u64))
    {
        filled += bytes;
    }
    String::from_utf8_lossy(&text[..filled]).into_owned()
}

/// Sectors read, sectors written, reads, milliseconds busy.
fn disk_counters(text: &str, names: &[String]) -> HashMap<String, [u64; 4]> {
    let lines = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = fields.get(2).filter(|name| names.iter().any(|disk| disk == *name))?;
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(((*name).to_owned(), [number(5)?, number(9)?, number(3)?, number(12)?]))
    });
    lines.collect()
}

/// Bytes sent, bytes received, packets dropped or in error. Cards without any traffic are left out.
fn nic_counters(text: &str) -> HashMap<String, [u64; 3]> {
    let lines = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let numbers: Vec<u64> = rest.split_ascii_whitespace().flat_map(str::parse).collect();
        let &[received, _, errors_in, drops_in, _, _, _, _, sent, _, errors_out, drops_out, ..] =
            &numbers[..]
        else {
            return None;
        };
        let faults = errors_in + drops_in + errors_out + drops_out;
        let is_used = sent + received > 0;
        is_used.then(|| (name.trim().to_owned(), [sent, received, faults]))
    });
    lines.collect()
}

/// The growth of each of a device's counters per second. A new device has none yet.
fn per_second<const N: usize>(
    now: &HashMap<String, [u64; N]>,
    before: &HashMap<String, [u64; N]>,
    seconds: f64,
) -> Vec<(String, [f64; N])> {
    let known = now.iter().filter_map(|(name, now)| Some((name, now, before.get(name)?)));
    let rates = known.map(|(name, now, before)| {
        let rate = |index: usize| now[index].saturating_sub(before[index]) as f64 / seconds;
        (name.clone(), std::array::from_fn(rate))
    });
    rates.collect()
}

fn disk_rates(
    now: &HashMap<String, [u64; 4]>,
    before: &HashMap<String, [u64; 4]>,
    seconds: f64,
) -> Vec<DiskRate> {
    let mb = |sectors: f64| rounded(sectors * SECTOR_BYTES as f64 / 1e6);
    let mut rates: Vec<_> = per_second(now, before, seconds)
        .into_iter()
        .map(|(name, [read, written, reads, busy_ms])| DiskRate {
            name,
            read_mb_per_second: mb(read),
            written_mb_per_second: mb(written),
            reads_per_second: rounded(reads),
            busy_ratio: rounded((busy_ms / 1e3).min(1.0)),
        })
        .collect();
    let carried = |rate: &DiskRate| rate.read_mb_per_second + rate.written_mb_per_second;
    rates.sort_by(|a, b| carried(b).total_cmp(&carried(a)).then_with(|| a.name.cmp(&b.name)));
    rates.truncate(DEVICES_MAX);
    rates
}

fn nic_rates(
    now: &HashMap<String, [u64; 3]>,
    before: &HashMap<String, [u64; 3]>,
    seconds: f64,
) -> Vec<NicRate> {
    let gbps = |bytes: f64| rounded(bytes * 8.0 / 1e9);
    let mut rates: Vec<_> = per_second(now, before, seconds)
        .into_iter()
        .map(|(name, [sent, received, faults])| NicRate {
            name,
            sent_gbps: gbps(sent),
            received_gbps: gbps(received),
            faults_per_second: rounded(faults),
        })
        .collect();
    rates.sort_by(|a, b| b.sent_gbps.total_cmp(&a.sent_gbps).then_with(|| a.name.cmp(&b.name)));
    rates.truncate(DEVICES_MAX);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_told_by_what_came_since_and_its_partitions_are_not() {
        let names = ["vda".to_owned()];
        let line = |name: &str, reads: u64, sectors: u64, busy: u64| {
            format!(" 254 0 {name} {reads} 0 {sectors} 0 7 0 80 0 0 {busy} 0 0 0 0 0 0 0\n")
        };
        let before = disk_counters(&line("vda", 100, 1000, 50), &names);
        let text = line("vda", 300, 1000 + 2_000_000, 1050) + &line("vda1", 9, 9, 9);
        let now = disk_counters(&text, &names);
        let rates = disk_rates(&now, &before, 2.0);
        assert_eq!(rates.len(), 1);
        assert_eq!((rates[0].read_mb_per_second, rates[0].reads_per_second), (512.0, 100.0));
        assert_eq!(rates[0].busy_ratio, 0.5);
    }

    #[test]
    fn a_card_is_told_both_ways_and_what_is_no_card_is_passed_over() {
        let line = |sent: u64| format!("  eth0: 1000 1 1 2 0 0 0 0 {sent} 1 3 4 0 0 0 0\n");
        let before = nic_counters(&("Inter-| Receive\n face |bytes\n".to_owned() + &line(0)));
        let rates = nic_rates(&nic_counters(&line(250_000_000)), &before, 1.0);
        assert_eq!(
            (&*rates[0].name, rates[0].sent_gbps, rates[0].received_gbps),
            ("eth0", 2.0, 0.0)
        );
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let mut machine = MachineRates::new(Sources::open());
        if machine.sources.nics.is_none() {
            eprintln!("skipped: no /proc/self/net/dev here");
            return;
        }
        assert!(machine.advance(1.0).nics.iter().any(|nic| nic.name == "lo"));
    }
}
