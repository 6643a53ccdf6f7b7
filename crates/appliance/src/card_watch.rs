//! A thread that reads what network cards count, from time to time, and adapts the share of new connections that each gets.
//!
//! A driver may ask its card's firmware for that, and wait for it with a lock that all network devices share. So no worker does it.

use delivery::{CardCounts, CardShares, KernelOffload, LossLimits};
use machine::SealingCards;
use machine::ethtool::CardCounters;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The driver mlx5 and the lab's card count under these names: what was encrypted in order, and what came out of order (kernel documentation:
/// networking/tls-offload). No driver counts how often a card had to fetch a connection's state because it had no room for all.
const COUNTERS: [&str; 2] = ["tx_tls_encrypted_packets", "tx_tls_ooo"];

/// The shares of cards, and a thread that adapts them if cards get any keys. It ends with the last worker.
pub(crate) fn start(offload: KernelOffload, limits: LossLimits) -> io::Result<Arc<CardShares>> {
    let shares = Arc::<CardShares>::default();
    if offload.gives_cards_keys() {
        let weak = Arc::downgrade(&shares);
        // Where the kernel does not tell its devices, cards get nothing.
        if let (Ok(cards), Ok(counters)) = (SealingCards::open(), CardCounters::open()) {
            let watch = std::thread::Builder::new().name("cards".into());
            watch.spawn(move || adapt(&weak, cards, &counters, limits))?;
        }
    }
    Ok(shares)
}

fn adapt(
    shares: &Weak<CardShares>,
    mut cards: SealingCards,
    counters: &CardCounters,
    limits: LossLimits,
) {
    while let Some(shares) = shares.upgrade() {
        for (number, name) in cards.numbered(Instant::now()) {
            shares.adapt(number, counts(counters, &name), limits);
        }
        drop(shares);
        std::thread::sleep(CardShares::EVERY);
    }
}

fn counts(counters: &CardCounters, card: &str) -> Option<CardCounts> {
    let [in_order, out_of_order] = counters.read(card, COUNTERS).ok()?;
    Some(CardCounts { in_order: in_order?, out_of_order: out_of_order? })
}
