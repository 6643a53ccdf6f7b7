//! A gateway: its APIs and pages, and the live state of the fleet's nodes. The crate `store` keeps the records.
//!
//! Read first: `gateway/mod.rs` for an overview of the parts, then `live/mod.rs`.

pub mod api;
pub mod buying;
pub mod client;
pub mod clock;
mod desired;
pub mod experience;
pub mod gateway;
pub mod issues;
pub mod live;
pub mod machines;
mod moves;
mod pages;
pub mod planning;
mod renewal;
mod serve;
mod state_folder;
mod token_keys;
mod webhook;

use std::fs::File;
use std::io;
use std::path::Path;

pub use desired::Operator;
pub use serve::{ServeOptions, Transport, serve};
pub use webhook::{Webhook, WebhookCounts};

/// Creates a gateway's folder, readable by its owner only, if it does not exist. It may contain the store and the objects. As long as the returned
/// file is open, no other gateway can use the folder.
///
/// # Errors
/// If it cannot be created, or another gateway uses it.
pub fn prepare_state(folder: &Path) -> io::Result<File> {
    let open = state_folder::StateFolder::open(folder).map_err(|error| {
        let text =
            format!("a gateway cannot use this folder: {error} (choose another with --state)");
        io::Error::new(error.kind(), text)
    });
    let locked = open.and_then(|state| state.lock());
    locked.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))
}

/// Revocations and withdrawals recorded in a gateway's folder, which a restore must not undo. Empty if the folder does not exist.
pub fn tombstones(folder: &Path) -> store::backup::Tombstones {
    let kept = state_folder::StateFolder::at(folder).read_store().ok().flatten();
    let records = kept.and_then(|kept| serde_json::from_slice::<desired::Records>(&kept).ok());
    records.map(|records| records.tombstones()).unwrap_or_default()
}
