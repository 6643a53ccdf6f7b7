//! A thread that reads network cards' counters from time to time, and adapts each card's share of new connections.
//!
//! A driver may query its card's firmware for them, and wait for it with a lock that all network devices share. So no worker does it.

use delivery::{KernelOffload, LossLimits, NicCounts, NicShares};
use machine::TlsNics;
use machine::ethtool::NicCounters;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The names of these counters in the driver mlx5 and in the lab's card: packets encrypted in order, and packets out of order (kernel documentation:
/// networking/tls-offload). No driver counts how often a card had to fetch a connection's state because it had no room for all.
const COUNTERS: [&str; 2] = ["tx_tls_encrypted_packets", "tx_tls_ooo"];

/// The shares of cards, and a thread that adapts them if cards get any keys. It ends with the last worker.
pub(crate) fn start(offload: KernelOffload, limits: LossLimits) -> io::Result<Arc<NicShares>> {
    let shares = Arc::<NicShares>::default();
    if offload.gives_nics_keys() {
        let weak = Arc::downgrade(&shares);
        // If the kernel does not list its devices, cards get nothing.
        if let (Ok(nics), Ok(counters)) = (TlsNics::open(), NicCounters::open()) {
            let watch = std::thread::Builder::new().name("cards".into());
            watch.spawn(move || adapt(&weak, nics, &counters, limits))?;
        }
    }
    Ok(shares)
}

fn adapt(shares: &Weak<NicShares>, mut nics: TlsNics, counters: &NicCounters, limits: LossLimits) {
    while let Some(shares) = shares.upgrade() {
        for (number, name) in nics.numbered(Instant::now()) {
            shares.adapt(number, counts(counters, &name), limits);
        }
        drop(shares);
        std::thread::sleep(NicShares::EVERY);
    }
}

fn counts(counters: &NicCounters, nic: &str) -> Option<NicCounts> {
    let [in_order, out_of_order] = counters.read(nic, COUNTERS).ok()?;
    Some(NicCounts { in_order: in_order?, out_of_order: out_of_order? })
}
