//! Reading a body that a peer controls: bounded in size and time, then JSON of a known form.

use std::error::Error;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use http_body_util::LengthLimitError;
use identity::RefusalReason;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::MachineRefusal;

/// Bounds of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyBounds {
    bytes_max: usize,
    time_max: Duration,
}

/// A signing request and a token.
pub(super) const JOINING: BodyBounds =
    BodyBounds { bytes_max: 16 << 10, time_max: Duration::from_secs(10) };

/// A body that costs no more than a heartbeat.
pub(super) const SMALL_BYTES_MAX: u64 = 64 << 10;

/// A thousand receipts of short paths, or some hundred of long ones.
pub(super) const HEARTBEAT: BodyBounds =
    BodyBounds { bytes_max: 64 << 10, time_max: Duration::from_secs(10) };

/// 100,000 titles with paths of ordinary length.
pub(super) const INVENTORY: BodyBounds =
    BodyBounds { bytes_max: 16 << 20, time_max: Duration::from_secs(60) };

/// As many routes as a node may pass on: some 80 bytes each.
pub(super) const ROUTES: BodyBounds =
    BodyBounds { bytes_max: 16 << 20, time_max: Duration::from_secs(30) };

/// A thousand titles with paths of any length. Those of ordinary length take 100 KB.
pub(super) const WATCHED: BodyBounds =
    BodyBounds { bytes_max: 4 << 20, time_max: Duration::from_secs(30) };

/// All of a body.
pub(super) async fn read(body: Body, bounds: BodyBounds) -> Result<Bytes, MachineRefusal> {
    let read = timeout(bounds.time_max, to_bytes(body, bounds.bytes_max));
    read.await.map_err(|_| RefusalReason::BodySlow)?.map_err(|error| {
        let is_too_large = error.source().is_some_and(<dyn Error>::is::<LengthLimitError>);
        let reason =
            if is_too_large { RefusalReason::BodyTooLarge } else { RefusalReason::BodySlow };
        MachineRefusal::from(reason)
    })
}

/// The JSON in a body.
pub(super) async fn read_json<T: DeserializeOwned>(
    body: Body,
    bounds: BodyBounds,
) -> Result<T, MachineRefusal> {
    parse(&read(body, bounds).await?)
}

/// The JSON in the bytes of a body.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MachineRefusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        MachineRefusal::new(RefusalReason::Malformed, format!("the body: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: BodyBounds = BodyBounds { bytes_max: 8, time_max: Duration::from_secs(1) };

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
