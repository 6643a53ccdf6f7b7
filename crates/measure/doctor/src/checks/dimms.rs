//! Memory modules, as the firmware lists them: their speed, and the channels that are in use (DMTF DSP0134, SMBIOS, "Memory
//! Device (Type 17)").

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use std::collections::BTreeMap;

/// The table, which only root may read. Virtual machines often have none.
const TABLE: &str = "sys/firmware/dmi/tables/DMI";

const MEMORY_DEVICE: u8 = 17;

/// A slot for a memory module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slot {
    has_module: bool,
    /// Its name on the board, with that of its bank.
    name: String,
    /// Millions of transfers per second: the module's maximum, and the current setting. 0 if unknown.
    speed_mt: u32,
    set_mt: u32,
}

pub(crate) fn check(visit: &mut Visit<'_>) {
    const WHAT: &str = "memory modules";
    let table = match visit.tree.bytes(TABLE) {
        Ok(table) => table,
        Err(error) => return visit.refused(WHAT, &error, TABLE),
    };
    let slots = slots(&table);
    if !slots.iter().any(|slot| slot.has_module) {
        return visit.unknown(WHAT, "the firmware lists none", TABLE);
    }
    speed(visit, &slots);
    channels(visit, &slots);
}

fn speed(visit: &mut Visit<'_>, slots: &[Slot]) {
    let is_speed = |mt: u32| (100..100_000).contains(&mt);
    let known: Vec<_> =
        slots.iter().filter(|slot| is_speed(slot.speed_mt) && is_speed(slot.set_mt)).collect();
    if known.is_empty() {
        return visit.unknown("speed of memory modules", "the firmware does not report it", TABLE);
    }
    let Some(slow) = known.iter().find(|slot| slot.set_mt < slot.speed_mt) else { return };
    visit.found(Finding::of_machine(
        Area::Memory,
        "memory-speed",
        [format!("modules for {} MT/s run at {}", slow.speed_mt, slow.set_mt), format!("{} MT/s", slow.speed_mt)],
        Cost::percent(
            100.0 * (1.0 - f64::from(slow.set_mt) / f64::from(slow.speed_mt)),
            "of the bandwidth of memory, which is what limits TLS in software at some hundred Gb/s",
            source::ARITHMETIC,
        ),
        ["firmware setup: memory speed \"Auto\" or the module's; two modules in a channel run slower than one", "dmidecode -t 17: Configured Memory Speed"],
    ));
}

/// A channel counts as empty if none of its slots has a module. Each board names channels differently; only names with
/// the word "channel" are trusted.
fn channels(visit: &mut Visit<'_>, slots: &[Slot]) {
    let mut used = BTreeMap::<String, bool>::new();
    for slot in slots {
        let Some(channel) = channel_of(&slot.name) else {
            return visit.unknown(
                "channels of memory",
                "the board's names do not show them",
                &slot.name,
            );
        };
        *used.entry(channel).or_default() |= slot.has_module;
    }
    let count = used.values().filter(|used| **used).count();
    if count == used.len() {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Memory,
        "memory-channels",
        [format!("{count} of {} channels have a module", used.len()), "a module in each".into()],
        Cost::percent(
            100.0 * (1.0 - count as f64 / used.len() as f64),
            "of the bandwidth of memory, which is what limits TLS in software at some hundred Gb/s",
            source::ARITHMETIC,
        ),
        [
            "put a module of the same kind into each channel",
            "dmidecode -t 17: no slot says No Module Installed, or only second slots of a channel",
        ],
    ));
}

/// The name without the number of the slot in its channel: `P0 CHANNEL A` of `DIMM 1 P0 CHANNEL A`.
fn channel_of(name: &str) -> Option<String> {
    let name = name.to_uppercase().replace('_', " ");
    let (before, after) = name.split_once("CHANNEL")?;
    let letter = after.split_whitespace().next()?;
    let socket = before.split_whitespace().find(|word| {
        ["P", "CPU", "NODE", "SOCKET"].iter().any(|start| {
            word.strip_prefix(start).is_some_and(|number| number.parse::<u8>().is_ok())
        })
    });
    Some(format!("{} {letter}", socket.unwrap_or_default()))
}

/// The memory devices in the table. An entry with invalid lengths ends the iteration.
fn slots(mut table: &[u8]) -> Vec<Slot> {
    let mut slots = Vec::new();
    while let [kind, length, ..] = *table {
        let Some((formatted, rest)) = table.split_at_checked(usize::from(length).max(4)) else {
            break;
        };
        // Strings, each ended by a zero, and another zero after the last one.
        let Some(end) = rest.windows(2).position(|pair| pair == [0, 0]) else { break };
        if kind == MEMORY_DEVICE {
            let strings: Vec<_> = rest[..end].split(|byte| *byte == 0).collect();
            slots.extend(slot(formatted, &strings));
        }
        table = &rest[end + 2..];
    }
    slots
}

fn slot(formatted: &[u8], strings: &[&[u8]]) -> Option<Slot> {
    let word = |at: usize| Some(u16::from_le_bytes([*formatted.get(at)?, *formatted.get(at + 1)?]));
    let text = |at: usize| {
        let number = usize::from(*formatted.get(at)?).checked_sub(1)?;
        Some(String::from_utf8_lossy(strings.get(number)?).into_owned())
    };
    let size = word(0x0c)?;
    let names = [text(0x10).unwrap_or_default(), text(0x11).unwrap_or_default()];
    Some(Slot {
        // 0xffff is "unknown".
        has_module: size != 0 && size != 0xffff,
        name: names.join(" "),
        speed_mt: word(0x15).unwrap_or(0).into(),
        set_mt: word(0x20).unwrap_or(0).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_known_by_socket_and_letter() {
        let of = |name| channel_of(name).unwrap_or_default();
        assert_eq!(of("DIMM 1 P0 CHANNEL A"), "P0 A");
        assert_eq!(of("DIMM_P1_Channel_B"), of("DIMM 0 P1 CHANNEL B"));
        assert_eq!(channel_of("DIMM_A1 BANK 0"), None);
        assert_eq!(channel_of("Channel"), None);
    }

    #[test]
    fn a_table_cut_short_or_scrambled_is_read_without_harm() {
        let mut device = vec![MEMORY_DEVICE, 0x28, 1, 0];
        device.resize(0x28, 1);
        device.extend(b"CHANNEL A\0bank\0\0");
        let table = [&device[..], &device[..]].concat();
        assert_eq!(slots(&table).len(), 2);
        for end in 0..table.len() {
            slots(&table[..end]);
        }
        for at in 0..table.len() {
            for byte in [0, 1, 3, 0xff] {
                let mut scrambled = table.clone();
                scrambled[at] = byte;
                slots(&scrambled);
            }
        }
    }
}
