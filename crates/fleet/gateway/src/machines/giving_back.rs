//! After a backup was restored, nodes send the fleet's signed list of revocations and withdrawals that they have received. Because of the
//! signature, no node can revoke another one or withdraw a title.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::Response;
use fleet_protocol::{FleetTombstones, ReturnedTombstones};
use identity::{Caller, RefusalReason};
use tokio::time::{Instant, sleep};

use super::body;
use super::speaking::answer;
use super::{MachineApi, MachineRefusal};
use store::backup::{Tombstones, bury, raise_epoch};

/// How long to wait until this gateway has the change. It polls the store once a second; a busy store takes longer.
const KNOWN_MAX: Duration = Duration::from_secs(5);

const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn gone(
    State(api): State<Arc<MachineApi>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    body: Body,
) -> Response {
    answer(&api, &caller, api.take_back(&caller, body).await)
}

impl MachineApi {
    async fn take_back(&self, caller: &Caller, body: Body) -> Result<StatusCode, MachineRefusal> {
        let peer = self.node(caller).await?;
        let kept: Option<ReturnedTombstones> =
            self.large.read_json(&peer.node, body, body::INVENTORY).await?;
        let live = &self.machines.live;
        if !live.wants_gone(&peer.node) {
            return Ok(StatusCode::NO_CONTENT);
        }
        let mut count = 0;
        if let Some(kept) = kept {
            kept.check()?;
            let gone = kept.open(&self.machines.snapshot_key).map_err(|unsigned| {
                MachineRefusal::new(RefusalReason::Malformed, unsigned.to_string())
            })?;
            count = self.keep(gone).await?;
        }
        live.handle_given_back(&peer.node, count);
        Ok(StatusCode::NO_CONTENT)
    }

    /// Adds what the store lacks, and waits until this gateway steers by it. Returns how many records changed.
    async fn keep(&self, gone: &FleetTombstones) -> Result<usize, MachineRefusal> {
        let (live, engine) = (&self.machines.live, &*self.machines.engine);
        let world = live.world();
        // Before nodes have been asked, this gateway gives out nothing of this epoch. A node that has it got it from a lost store.
        let is_used =
            gone.epoch > world.epoch || (gone.epoch == world.epoch && !world.is_read_back);
        if is_used {
            raise_epoch(engine, gone.epoch + 1).await?;
        }
        let mut tombstones = Tombstones::default();
        tombstones.add_gone(gone, self.machines.clock.now().unix_seconds());
        let count = match world.covers(gone) {
            true => 0,
            false => bury(engine, &tombstones).await?,
        };
        let until = Instant::now() + KNOWN_MAX;
        let is_known = || {
            let world = live.world();
            world.covers(gone) && (!is_used || world.epoch > gone.epoch)
        };
        while !is_known() && Instant::now() < until {
            sleep(LOOK).await;
        }
        Ok(count)
    }
}
