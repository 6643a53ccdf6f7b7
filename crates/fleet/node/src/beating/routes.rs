//! Forwards the routes of the site's router to a gateway: changes at once, and every few seconds a confirmation that nothing has changed.
//!
//! It is not part of the heartbeat: a withdrawn route has to be out of answers within 5 s, and the next heartbeat may be later than that.
//! Few nodes have a router to report for.

use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{Announced, RoutesAnswer, RoutesUpdate, route_changes};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Shared;
use crate::bird::BirdReading;
use crate::gateway::Trouble;

/// How often to confirm to a gateway that nothing has changed.
const STILL: Duration = Duration::from_secs(5);

/// Older readings of the router are not forwarded.
const FRESH: Duration = Duration::from_secs(10);

/// Timeouts for a gateway's answer, and for sending all routes.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const ALL_MAX: Duration = Duration::from_secs(60);

/// The routes that a gateway has.
#[derive(Default)]
struct Had {
    number: Option<u64>,
    announced: Arc<Vec<Announced>>,
    at: Option<Instant>,
    refused: u64,
    trouble: Option<String>,
}

pub(super) async fn pass_on(
    shared: Arc<Shared>,
    address: String,
    mut readings: watch::Receiver<BirdReading>,
) {
    let mut had = Had::default();
    loop {
        let reading = readings.borrow_and_update().clone();
        let is_fresh = reading.at.is_some_and(|at| at.elapsed() < FRESH);
        let is_due =
            had.number != Some(reading.number) || had.at.is_none_or(|at| at.elapsed() >= STILL);
        if is_fresh && is_due {
            match shared.pass_on(&address, &reading, &had).await {
                Ok(answer) => had.take(&address, &reading, answer),
                Err(trouble) => had.fail(&address, &trouble),
            }
        }
        // A reading comes each second, changed or not, unless the router is away.
        if let Ok(Err(_)) = timeout(STILL, readings.changed()).await {
            return;
        }
    }
}

impl Had {
    fn take(&mut self, address: &str, reading: &BirdReading, answer: RoutesAnswer) {
        if self.trouble.take().is_some() {
            crate::tell(&format!("{address}: the gateway accepts routes again"));
        }
        if answer.wants_all {
            self.number = None;
            return;
        }
        self.number = Some(reading.number);
        self.announced = Arc::clone(&reading.announced);
        self.at = Some(Instant::now());
        if answer.refused != self.refused {
            crate::tell(&format!(
                "{address}: {} routes are within the prefixes that this site may announce; {} are not and don't count",
                answer.believed, answer.refused
            ));
            self.refused = answer.refused;
        }
    }

    fn fail(&mut self, address: &str, trouble: &Trouble) {
        let text = trouble.to_string();
        if self.trouble.as_ref() != Some(&text) {
            crate::tell(&format!("{address}: cannot forward routes: {text}"));
            self.trouble = Some(text);
        }
    }
}

impl Shared {
    async fn pass_on(
        &self,
        address: &str,
        reading: &BirdReading,
        had: &Had,
    ) -> Result<RoutesAnswer, Trouble> {
        let (announced, withdrawn) = match had.number {
            None => (reading.announced.to_vec(), Vec::new()),
            Some(number) if number == reading.number => (Vec::new(), Vec::new()),
            Some(_) => route_changes(&had.announced, &reading.announced),
        };
        let update = RoutesUpdate {
            version: 1,
            node: self.membership().node.clone(),
            boot: self.boot.name(),
            number: reading.number,
            base: had.number,
            announced,
            withdrawn,
        };
        let time_max = if had.number.is_none() { ALL_MAX } else { ANSWER_MAX };
        self.gateway().post(address, "routes", &update, time_max).await
    }
}
