//! A gateway: the fleet's store, API, pages and what it knows of its nodes.
//!
//! Read first: `gateway/mod.rs` for how the parts hang together, then `live/mod.rs`.

pub mod api;
pub mod buying;
pub mod client;
pub mod clock;
mod desired;
pub mod gateway;
pub mod live;
pub mod machines;
mod moves;
mod pages;
pub mod planning;
mod renewal;
mod serve;
mod state_folder;
pub mod store;
mod token_keys;

use std::fs::File;
use std::io;
use std::path::Path;

pub use desired::Operator;
pub use serve::{ServeOptions, Transport, serve};

/// Makes a gateway's folder, which is its owner's alone, if it is not there. The store and the objects may be in it. As long as the file that it
/// returns is open, no other gateway gets the folder.
///
/// # Errors
/// If it cannot be made, or another gateway has it.
pub fn prepare_state(folder: &Path) -> io::Result<File> {
    let open = state_folder::StateFolder::open(folder).map_err(|error| {
        let text =
            format!("a gateway cannot use this folder: {error} (choose another with --state)");
        io::Error::new(error.kind(), text)
    });
    let locked = open.and_then(|state| state.lock());
    locked.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))
}

/// What the folder of a gateway knows to be revoked or withdrawn: no restore may bring that back. A folder that is not there knows nothing.
pub fn tombstones(folder: &Path) -> store::backup::Tombstones {
    let kept = state_folder::StateFolder::at(folder).read_store().ok().flatten();
    let records = kept.and_then(|kept| serde_json::from_slice::<desired::Records>(&kept).ok());
    records.map(|records| records.tombstones()).unwrap_or_default()
}
