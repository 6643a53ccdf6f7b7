//! Credentials of the role that a machine or a container has at Amazon, for a bucket. They end after some hours, and are renewed before that.
//!
//! A machine has them from its metadata service (IMDSv2), a container from the address in its environment (ECS, and programs that do the same, such
//! as IAM Roles Anywhere's helper). They are asked for only if the operator has set no others.
//!
//! While there should be credentials and are none, a bucket's refusal says nothing about its objects ([`BucketRole::is_missing`]).

use outbound::with_causes;
use reqwest::{Client, RequestBuilder, Url};
use s3::{S3Signer, TemporaryCredentials};
use serde::Deserialize;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// The address of the metadata service on each of Amazon's machines.
const METADATA: &str = "http://169.254.169.254";

/// The host of `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`.
const CONTAINER: &str = "http://169.254.170.2";

/// The hosts that credentials may come from without TLS, next to this machine's own: the agents of ECS and EKS.
const PLAIN_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// For one request. It goes to this machine or the one below it, so an answer comes at once; elsewhere there is none, and viewers wait for this at
/// the start.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The longest pause where there may be no such service at all, as on machines that are not Amazon's. The first one is a second, because the
/// service of a machine that starts may come late.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// For how long after the start a machine may be expected to have a role if nothing says so.
const EXPECTED_FOR: Duration = Duration::from_secs(60);

/// New ones are there at least five minutes before the former ones end.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);

/// The least and the longest time between renewals: a role that an operator changes counts within the hour.
const RENEWED_AFTER: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(3600)];

/// Answers have some 1,500 bytes.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Where credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RoleSource {
    /// A machine's metadata service.
    Machine(Url),
    /// An address that answers with them, and the token that it wants.
    Container(Url, Option<String>),
}

/// The role of this machine or container.
pub(crate) struct BucketRole {
    source: RoleSource,
    http: Client,
    /// Whether it has been asked for once: earlier requests would be unsigned.
    is_known: watch::Sender<bool>,
    began: Instant,
}

/// Why there are no credentials.
struct NoRole(String);

/// What both kinds of source send.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RoleAnswer {
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: String,
}

impl RoleSource {
    /// By variables that other clients read as well; `None` if they rule a role out, or if the bucket is not at Amazon and none is set.
    fn of(
        variable: impl Fn(&str) -> Option<String>,
        is_amazons: bool,
    ) -> Result<Option<Self>, String> {
        let (relative, full, machine) = (
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        );
        let parse = |name: &str, text: &str| {
            let url = Url::parse(text).ok().filter(|url| url.has_host());
            url.ok_or_else(|| format!("{name} is {text:?}, which is not the address of a service"))
        };
        let token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
        if let Some(path) = variable(relative) {
            if !path.starts_with('/') {
                return Err(format!("{relative} is {path:?}: it must begin with a slash"));
            }
            let url = parse(relative, &format!("{CONTAINER}{path}"))?;
            return Ok(Some(Self::Container(url, token)));
        }
        if let Some(text) = variable(full) {
            let url = parse(full, &text)?;
            return match is_safe(&url) {
                true => Ok(Some(Self::Container(url, token))),
                false => Err(format!(
                    "{full} is {text:?}: without https://, it must be an address of this machine, or of the agent of ECS or EKS"
                )),
            };
        }
        let is_disabled = variable("AWS_EC2_METADATA_DISABLED")
            .is_some_and(|text| text.eq_ignore_ascii_case("true"));
        match variable(machine) {
            _ if is_disabled => Ok(None),
            Some(text) => parse(machine, &text).map(|url| Some(Self::Machine(url))),
            None if is_amazons => Ok(Some(Self::Machine(METADATA.parse().expect("an address")))),
            None => Ok(None),
        }
    }

    /// Whether only a guess says that there is a role.
    fn is_guess(&self) -> bool {
        matches!(self, Self::Machine(url) if url.as_str().trim_end_matches('/') == METADATA)
    }

    fn url(&self) -> &Url {
        match self {
            Self::Machine(url) | Self::Container(url, _) => url,
        }
    }
}

/// Whether credentials may come from there: over TLS, or from this machine or an agent on it.
fn is_safe(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here =
        host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    url.scheme() == "https" || is_here || PLAIN_HOSTS.contains(&host)
}

