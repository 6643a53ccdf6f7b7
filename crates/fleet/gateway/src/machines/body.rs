//! Reads request bodies, which peers control: bounded in size, time and memory, then parsed as JSON of a known type.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use identity::RefusalReason;
use listener::{BodyBounds, BodyBudget, BodyFault, ReadBody, read_body};
use serde::de::DeserializeOwned;

use super::MachineRefusal;

/// A signing request and a token.
pub(super) const JOINING: BodyBounds = BodyBounds::small(16 << 10);

/// Bodies up to this size cost no more than a heartbeat.
pub(super) const SMALL_BYTES_MAX: u64 = 64 << 10;

/// A thousand receipts with short paths, or a few hundred with long ones.
pub(super) const HEARTBEAT: BodyBounds = BodyBounds::small(64 << 10);

/// 100,000 titles with paths of ordinary length.
pub(super) const INVENTORY: BodyBounds = BodyBounds::large(16 << 20);

/// The most routes that a node may feed: some 80 bytes each.
pub(super) const ROUTES: BodyBounds = BodyBounds::large(16 << 20);

/// A thousand titles with paths of any length. Those of ordinary length take 100 KB.
pub(super) const WATCHED: BodyBounds = BodyBounds::large(4 << 20);

/// A thousand groups of sessions with all of their distributions. Those of a usual minute take some 100 KB.
pub(super) const EXPERIENCE: BodyBounds = BodyBounds::large(8 << 20);

/// Most memory for all bodies of one kind that machines are sending, per process, for all of its gateways. Strangers join with small bodies and
/// cannot use up the memory that nodes' heartbeats need.
static STRANGERS_BODIES: LazyLock<Arc<BodyBudget>> = LazyLock::new(|| BodyBudget::new(8 << 20));
static SMALL_BODIES: LazyLock<Arc<BodyBudget>> = LazyLock::new(|| BodyBudget::new(64 << 20));
static LARGE_BODIES: LazyLock<Arc<BodyBudget>> = LazyLock::new(|| BodyBudget::new(128 << 20));

fn budget(bounds: BodyBounds) -> &'static Arc<BodyBudget> {
    if bounds.bytes_max as u64 <= SMALL_BYTES_MAX { &SMALL_BODIES } else { &LARGE_BODIES }
}

/// The entire body of a node's request.
pub(super) async fn read(body: Body, bounds: BodyBounds) -> Result<ReadBody, MachineRefusal> {
    read_within(body, bounds, budget(bounds)).await
}

/// The JSON in the body of a node's request.
pub(super) async fn read_json<T: DeserializeOwned>(
    body: Body,
    bounds: BodyBounds,
) -> Result<T, MachineRefusal> {
    parse(&read(body, bounds).await?)
}

/// The JSON in the body of a request to join.
pub(super) async fn read_json_of_stranger<T: DeserializeOwned>(
    body: Body,
) -> Result<T, MachineRefusal> {
    parse(&read_within(body, JOINING, &STRANGERS_BODIES).await?)
}

async fn read_within(
    body: Body,
    bounds: BodyBounds,
    budget: &Arc<BodyBudget>,
) -> Result<ReadBody, MachineRefusal> {
    read_body(body, bounds, budget).await.map_err(|fault| match fault {
        BodyFault::TooLarge => RefusalReason::BodyTooLarge.into(),
        BodyFault::Slow => RefusalReason::BodySlow.into(),
        BodyFault::NoMemory => RefusalReason::Unavailable.into(),
    })
}

/// Parses a body as JSON.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MachineRefusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        MachineRefusal::new(RefusalReason::Malformed, format!("the body: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: BodyBounds = BodyBounds::small(8);

    async fn reason(body: Body) -> Option<RefusalReason> {
        read_json::<u64>(body, SMALL).await.err().map(|refusal| refusal.reason)
    }

    #[tokio::test]
    async fn a_body_has_its_bounds() {
        assert_eq!(reason(Body::from("12345678")).await, None);
        assert_eq!(reason(Body::from("123456789")).await, Some(RefusalReason::BodyTooLarge));
        assert_eq!(reason(Body::from("\"text\"")).await, Some(RefusalReason::Malformed));
        assert_eq!(reason(Body::from("")).await, Some(RefusalReason::Malformed));
    }
}
