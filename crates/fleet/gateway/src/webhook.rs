//! Tells a web server of issues that begin and end, by the Standard Webhooks specification (version 1.0.0): signed, in order, repeated until it
//! answers with success.
//!
//! Messages that wait are kept in the gateway's folder. `gateway/reporting.rs` decides which gateway reports.

use std::collections::VecDeque;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outbound::client;
use reqwest::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use zeroize::Zeroizing;

use crate::issues::IssueChange;

/// Most messages that wait. The oldest are dropped: an operator who looks after days sees the list of issues anyway.
pub(crate) const WAITING_MAX: usize = 1000;

/// A message is dropped when it could not be delivered for this long.
pub(crate) const TRIED_FOR: Duration = Duration::from_secs(24 * 3600);

/// Pauses between tries double from the first to the last one.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Secrets have 24 to 64 bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A web server that gets messages.
pub struct Webhook {
    client: Client,
    url: reqwest::Url,
    key: hmac::Key,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// Identifies it: tries of one message have the same ID.
    id: String,
    /// The issue.
    pub(crate) issue: String,
    /// Whether it says that the issue has ended.
    pub(crate) is_end: bool,
    /// JSON.
    body: String,
    /// When it was made, or read from the folder, by the time since the gateway started: an operator may set the wall clock.
    #[serde(skip)]
    made: Duration,
}

/// Why a message was not delivered, in words.
pub(crate) struct Undelivered {
    pub(crate) why: String,
    /// The server answered that it doesn't want this message.
    pub(crate) is_refused: bool,
}

/// The messages that wait, in the order of delivery.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outbox {
    waiting: VecDeque<Message>,
}

/// What became of messages since the gateway started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebhookCounts {
    /// The server has answered with success.
    pub delivered: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Messages that were given up.
    pub dropped: u64,
    /// Messages that wait.
    pub waiting: u64,
}

impl Webhook {
    /// A webhook at `url`, with the secret as Standard Webhooks writes it: Base64, with or without `whsec_` before it.
    ///
    /// # Errors
    /// If the URL or the secret can't be used, in words.
    pub fn new(url: &str, secret: &str) -> Result<Self, String> {
        let url: reqwest::Url = url.parse().map_err(|_| "it is not a URL".to_owned())?;
        let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
            return Err("messages name nodes and faults, so it has to begin with https://, or be on this machine".to_owned());
        }
        let secret = secret.trim();
        let bytes =
            BASE64.decode(secret.strip_prefix("whsec_").unwrap_or(secret)).map(Zeroizing::new);
        let bytes = bytes.ok().filter(|bytes| SECRET_BYTES.contains(&bytes.len())).ok_or(
            "its secret is not Base64 of 24 to 64 bytes; make one: openssl rand -base64 32",
        )?;
        let client = client(None)?.timeout(ANSWER_WITHIN).build();
        let client = client.map_err(|error| error.to_string())?;
        Ok(Self { client, url, key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// Its host, for logs: the rest of the URL may be a secret.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The signature of a message that is sent at this time.
    fn signature(&self, id: &str, unix_seconds: u64, body: &str) -> String {
        let signed = format!("{id}.{unix_seconds}.{body}");
        format!("v1,{}", BASE64.encode(hmac::sign(&self.key, signed.as_bytes())))
    }

    /// Sends a message once.
    ///
    /// # Errors
    /// Why it is not delivered, without the URL.
    pub(crate) async fn send(
        &self,
        message: &Message,
        unix_seconds: u64,
    ) -> Result<(), Undelivered> {
        let Message { id, body, .. } = message;
        let request = self.client.post(self.url.clone()).body(body.clone());
        let request = request
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", unix_seconds)
            .header("webhook-signature", self.signature(id, unix_seconds, body));
        let failed = |error: reqwest::Error| Undelivered {
            why: outbound::with_causes(&error.without_url()),
            is_refused: false,
        };
        let status = request.send().await.map_err(failed)?.status();
        if status.is_success() {
            return Ok(());
        }
        // 408, 425 and 429 ask for another try.
        let is_refused = status.is_client_error() && ![408, 425, 429].contains(&status.as_u16());
        Err(Undelivered { why: format!("it answers {status}"), is_refused })
    }
}

impl Message {
    /// The message of a change.
    pub(crate) fn new(fleet: &str, gateway: &str, change: &IssueChange, made: Duration) -> Self {
        let (kind, issue, ended) = match change {
            IssueChange::Began(issue) => ("issue.began", issue, None),
            IssueChange::Ended(ended) => {
                ("issue.ended", &ended.issue, Some(ended.ended_unix_millis))
            }
        };
        let body = json!({
            "type": kind,
            "data": { "fleet": fleet, "gateway": gateway, "issue": issue, "ended_unix_millis": ended },
        });
        Self {
            id: format!("{kind}/{}/{}", issue.id, issue.since_unix_millis),
            issue: issue.id.clone(),
            is_end: ended.is_some(),
            body: body.to_string(),
            made,
        }
    }
}

impl Outbox {
    /// Messages read from the folder: their time begins again.
    pub(crate) fn read_at(mut self, uptime: Duration) -> Self {
        self.waiting.iter_mut().for_each(|message| message.made = uptime);
        self
    }

    /// Adds messages, and returns the number of those that were dropped for them.
    pub(crate) fn add(&mut self, messages: impl IntoIterator<Item = Message>) -> usize {
        self.waiting.extend(messages);
        let too_many = self.waiting.len().saturating_sub(WAITING_MAX);
        self.waiting.drain(..too_many);
        too_many
    }

    /// Drops the messages for which this holds, and returns their number.
    pub(crate) fn drop_if(&mut self, mut is_dropped: impl FnMut(&Message) -> bool) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|message| !is_dropped(message));
        before - self.waiting.len()
    }

