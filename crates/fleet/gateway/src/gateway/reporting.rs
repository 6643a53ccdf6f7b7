//! Reports issues that begin and end to the webhook, if there is one.

use std::mem::replace;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::{Gateway, lock};
use crate::clock::Now;
use crate::issues::Reported;
use crate::webhook::{Message, Outbox, Undelivered, Webhook, WebhookCounts, pause};

/// Without a leader, no gateway would report that the store is down: after this time, each of them does.
const LEADERLESS: Duration = Duration::from_secs(60);

/// How often messages are looked at that have waited for too long.
const LOOK: Duration = Duration::from_secs(60);

/// A message that the server refuses this often is given up, so that it doesn't hold back later ones: the last pause is about four minutes.
const REFUSED_MAX: u32 = 9;

/// The file is written after this number of delivered messages, and after the last one. Messages that a crash brings back have the same ID.
const SAVED_EVERY: usize = 50;

/// The webhook, and what waits for it.
pub(super) struct Reports {
    webhook: Option<Arc<Webhook>>,
    state: Mutex<ReportState>,
    /// One write at a time, of the state as it is then.
    saving: Mutex<()>,
    added: Notify,
}

#[derive(Default, Serialize, Deserialize)]
struct ReportState {
    outbox: Outbox,
    reported: Reported,
    #[serde(skip)]
    counts: WebhookCounts,
    #[serde(skip)]
    reports: bool,
    /// Since when no leader is known.
    #[serde(skip)]
    leaderless_since: Option<Duration>,
}

impl Reports {
    /// Nothing waits.
    pub(super) fn new(webhook: Option<Arc<Webhook>>) -> Self {
        let (saving, added) = (Mutex::default(), Notify::new());
        Self { webhook, state: Mutex::default(), saving, added }
    }
}

impl ReportState {
    /// Whether this gateway reports: it leads, or no gateway does.
    fn decide(&mut self, leads: bool, has_leader: bool, now: Now) {
        let since = (!has_leader).then(|| self.leaderless_since.unwrap_or(now.uptime));
        self.leaderless_since = since;
        let is_long = since.is_some_and(|since| now.uptime.saturating_sub(since) >= LEADERLESS);
        self.reports = leads || is_long;
    }
}

impl Gateway {
    /// Continues with the messages that the last run did not deliver.
    pub(super) fn restore_reports(&self) {
        if self.reports.webhook.is_none() {
            return;
        }
        let read = self.state.read_reports().map_err(|error| error.to_string());
        let read = read.and_then(|bytes| match bytes {
            None => Ok(ReportState::default()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
        });
        match read {
            Ok(ReportState { outbox, reported, .. }) => {
                let mut state = lock(&self.reports.state);
                state.outbox = outbox.read_at(self.now().uptime);
                state.reported = reported;
            }
            Err(why) => self.tell(&format!(
                "cannot read the messages that wait for the webhook, so they are lost: {why}"
            )),
        }
    }

    /// Adds messages about issues that have begun or ended, if this gateway reports.
    pub(super) fn report(&self, now: Now) {
        if self.reports.webhook.is_none() {
            return;
        }
        let (leads, has_leader) = (self.election.term().is_some(), self.leader().is_some());
        let (shown, _) = self.shown_issues(now);
        let is_added = {
            let state = &mut *lock(&self.reports.state);
            state.decide(leads, has_leader, now);
            let open = shown.iter().map(|one| (&one.issue, one.snoozed.is_some()));
            let changes = state.reported.update(open, state.reports, now);
            let (fleet, gateway) = (self.fleet_name.as_str(), self.name.as_str());
            let messages = changes.iter().map(|one| Message::new(fleet, gateway, one, now.uptime));
            state.counts.dropped += state.outbox.add(messages) as u64;
            !changes.is_empty()
        };
        if is_added {
            self.save_reports();
            self.reports.added.notify_one();
        }
    }

    /// Delivers messages, until it is dropped.
    pub(super) async fn deliver_on(self: &Arc<Self>) {
        let Some(webhook) = &self.reports.webhook else { return };
        let (mut failed, mut refused, mut told, mut unsaved) = (0, 0, false, 0);
        loop {
            let Some(message) = self.next_message() else {
                if replace(&mut unsaved, 0) > 0 {
                    self.save_reports_aside().await;
                }
                // A new message or the time-out wakes it, and the next turn checks for both.
                let _ = timeout(LOOK, self.reports.added.notified()).await;
                continue;
            };
            match webhook.send(&message, self.now().unix_seconds()).await {
                Ok(()) => {
                    self.settle(&message, |counts| counts.delivered += 1);
                    if replace(&mut told, false) {
                        let host = webhook.host();
                        self.tell(&format!("the webhook at {host} takes messages again"));
                    }
                    (failed, refused, unsaved) = (0, 0, unsaved + 1);
                }
                Err(Undelivered { why, is_refused }) => {
                    lock(&self.reports.state).counts.failed += 1;
                    failed += 1;
                    refused = if is_refused { refused + 1 } else { 0 };
                    // A server that is down stays so for longer than a try, so it is logged once.
                    if !replace(&mut told, true) {
                        let host = webhook.host();
                        self.tell(&format!(
                            "the webhook at {host} takes no messages, which are kept for a day: {why}"
                        ));
                    }
                    if refused >= REFUSED_MAX {
                        self.settle(&message, |counts| counts.dropped += 1);
                        (failed, refused, unsaved) = (0, 0, unsaved + 1);
                    }
                    sleep(pause(failed)).await;
                }
            }
            if unsaved >= SAVED_EVERY {
                unsaved = 0;
                self.save_reports_aside().await;
            }
        }
    }

    /// What became of messages to the webhook; all are 0 without a webhook.
    pub fn webhook_counts(&self) -> WebhookCounts {
        let state = lock(&self.reports.state);
        WebhookCounts { waiting: state.outbox.len() as u64, ..state.counts }
    }

    /// The next message to deliver. Drops those that are too old, and, once another gateway reports, those that are no longer true: it has reported
    /// the issue's present state.
    fn next_message(&self) -> Option<Message> {
        let now = self.now();
        let (shown, _) = self.shown_issues(now);
        let state = &mut *lock(&self.reports.state);
        let mut dropped = state.outbox.drop_old(now.uptime);
        if !state.reports {
            let is_open = |id: &str| shown.iter().any(|one| one.issue.id == id);
            dropped += state.outbox.drop_if(|message| message.is_end == is_open(&message.issue));
        }
        state.counts.dropped += dropped as u64;
        state.outbox.next().cloned()
    }

    /// Removes a message, and counts it.
    fn settle(&self, message: &Message, count: impl FnOnce(&mut WebhookCounts)) {
        let state = &mut *lock(&self.reports.state);
        if state.outbox.drop_if(|one| one == message) > 0 {
            count(&mut state.counts);
        }
    }

    /// [`save_reports`](Self::save_reports) on another thread, because it waits for the disk.
    async fn save_reports_aside(self: &Arc<Self>) {
        let gateway = Arc::clone(self);
        // A panic has already been reported.
        let _ = spawn_blocking(move || gateway.save_reports()).await;
    }

    /// Errors are ignored: the folder's state is reported with the list of issues, and the messages are still in memory.
    fn save_reports(&self) {
        let _turn = lock(&self.reports.saving);
        let bytes = serde_json::to_vec(&*lock(&self.reports.state));
        let _ = bytes.map(|bytes| self.state.write_reports(&bytes));
    }
}
