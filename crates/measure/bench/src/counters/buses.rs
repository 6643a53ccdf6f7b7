//! Traffic on a machine's buses: bytes to and from memory, and bytes between sockets. The kernel lists counters for it in sysfs: for
//! Intel's memory controllers by name, for AMD's only with the format of an event. AMD's event numbers come from its processor manuals, as
//! in Linux (tools/perf/pmu-events/arch/x86/amdzen3 and amdzen4).

use machine::parse_list;
use perf_event::events::Event;
use perf_event_open_sys::bindings::perf_event_attr;
use std::fs;
use std::path::Path;

/// Intel's memory controllers count transfers under these names. The kernel gives the size of each.
const INTEL_EVENTS: [&str; 2] = ["cas_count_read", "cas_count_write"];

/// A mebibyte, the unit of those sizes.
const MIB: f64 = 1_048_576.0;

/// AMD from Zen 4 on: a memory controller counts commands, each of which reads or writes 64 bytes.
const UMC_COMMANDS: [(&str, u64); 1] = [("event", 0x0a)];

/// AMD's Zen 2 and Zen 3: the fabric counts transfers on eight memory channels (64 bytes each), and on four links to other sockets (32).
const FABRIC_CHANNELS: [u64; 8] = [0x07, 0x47, 0x87, 0xc7, 0x107, 0x147, 0x187, 0x1c7];
const FABRIC_LINKS: [u64; 4] = [0x7c7, 0x807, 0x847, 0x887];

/// The bus that an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bus {
    /// To and from memory.
    Memory,
    /// From one socket to another.
    Sockets,
}

/// An event to count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BusEvent {
    pub(super) bus: Bus,
    /// The kernel's number for this source of events.
    source: u32,
    config: u64,
    /// CPUs to count on: one per socket.
    pub(super) cpus: Vec<u32>,
    /// Bytes per count.
    pub(super) bytes: f64,
}

impl Event for &BusEvent {
    fn update_attrs(self, attributes: &mut perf_event_attr) {
        attributes.type_ = self.source;
        attributes.config = self.config;
    }
}

/// The events to count from `sources` (/sys/bus/event_source/devices), on the processor that `cpuinfo` describes.
pub(super) fn events(sources: &Path, cpuinfo: &str) -> Vec<BusEvent> {
    let entries = fs::read_dir(sources).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    let of = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        match name.unwrap_or_default() {
            name if name.starts_with("amd_umc_") => umc(path),
            name if name == "amd_df" && is_zen_2_or_3(cpuinfo) => fabric(path),
            _ => intel(path),
        }
    };
    paths.iter().flat_map(|path| of(path)).collect()
}

fn intel(path: &Path) -> Vec<BusEvent> {
    let event = |name: &str| {
        let file = |end: &str| text(&path.join("events").join(format!("{name}{end}")));
        let terms = file("")?;
        let terms: Option<Vec<_>> = terms.split(',').map(term).collect();
        let bytes = file(".scale")?.parse::<f64>().ok()? * MIB;
        let is_known = file(".unit")? == "MiB" && bytes > 0.0;
        is_known.then(|| bus_event(path, Bus::Memory, &terms?, bytes))?
    };
    INTEL_EVENTS.iter().filter_map(|name| event(name)).collect()
}

/// Parses a term such as `umask=0x3`.
fn term(term: &str) -> Option<(&str, u64)> {
    let (name, value) = term.split_once('=')?;
    Some((name, u64::from_str_radix(value.trim().strip_prefix("0x")?, 16).ok()?))
}

fn umc(path: &Path) -> Vec<BusEvent> {
    bus_event(path, Bus::Memory, &UMC_COMMANDS, 64.0).into_iter().collect()
}

fn fabric(path: &Path) -> Vec<BusEvent> {
    let channel =
        |event: &u64| bus_event(path, Bus::Memory, &[("event", *event), ("umask", 0x38)], 64.0);
    let link =
        |event: &u64| bus_event(path, Bus::Sockets, &[("event", *event), ("umask", 0x02)], 32.0);
    let channels = FABRIC_CHANNELS.iter().filter_map(channel);
    channels.chain(FABRIC_LINKS.iter().filter_map(link)).collect()
}

