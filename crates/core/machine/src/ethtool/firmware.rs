//! A card's firmware: the running version, and the one stored for its next start (kernel documentation: networking/devlink/devlink-info).

use super::FirmwareVersion;
use crate::netlink::Generic;
use crate::netlink::attributes::{attributes, put, text};
use std::fs;
use std::path::Path;

/// `DEVLINK_CMD_INFO_GET`.
const INFO: u8 = 51;

/// `DEVLINK_ATTR_INFO_VERSION_*`: the running and the stored version.
const RUNNING: u16 = 101;
const STORED: u16 = 102;

/// The versions of a card; `None` if its driver does not report them.
pub(crate) fn of(nic: &str) -> Option<Vec<FirmwareVersion>> {
    // The device's bus and its name there: `pci` and `0000:03:00.0`.
    let device = fs::canonicalize(Path::new("/sys/class/net").join(nic).join("device")).ok()?;
    let bus = fs::canonicalize(device.join("subsystem")).ok()?;
    let mut request = Vec::new();
    for (kind, path) in [(1, &bus), (2, &device)] {
        let name = path.file_name()?.to_str()?;
        put(&mut request, kind, format!("{name}\0").as_bytes());
    }
    Some(versions(&Generic::open("devlink").ok()?.ask(INFO, &request).ok()?))
}

fn versions(told: &[u8]) -> Vec<FirmwareVersion> {
    let of_kind = |wanted| {
        let told = attributes(told).filter(move |(kind, _)| *kind == wanted);
        told.filter_map(|(_, version)| Some((text(version, 103)?, text(version, 104)?)))
    };
    let running = of_kind(RUNNING).map(|(name, running)| {
        let stored = of_kind(STORED).find(|(stored, _)| *stored == name);
        FirmwareVersion { name, running, stored: stored.map(|(_, version)| version) }
    });
    running.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attributes::put_nested;

    fn told() -> Vec<u8> {
        let mut told = Vec::new();
        put(&mut told, 98, b"mlx5_core\0");
        for (kind, name, version) in
            [(101, "fw", "26.38.1002"), (102, "fw", "26.40.1000"), (101, "fw.psid", "MT_1")]
        {
            let mut pair = Vec::new();
            put(&mut pair, 103, format!("{name}\0").as_bytes());
            put(&mut pair, 104, format!("{version}\0").as_bytes());
            put_nested(&mut told, kind, &pair);
        }
        told
    }

    #[test]
    fn what_runs_stands_beside_what_is_stored() {
        let found = versions(&told());
        let of = |name: &str, running: &str, stored: Option<&str>| FirmwareVersion {
            name: name.into(),
            running: running.into(),
            stored: stored.map(str::to_owned),
        };
        let expected = [of("fw", "26.38.1002", Some("26.40.1000")), of("fw.psid", "MT_1", None)];
        assert_eq!(found, expected);
    }

    #[test]
    fn answers_cut_short_or_scrambled_are_read_without_harm() {
        let told = told();
        for end in 0..told.len() {
            versions(&told[..end]);
        }
        for at in 0..told.len() {
            for byte in [0, 1, 0xff] {
                let mut scrambled = told.clone();
                scrambled[at] = byte;
                versions(&scrambled);
            }
        }
    }
}