/// The pause after the failure with this number, counted from 0, if there have never been credentials and only a guess says that there is a role.
fn pause_after(failures: u32) -> Duration {
    RETRY_MAX.min(Duration::from_secs(1 << failures.min(10)))
}

/// When to ask again for credentials that are valid for so long.
fn renewed_after(left: Duration) -> Duration {
    let [least, longest] = RENEWED_AFTER;
    left.saturating_sub(RENEWED_BEFORE).clamp(least, longest)
}

impl BucketRole {
    /// The role whose credentials sign requests by `signer`; `None` if there are others, or can be none. Sends no request yet.
    ///
    /// # Errors
    /// Which variable of the environment can't be used.
    pub(crate) fn of(
        signer: &S3Signer,
        trusted: &outbound::Trusted,
    ) -> Result<Option<Self>, String> {
        if signer.has_credentials() {
            return Ok(None);
        }
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(source) = RoleSource::of(variable, signer.is_amazons())? else { return Ok(None) };
        Self::new(source, trusted).map(Some)
    }

    fn new(source: RoleSource, trusted: &outbound::Trusted) -> Result<Self, String> {
        let http = trusted.client(None)?.timeout(ANSWERED_WITHIN).no_proxy();
        let http = http.build().map_err(|error| with_causes(&error))?;
        Ok(Self { source, http, is_known: watch::Sender::new(false), began: Instant::now() })
    }

    /// The port to connect to.
    pub(crate) fn port(&self) -> u16 {
        self.source.url().port_or_known_default().unwrap_or_default()
    }

    /// Whether the host is a name, which has to be resolved.
    pub(crate) fn is_named(&self) -> bool {
        let host = self.source.url().host_str().unwrap_or_default();
        host.trim_matches(['[', ']']).parse::<IpAddr>().is_err()
    }

    /// Waits until the role has been asked for once.
    pub(crate) async fn known(&self) {
        // The sender is this one's own.
        let _ = self.is_known.subscribe().wait_for(|is_known| *is_known).await;
    }

    /// Whether there should be credentials, and are none: then the bucket refuses what it has.
    pub(crate) fn is_missing(&self, signer: &S3Signer) -> bool {
        let is_expected = !self.source.is_guess() || self.began.elapsed() < EXPECTED_FOR;
        is_expected && !signer.has_credentials()
    }

    /// Keeps the credentials of `signer` valid.
    pub(crate) async fn keep_current(&self, signer: &S3Signer) {
        let mut failures = 0_u32;
        loop {
            let pause = match self.renew(signer).await {
                Ok(left) => {
                    failures = 0;
                    renewed_after(left)
                }
                Err(NoRole(said)) => {
                    if failures == 0 {
                        complain(signer, &self.source, &said);
                    }
                    failures = failures.saturating_add(1);
                    match self.source.is_guess() && !signer.has_credentials() {
                        true => pause_after(failures - 1),
                        false => RETRY,
                    }
                }
            };
            self.is_known.send_replace(true);
            sleep(pause).await;
        }
    }

    /// Gets credentials for `signer`. Returns how long they are valid.
    async fn renew(&self, signer: &S3Signer) -> Result<Duration, NoRole> {
        let text = match &self.source {
            RoleSource::Container(url, token) => {
                let asked = self.http.get(url.clone());
                text(token.iter().fold(asked, |asked, token| asked.header("authorization", token)))
                    .await?
            }
            RoleSource::Machine(base) => {
                self.of_machine(base.as_str().trim_end_matches('/')).await?
            }
        };
        let answer: Result<RoleAnswer, _> = serde_json::from_str(&text);
        // The text of an error could quote a secret.
        let answer = answer.map_err(|_| wrong("its answer has no credentials"))?;
        let RoleAnswer { access_key_id: key, secret_access_key: secret, token, expiration } =
            answer;
        let adopted = signer.adopt(TemporaryCredentials { key, secret, token, expiration });
        adopted.ok_or_else(|| wrong("its answer doesn't say when the credentials end"))
    }