    /// Drops the messages that have waited for too long, and returns their number.
    pub(crate) fn drop_old(&mut self, uptime: Duration) -> usize {
        self.drop_if(|message| uptime.saturating_sub(message.made) >= TRIED_FOR)
    }

    /// The next message.
    pub(crate) fn next(&self) -> Option<&Message> {
        self.waiting.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// The pause after this number of failed tries.
pub(crate) fn pause(failed: u32) -> Duration {
    PAUSE.saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1))).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_signature_is_that_of_the_specification() {
        let webhook = Webhook::new("https://ops.example/hook?key=1", SECRET).expect("a webhook");
        // The example in the documentation of Svix, who maintain the specification; Python's hmac agrees.
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        let signature = webhook.signature(id, 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(webhook.host(), "ops.example");
        for (url, secret, said) in [
            ("ops.example", SECRET, "not a URL"),
            ("http://ops.example/", SECRET, "https://"),
            ("ftp://localhost/", SECRET, "https://"),
            ("https://ops.example/", "whsec_c2hvcnQ=", "24 to 64"),
            ("https://ops.example/", "not Base64!", "openssl rand"),
        ] {
            let refused = Webhook::new(url, secret).err().unwrap_or_default();
            assert!(refused.contains(said), "{url}: {refused}");
        }
        assert!(Webhook::new("http://127.0.0.1:9/", SECRET.trim_start_matches("whsec_")).is_ok());
    }

    #[test]
    fn messages_wait_in_order_and_within_bounds() {
        let message = |number: u64| Message {
            id: number.to_string(),
            issue: String::new(),
            is_end: false,
            body: String::new(),
            made: Duration::from_secs(number),
        };
        let mut outbox = Outbox::default();
        assert_eq!(outbox.add((0..1000).map(message)), 0);
        assert_eq!(outbox.add((1000..1003).map(message)), 3);
        assert_eq!((outbox.len(), outbox.next()), (1000, Some(&message(3))));
        assert_eq!(outbox.drop_if(|one| *one == message(3)), 1);
        assert_eq!(outbox.drop_if(|one| *one == message(0)), 0);
        assert_eq!(outbox.next(), Some(&message(4)));
        assert_eq!(outbox.drop_old(TRIED_FOR + Duration::from_secs(10)), 7);
        assert_eq!((outbox.len(), outbox.next()), (992, Some(&message(11))));
        let mut read = outbox.read_at(Duration::from_secs(5000));
        assert_eq!(read.drop_old(TRIED_FOR + Duration::from_secs(4999)), 0);
        assert_eq!(read.drop_old(TRIED_FOR + Duration::from_secs(5000)), 992);
    }

    #[test]
    fn pauses_grow_to_five_minutes() {
        assert_eq!(
            [1, 2, 5, 9, 10, 99].map(|failed| pause(failed).as_secs()),
            [1, 2, 16, 256, 300, 300]
        );
    }
}
