//! Reports issues that begin and end to the webhook, if there is one.

use std::mem::replace;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::{Gateway, lock};
use crate::clock::Now;
use crate::issues::IssueChange;
use crate::webhook::{Message, Outbox, Webhook, WebhookCounts, pause};

/// A gateway that takes over reports issues that began within this time, because the one before may not have: a lease lasts 15 s.
const TAKEN_OVER: Duration = Duration::from_secs(120);

/// How often messages are looked at that have waited for too long.
const LOOK: Duration = Duration::from_secs(60);

/// The webhook, and what waits for it.
pub(super) struct Reports {
    webhook: Option<Arc<Webhook>>,
    state: Mutex<ReportState>,
    added: Notify,
}

#[derive(Default)]
struct ReportState {
    outbox: Outbox,
    counts: WebhookCounts,
    has_led: bool,
}

impl Reports {
    /// Nothing waits.
    pub(super) fn new(webhook: Option<Arc<Webhook>>) -> Self {
        Self { webhook, state: Mutex::default(), added: Notify::new() }
    }
}

impl Gateway {
    /// Continues with the messages that the last run did not deliver.
    pub(super) fn restore_reports(&self) {
        if self.reports.webhook.is_none() {
            return;
        }
        let read = self.state.read_outbox().map_err(|error| error.to_string());
        let read = read.and_then(|bytes| match bytes {
            None => Ok(Outbox::default()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
        });
        match read {
            Ok(outbox) => lock(&self.reports.state).outbox = outbox,
            Err(why) => self.tell(&format!(
                "cannot read the messages that wait for the webhook, so they are lost: {why}"
            )),
        }
    }

    /// Adds changes of the list of issues to the messages that wait, if this gateway leads.
    pub(super) fn report(&self, changes: Vec<IssueChange>, now: Now) {
        if self.reports.webhook.is_none() {
            return;
        }
        let leads = self.election.term().is_some();
        let has_led = replace(&mut lock(&self.reports.state).has_led, leads);
        if !leads {
            return;
        }
        let (shown, _) = self.shown_issues(now);
        let is_snoozed =
            |id: &str| shown.iter().any(|one| one.issue.id == id && one.snoozed.is_some());
        let recent = now.unix_millis.saturating_sub(TAKEN_OVER.as_millis() as u64);
        let began = shown.iter().filter(|one| !has_led && one.issue.since_unix_millis >= recent);
        let mut reported: Vec<_> = began.map(|one| IssueChange::Began(one.issue.clone())).collect();
        for change in changes {
            if !reported.contains(&change) {
                reported.push(change);
            }
        }
        reported
            .retain(|change| !matches!(change, IssueChange::Began(issue) if is_snoozed(&issue.id)));
        if reported.is_empty() {
            return;
        }
        let (fleet, gateway) = (self.fleet_name.as_str(), self.name.as_str());
        let seconds = now.unix_seconds();
        let messages = reported.iter().map(|one| Message::new(fleet, gateway, one, seconds));
        {
            let mut state = lock(&self.reports.state);
            let dropped = state.outbox.add(messages);
            state.counts.dropped += dropped as u64;
        }
        self.save_outbox();
        self.reports.added.notify_one();
    }

    /// Delivers messages, until it is dropped.
    pub(super) async fn deliver_on(&self) {
        let Some(webhook) = &self.reports.webhook else { return };
        let (mut failed, mut told) = (0, false);
        loop {
            let dropped = {
                let mut state = lock(&self.reports.state);
                let dropped = state.outbox.drop_old(self.now().unix_seconds());
                state.counts.dropped += dropped as u64;
                dropped
            };
            if dropped > 0 {
                self.save_outbox();
            }
            let next = lock(&self.reports.state).outbox.next().cloned();
            let Some(message) = next else {
                // Whatever woke it, the next turn looks.
                let _ = timeout(LOOK, self.reports.added.notified()).await;
                continue;
            };
            match webhook.send(&message, self.now().unix_seconds()).await {
                Ok(()) => {
                    {
                        let mut state = lock(&self.reports.state);
                        state.outbox.remove(&message);
                        state.counts.delivered += 1;
                    }
                    self.save_outbox();
                    if replace(&mut told, false) {
                        self.tell(&format!(
                            "the webhook at {} takes messages again",
                            webhook.host()
                        ));
                    }
                    failed = 0;
                }
                Err(why) => {
                    lock(&self.reports.state).counts.failed += 1;
                    failed += 1;
                    // A server that is down stays so for longer than a try, so it is logged once.
                    if !replace(&mut told, true) {
                        let host = webhook.host();
                        self.tell(&format!(
                            "the webhook at {host} takes no messages, which are kept for a day: {why}"
                        ));
                    }
                    sleep(pause(failed)).await;
                }
            }
        }
    }

    /// What became of messages to the webhook; `None` if there is no webhook.
    pub fn webhook_counts(&self) -> Option<WebhookCounts> {
        self.reports.webhook.as_ref()?;
        let state = lock(&self.reports.state);
        Some(WebhookCounts { waiting: state.outbox.len() as u64, ..state.counts })
    }

    /// Errors are ignored: the folder's state is reported with the list of issues, and the messages are still in memory.
    fn save_outbox(&self) {
        let bytes = serde_json::to_vec(&lock(&self.reports.state).outbox);
        let _ = bytes.map(|bytes| self.state.write_outbox(&bytes));
    }
}
