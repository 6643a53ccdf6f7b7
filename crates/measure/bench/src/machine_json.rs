//! The machine's description. Every bench writes it next to its figures, which mean little without it.
//!
//! One flat object. Unknown values are `null`, never a guess. Readers (the report) must accept missing and additional
//! members.

use std::time::{SystemTime, UNIX_EPOCH};

use machine::Machine;
use serde_json::{Value, json};

/// Describes this machine.
///
/// | member | is |
/// |---|---|
/// | `cpu` | the model, text or null |
/// | `architecture` | `x86_64`, `aarch64` |
/// | `cores` | how many CPUs this process may run on |
/// | `cpu_quota` | how many CPUs' worth of time its control groups allow, or null |
/// | `cpu_features` | the instruction sets that decide how fast records are encrypted |
/// | `l1d_bytes`, `l2_bytes`, `l3_bytes` | caches of the first core, data or unified, or null |
/// | `l3_shared_by` | how many CPUs share the last one, or null |
/// | `memory_bytes`, `memory_limit_bytes` | the machine's, and the limit set by control groups, or null |
/// | `page_bytes` | a page of memory |
/// | `kernel` | the release in full, or null |
/// | `kernel_tls` | whether the kernel has TLS loaded now |
/// | `congestion_control` | the default for new connections |
/// | `fullbore` | this program's version |
/// | `measured_unix_seconds` | the time of this call |
pub fn machine_json() -> Value {
    let machine = Machine::probe();
    let features = machine.cpu_features;
    let named = [(features.aes, "aes"), (features.vaes, "vaes"), (features.avx512, "avx512")];
    let names: Vec<_> = named.iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    let l3 = machine.caches.iter().find(|cache| cache.level == 3);
    json!({
        "cpu": machine.cpu_model,
        "architecture": std::env::consts::ARCH,
        "cores": machine.cpus.len(),
        "cpu_quota": machine.cpu_quota,
        "cpu_features": names,
        "l1d_bytes": machine.cache_bytes(1),
        "l2_bytes": machine.cache_bytes(2),
        "l3_bytes": machine.cache_bytes(3),
        "l3_shared_by": l3.map(|cache| cache.shared_by.len()),
        "memory_bytes": machine.memory_bytes,
        "memory_limit_bytes": machine.memory_limit_bytes,
        "page_bytes": machine.page_bytes,
        "kernel": machine.kernel_release,
        "kernel_tls": machine.kernel_tls,
        "congestion_control": crate::namespace::congestion_control(),
        "fullbore": env!("CARGO_PKG_VERSION"),
        "measured_unix_seconds": unix_seconds(),
    })
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described_flatly_and_without_guesses() {
        let described = machine_json();
        let members = described.as_object().unwrap();
        assert!(members.values().all(|value| !value.is_object()), "{described:#}");
        assert!(described["cores"].as_u64().unwrap() >= 1);
        assert!(described["kernel"].is_string() && described["congestion_control"].is_string());
        for cache in ["l1d_bytes", "l2_bytes", "l3_bytes"] {
            assert!(described[cache].is_null() || described[cache].as_u64() > Some(1 << 10));
        }
    }
}
