//! Keeps viewers' experience in the gateway's folder, so that a gateway that starts again goes on with it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Gateway;
use crate::experience::FleetExperience;

/// A gateway that is killed loses what it has counted since the last save.
const PERIOD: Duration = Duration::from_secs(60);

/// In a large fleet, saving takes longer. It takes a fiftieth of the time at most.
const PAUSE_PER_SAVE: u32 = 49;

impl Gateway {
    /// Continues with the sums of the last run.
    pub(super) fn restore_experience(&self) {
        let read = match self.state.read_experience() {
            Ok(None) => return,
            Ok(Some(bytes)) => FleetExperience::from_bytes(&bytes, self.now()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(experience) => {
                let unread = experience.counts().unread;
                if unread > 0 {
                    self.tell(&format!(
                        "{unread} groups of what viewers experienced before this start can't be read, and are left out"
                    ));
                }
                *self.live.experience() = experience;
            }
            Err(why) => self.tell(&format!(
                "cannot read what viewers experienced before this start, so its sums begin empty: {why}"
            )),
        }
    }

    pub(super) async fn keep_experience_on(self: &Arc<Self>) {
        let mut told = None;
        loop {
            let (gateway, began) = (Arc::clone(self), self.now().uptime);
            // A panic has already been reported; the next turn follows.
            let kept = spawn_blocking(move || gateway.keep_experience()).await;
            // A full disk stays full, so it is logged once.
            match kept.unwrap_or(Ok(())) {
                Ok(()) => told = None,
                Err(problem) if told.as_ref() == Some(&problem) => {}
                Err(problem) => self.tell(told.insert(problem)),
            }
            let took = self.now().uptime.saturating_sub(began);
            sleep((took * PAUSE_PER_SAVE).max(PERIOD)).await;
        }
    }

    /// Saves the sums, if there are new ones.
    ///
    /// # Errors
    /// If they can't be saved, in words. The next call tries again.
    pub fn keep_experience(&self) -> Result<(), String> {
        // The lock is not held while JSON is made: nodes report meanwhile.
        let unsaved = self.live.experience().unsaved(self.now());
        let Some(unsaved) = unsaved else { return Ok(()) };
        self.state.write_experience(&unsaved.to_json()).map_err(|error| {
            self.live.experience().note_unsaved();
            let folder = self.state.path().display();
            format!("cannot save what viewers experience in {folder}: {error}")
        })
    }
}
