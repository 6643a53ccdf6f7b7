//! The certificate for viewers: sends the request for it, and fetches the issued chain.

use std::time::Duration;

use fleet_protocol::{Digest, HeartbeatAnswer, ViewerChain, ViewerRequest};

use super::Shared;
use crate::gateway::Trouble;

const ANSWER_MAX: Duration = Duration::from_secs(20);

/// One gateway's state when the node last acted on it: a refused request would be refused again five seconds later.
#[derive(Default)]
pub(super) struct Certified {
    request: Option<Option<Digest>>,
    chain: Option<Digest>,
}

impl Shared {
    /// Sends the node's request to the fleet, and fetches the fleet's chain for it.
    pub(super) async fn certify(
        &self,
        address: &str,
        answer: &HeartbeatAnswer,
        certified: &mut Certified,
    ) -> Result<(), Trouble> {
        let Some(request) = self.state.viewer_request() else { return Ok(()) };
        let known = answer.certificate;
        if known.request != Some(Digest::of(request.as_bytes())) {
            if certified.request == Some(known.request) {
                return Ok(());
            }
            let node = self.membership().node.clone();
            let sent = serde_json::to_vec(&ViewerRequest { version: 1, node, request });
            let body = sent.map_err(|error| Trouble::Failed(error.to_string()))?;
            let taken = self.gateway().put(address, "certificate-request", body, ANSWER_MAX).await;
            // A gateway without a store is asked again.
            if !matches!(&taken, Err(Trouble::Refused { reason, .. }) if reason == "unavailable") {
                certified.request = Some(known.request);
            }
            return taken;
        }
        let Some(chain) = known.chain.filter(|chain| certified.chain != Some(*chain)) else {
            return Ok(());
        };
        let has = self.hand_over(|state| state.viewer_chain()).await.flatten();
        if has != Some(chain) {
            let issued: ViewerChain =
                self.gateway().get(address, "certificate", ANSWER_MAX).await?;
            issued.check().map_err(|why| Trouble::Failed(format!("its certificate: {why}")))?;
            let taken = self.hand_over(|state| state.handle_viewer_chain(issued.chain)).await;
            certified.chain = Some(chain);
            taken.unwrap_or(Ok(())).map_err(Trouble::Failed)?;
        }
        certified.chain = Some(chain);
        Ok(())
    }
}