/// Other AMD generations number the fabric's events differently.
fn is_zen_2_or_3(cpuinfo: &str) -> bool {
    let value = |key: &str| {
        let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(found, _)| found.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    let number = |key| value(key).and_then(|value| value.parse::<u32>().ok());
    let is_amd = value("vendor_id").is_some_and(|vendor| vendor == "AuthenticAMD");
    match (number("cpu family"), number("model")) {
        (Some(0x17), Some(model)) => is_amd && model >= 0x30,
        (Some(0x19), Some(model)) => is_amd && matches!(model, 0..0x10 | 0x20..0x60),
        _ => false,
    }
}

fn bus_event(path: &Path, bus: Bus, terms: &[(&str, u64)], bytes: f64) -> Option<BusEvent> {
    let source = text(&path.join("type"))?.parse().ok()?;
    let mut config = 0;
    for (name, value) in terms {
        config |= placed(&text(&path.join("format").join(name))?, *value)?;
    }
    // Without a list, any CPU can count it.
    let cpus = text(&path.join("cpumask")).map_or(Some(vec![0]), |list| parse_list(&list))?;
    Some(BusEvent { bus, source, config, cpus, bytes })
}

/// Puts the bits of `value` where the field has them, such as `config:0-7,32-35,59-60`. `None` if the field cannot be parsed or the value
/// does not fit.
fn placed(field: &str, mut value: u64) -> Option<u64> {
    let mut config = 0;
    for range in field.strip_prefix("config:")?.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?);
        let width = high.checked_sub(low)?.checked_add(1)?;
        let mask = u64::MAX.checked_shr(64_u32.checked_sub(width)?)?;
        config |= (value & mask).checked_shl(low)?;
        value = value.checked_shr(width).unwrap_or(0);
    }
    (value == 0).then_some(config)
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const ROME: &str = "vendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\n";
    const MILAN: &str = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n";
    const GENOA: &str = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n";
    const INTEL: &str = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n";

    fn sources(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    const IMC: &[(&str, &str)] = &[
        ("uncore_imc_0/type", "24"),
        ("uncore_imc_0/cpumask", "0,32"),
        ("uncore_imc_0/format/event", "config:0-7"),
        ("uncore_imc_0/format/umask", "config:8-15"),
        ("uncore_imc_0/events/cas_count_read", "event=0x04,umask=0x0f"),
        ("uncore_imc_0/events/cas_count_read.scale", "6.103515625e-5"),
        ("uncore_imc_0/events/cas_count_read.unit", "MiB"),
        ("uncore_imc_0/events/cas_count_write", "event=0x04,umask=0x30"),
        ("uncore_imc_0/events/cas_count_write.scale", "6.103515625e-5"),
        ("uncore_imc_0/events/cas_count_write.unit", "MiB"),
        ("cpu/type", "4"),
        ("cpu/format/event", "config:0-7"),
    ];

    const DF: &[(&str, &str)] = &[
        ("amd_df/type", "13"),
        ("amd_df/cpumask", "0,64"),
        ("amd_df/format/event", "config:0-7,32-35,59-60"),
        ("amd_df/format/umask", "config:8-15"),
    ];

    const UMC: &[(&str, &str)] = &[
        ("amd_umc_0/type", "15"),
        ("amd_umc_0/cpumask", "0"),
        ("amd_umc_0/format/event", "config:0-7"),
        ("amd_umc_0/format/rdwrmask", "config:8-9"),
        ("amd_umc_12/type", "27"),
        ("amd_umc_12/cpumask", "96"),
        ("amd_umc_12/format/event", "config:0-7"),
    ];

    #[test]
    fn intels_memory_controllers_count_by_their_own_names_on_each_socket() {
        let found = events(sources(IMC).path(), INTEL);
        let of = |config| BusEvent {
            bus: Bus::Memory,
            source: 24,
            config,
            cpus: vec![0, 32],
            bytes: 64.0,
        };
        assert_eq!(found, [of(0x0f04), of(0x3004)]);
    }

    #[test]
    fn amds_fabric_counts_channels_of_memory_and_links_between_sockets() {
        for processor in [ROME, MILAN] {
            let found = events(sources(DF).path(), processor);
            let configs: Vec<_> = found.iter().map(|event| event.config).collect();
            assert_eq!(configs[..5], [0x3807, 0x3847, 0x3887, 0x38c7, 0x1_0000_3807]);
            assert_eq!(configs[8..], [0x7_0000_02c7, 0x8_0000_0207, 0x8_0000_0247, 0x8_0000_0287]);
            let sum = |bus| {
                let of_bus = found.iter().filter(|event| event.bus == bus);
                of_bus.map(|event| event.bytes).sum::<f64>()
            };
            assert_eq!((sum(Bus::Memory), sum(Bus::Sockets)), (8.0 * 64.0, 4.0 * 32.0));
            assert!(found.iter().all(|event| event.cpus == [0, 64] && event.source == 13));
        }
        for other in [GENOA, INTEL, ""] {
            assert_eq!(events(sources(DF).path(), other), [], "other numbers: {other}");
        }
    }

    #[test]
    fn amds_memory_controllers_count_commands() {
        let found = events(sources(&[UMC, DF].concat()).path(), GENOA);
        let of = |source, cpu| BusEvent {
            bus: Bus::Memory,
            source,
            config: 0x0a,
            cpus: vec![cpu],
            bytes: 64.0,
        };
        assert_eq!(found, [of(15, 0), of(27, 96)]);
    }

    #[test]
    fn what_is_missing_or_absurd_counts_nothing() {
        for (files, processor) in [(IMC, INTEL), (DF, MILAN), (UMC, GENOA)] {
            let all = events(sources(files).path(), processor).len();
            for at in 0..files.len() {
                for nonsense in [
                    "",
                    "-1",
                    "config:9-2",
                    "config:0-99",
                    "config:0-4294967295",
                    "config:",
                    "\u{fffd}=0x,",
                ] {
                    let mut spoiled = files.to_vec();
                    spoiled[at].1 = nonsense;
                    assert!(events(sources(&spoiled).path(), processor).len() <= all, "{nonsense}");
                }
            }
        }
        assert_eq!(events(Path::new("/no/such"), MILAN), []);
        assert_eq!(placed("config:0-3", 0x1f), None, "it does not fit");
        assert_eq!(placed("config1:0-3", 1), None);
        assert_eq!(placed("config:0-63", u64::MAX), Some(u64::MAX));
    }
}