    async fn of_machine(&self, base: &str) -> Result<String, NoRole> {
        let asked = self.http.put(format!("{base}/latest/api/token"));
        let token = text(asked.header("x-aws-ec2-metadata-token-ttl-seconds", "60")).await?;
        let get = |path: &str| {
            let url = format!("{base}/latest/meta-data/iam/security-credentials/{path}");
            text(self.http.get(url).header("x-aws-ec2-metadata-token", token.trim()))
        };
        let roles = get("").await?;
        let role = roles.lines().next().unwrap_or_default().trim();
        // As IAM names them.
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
        if role.is_empty() || role.len() > 64 || !role.bytes().all(is_of_name) {
            return Err(wrong("the machine has no role"));
        }
        get(role).await
    }
}

fn wrong(said: &str) -> NoRole {
    NoRole(said.into())
}

/// The body of an answer.
async fn text(asked: RequestBuilder) -> Result<String, NoRole> {
    let failed = |error: reqwest::Error| NoRole(with_causes(&error.without_url()));
    let mut answer = asked.send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(wrong(&format!("it said {}", answer.status())));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(wrong("its answer is too long"));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| wrong("its answer is no text"))
}

/// Tells the operator that a role gives no credentials.
fn complain(signer: &S3Signer, source: &RoleSource, said: &str) {
    let what = match source {
        RoleSource::Machine(_) => "this machine's role (its metadata service)",
        RoleSource::Container(..) => "this container's role",
    };
    let until = match signer.has_credentials() {
        true => "the former credentials are used until they end",
        false => {
            "only a public bucket will answer: give the machine a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
    };
    eprintln!("fullbore: the edge's helper got no credentials from {what}: {said}; {until}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)], is_amazons: bool) -> Result<Option<RoleSource>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        RoleSource::of(variable, is_amazons)
    }

    #[test]
    fn a_role_is_asked_for_where_other_clients_would_ask() {
        let url = |text: &str| Url::parse(text).unwrap();
        let machine = |text: &str| Ok(Some(RoleSource::Machine(url(text))));
        let container = |text: &str, token: Option<&str>| {
            Ok(Some(RoleSource::Container(url(text), token.map(str::to_owned))))
        };
        let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
        let endpoint = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9");
        let token = ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "t");
        assert_eq!(of(&[], true), machine("http://169.254.169.254"));
        assert_eq!(of(&[], false), Ok(None), "a bucket of another vendor knows no roles");
        assert_eq!(of(&[endpoint], false), machine("http://127.0.0.1:9"));
        assert_eq!(of(&[endpoint, ("AWS_EC2_METADATA_DISABLED", "True")], true), Ok(None));
        assert_eq!(of(&[(relative, "/v2/a")], false), container("http://169.254.170.2/v2/a", None));
        for safe in
            ["http://127.0.0.1/a", "http://[::1]:9/a", "http://169.254.170.23/v1/c", "https://a/b"]
        {
            assert_eq!(of(&[(full, safe), token], true), container(safe, Some("t")));
        }
        for wrong in ["http://192.0.2.1/a", "http://a/b", "there"] {
            let said = of(&[(full, wrong)], true).unwrap_err();
            assert!(said.contains(full) && said.contains(wrong), "{said}");
        }
        for wrong in ["", "@192.0.2.1/a", ".example/a"] {
            assert!(of(&[(relative, wrong)], true).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn credentials_are_renewed_before_they_end() {
        let seconds = Duration::from_secs;
        for (left, after) in [(6 * 3600, 3600), (3000, 2700), (310, 30), (10, 30), (0, 30)] {
            assert_eq!(renewed_after(seconds(left)), seconds(after), "{left}");
        }
        let pauses = [0, 1, 2, 8, 9, u32::MAX].map(|failures| pause_after(failures).as_secs());
        assert_eq!(pauses, [1, 2, 4, 256, 300, 300]);
    }

    #[test]
    fn credentials_are_missing_where_there_should_be_some() {
        let signer = S3Signer::open("s3://films?endpoint=http://127.0.0.1:1").unwrap();
        let role = |address: &str, age: u64| {
            let source = RoleSource::Machine(Url::parse(address).unwrap());
            let role = BucketRole::new(source, &outbound::Trusted::default()).unwrap();
            let began = Instant::now().checked_sub(Duration::from_secs(age)).unwrap();
            BucketRole { began, ..role }
        };
        let (named, guessed) = ("http://127.0.0.1:9", METADATA);
        for (address, age, expected) in
            [(named, 0, true), (named, 100, true), (guessed, 0, true), (guessed, 100, false)]
        {
            assert_eq!(role(address, age).is_missing(&signer), expected, "{address} {age}");
        }
    }
}
