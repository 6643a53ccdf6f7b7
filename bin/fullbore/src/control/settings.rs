//! The settings of `fullbore control serve`: flags, and a file with the same names, with `_` for `-`. Flags override the file.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use files::in_plain_words;
use fleet_protocol::Name;
use serde::{Deserialize, Deserializer};

use super::Failed;
use crate::bad_value::{self, BadValue};
use crate::host::Host;
use crate::load::{Quantity, Time};

/// Far more than a configuration needs: it is a page of text.
const FILE_BYTES_MAX: u32 = 1 << 20;

/// All settings. Unset ones get their default where they are used.
#[derive(Args, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Settings {
    /// The store: a folder, for gateways on one machine, or etcd://HOST:PORT [default: store in --state]
    #[arg(long, value_name = "DIR|etcd://...")]
    pub(super) store: Option<String>,
    /// Where titles' documents are stored: a folder, or s3://BUCKET/PREFIX [default: objects in --state]
    #[arg(long, value_name = "DIR|s3://...")]
    pub(super) objects: Option<String>,
    /// Address for viewers; port 0 picks a free port [default: 0.0.0.0:8700]
    #[arg(long, value_name = "ADDR:PORT", value_parser = bad_value::address)]
    pub(super) public: Option<SocketAddr>,
    /// Certificate chain for viewers, PEM; for several names, repeat it, each with its --public-key [default: plain HTTP]
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "one_or_more")]
    pub(super) public_cert: Vec<PathBuf>,
    /// Private key of a --public-cert, PEM
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "one_or_more")]
    pub(super) public_key: Vec<PathBuf>,
    /// Address for nodes; port 0 picks a free port [default: 0.0.0.0:8702]
    #[arg(long, value_name = "ADDR:PORT", value_parser = bad_value::address)]
    pub(super) machines: Option<SocketAddr>,
    /// Address for operators: the fleet page, the API, metrics; port 0 picks a free port [default: 127.0.0.1:8701]
    #[arg(long, value_name = "ADDR:PORT", value_parser = bad_value::address)]
    pub(super) admin: Option<SocketAddr>,
    /// Certificate chain for operators, PEM; for several names, repeat it, each with its --admin-key [default: plain HTTP]
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "one_or_more")]
    pub(super) admin_cert: Vec<PathBuf>,
    /// Private key of an --admin-cert, PEM
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "one_or_more")]
    pub(super) admin_key: Vec<PathBuf>,
    /// Certificate of the authority that signs operators' certificates, PEM [default: operators use tokens only]
    #[arg(long, value_name = "FILE")]
    pub(super) operators_ca: Option<PathBuf>,
    /// Allow plain HTTP on --admin beyond loopback, because a proxy in front of it does TLS
    #[arg(long)]
    pub(super) admin_behind_tls: bool,
    /// The gateway's folder [default: ~/.local/state/fullbore/gateway]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// The gateway's name, unique in the fleet [default: g1]
    #[arg(long)]
    pub(super) name: Option<Name>,
    /// Name or address by which nodes reach this gateway [default: the address of --machines, if it names one]
    #[arg(long, value_name = "HOST")]
    #[serde(deserialize_with = "as_flag")]
    pub(super) host: Option<Host>,
    /// Base URL that viewers use for this gateway, such as `https://tv.example` [default: from each request]
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "as_flag")]
    pub(super) public_url: Option<PublicUrl>,
    /// Region that the gateway is in
    #[arg(long)]
    pub(super) region: Option<Name>,
    /// Name of the fleet, if this start creates it [default: fleet]
    #[arg(long, value_name = "NAME")]
    pub(super) fleet: Option<Name>,
    /// Scheme of nodes for viewers, http or https, if this start creates the fleet [default: https]
    #[arg(long, value_name = "http|https")]
    pub(super) node_scheme: Option<Scheme>,
    /// Port of all nodes for viewers, if this start creates the fleet [default: 8443]
    #[arg(long, value_name = "PORT", value_parser = bad_value::port)]
    pub(super) node_port: Option<NonZeroU16>,
    /// Sign viewers' URLs, if this start creates the fleet: nodes then serve nothing without a token
    #[arg(long)]
    pub(super) signed: bool,
    /// How long signed URLs work, such as 6h [default: 12h]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_flag")]
    pub(super) token_life: Option<Time>,
    /// How long nodes' certificates are valid, from 5m to 9528h (397 days); nodes renew them after two thirds of it [default: 720h]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_flag")]
    pub(super) node_certificate_life: Option<CertificateLife>,
    /// Recompute placement this often, such as 24h, after the first "control plan --apply" [default: only at each --apply]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_flag")]
    pub(super) plan_every: Option<PlanEvery>,
    /// URL that gets a signed message when an issue begins or ends
    #[arg(long, value_name = "URL")]
    pub(super) webhook: Option<String>,
    /// File with the secret that signs messages: Base64 of 24 to 64 bytes (openssl rand -base64 32)
    #[arg(long, value_name = "FILE")]
    pub(super) webhook_secret_file: Option<PathBuf>,
    /// Size limit of the decision log in bytes, such as 1G [default: 1G]
    #[arg(long, value_name = "SIZE")]
    #[serde(deserialize_with = "as_flag")]
    pub(super) decisions: Option<Quantity>,
}

/// The base URL that viewers use for the gateway, without a trailing slash.
#[derive(Clone)]
pub(super) struct PublicUrl(pub(super) String);

impl FromStr for PublicUrl {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        bad_value::base_url(text).map(Self)
    }
}

/// How often placement is recomputed.
#[derive(Clone, Copy)]
pub(super) struct PlanEvery(pub(super) Duration);

/// Demand changes from day to day. A shorter interval would move copies back and forth.
const PLAN_EVERY_MIN: Duration = Duration::from_secs(3600);

impl FromStr for PlanEvery {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let Time(every) = text.parse()?;
        match every >= PLAN_EVERY_MIN {
            true => Ok(Self(every)),
            false => Err(BadValue::new(text, "a time from 1h on")),
        }
    }
}

/// How long a node's certificate is valid.
#[derive(Clone, Copy)]
pub(super) struct CertificateLife(pub(super) Duration);

/// With a shorter life, a gateway that restarts could miss a renewal. With a longer one, a forgotten box could stay authorised for years.
const CERTIFICATE_LIFE: RangeInclusive<Duration> =
    Duration::from_secs(5 * 60)..=Duration::from_secs(397 * 24 * 3600);

impl FromStr for CertificateLife {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let Time(life) = text.parse()?;
        match CERTIFICATE_LIFE.contains(&life) {
            true => Ok(Self(life)),
            false => Err(BadValue::new(text, "a time from 5m to 9528h")),
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scheme {
    Http,
    #[default]
    Https,
}

impl Scheme {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Accepts one file, or a list of files.
fn one_or_more<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a file, or a list of files")]
    enum Files {
        One(PathBuf),
        More(Vec<PathBuf>),
    }
    Ok(match Files::deserialize(value)? {
        Files::One(file) => vec![file],
        Files::More(files) => files,
    })
}

/// Accepts a number, or a text in the flag's syntax.
fn as_flag<'de, D, T>(value: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::fmt::Display>,
{
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number or a text")]
    enum Word {
        Number(u64),
        Text(String),
    }
    let text = match Word::deserialize(value)? {
        Word::Number(number) => number.to_string(),
        Word::Text(text) => text,
    };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl Settings {
    /// These settings, with the unset ones taken from `file`.
    pub(super) fn with_file(self, file: Option<&Path>) -> Result<Self, Failed> {
        let Some(file) = file else { return Ok(self) };
        let wrong = |what: &dyn std::fmt::Display| Failed(2, format!("{}: {what}", file.display()));
        let text = files::read_text(file, FILE_BYTES_MAX)
            .map_err(|error| wrong(&format_args!("cannot read the configuration: {error}")))?;
        let file: Self = toml::from_str(&text)
            .map_err(|error: toml::de::Error| wrong(&in_plain_words(&error.to_string())))?;
        Ok(self.over(file))
    }

    fn over(self, file: Self) -> Self {
        let some = |own: Vec<PathBuf>, file| if own.is_empty() { file } else { own };
        Self {
            store: self.store.or(file.store),
            objects: self.objects.or(file.objects),
            public: self.public.or(file.public),
            public_cert: some(self.public_cert, file.public_cert),
            public_key: some(self.public_key, file.public_key),
            machines: self.machines.or(file.machines),
            admin: self.admin.or(file.admin),
            admin_cert: some(self.admin_cert, file.admin_cert),
            admin_key: some(self.admin_key, file.admin_key),
            operators_ca: self.operators_ca.or(file.operators_ca),
            admin_behind_tls: self.admin_behind_tls || file.admin_behind_tls,
            state: self.state.or(file.state),
            name: self.name.or(file.name),
            host: self.host.or(file.host),
            public_url: self.public_url.or(file.public_url),
            region: self.region.or(file.region),
            fleet: self.fleet.or(file.fleet),
            node_scheme: self.node_scheme.or(file.node_scheme),
            node_port: self.node_port.or(file.node_port),
            signed: self.signed || file.signed,
            token_life: self.token_life.or(file.token_life),
            node_certificate_life: self.node_certificate_life.or(file.node_certificate_life),
            plan_every: self.plan_every.or(file.plan_every),
            webhook: self.webhook.or(file.webhook),
            webhook_secret_file: self.webhook_secret_file.or(file.webhook_secret_file),
            decisions: self.decisions.or(file.decisions),
        }
    }

    /// The address of the admin listener.
    pub(super) fn admin(&self) -> SocketAddr {
        self.admin.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8701)))
    }

    /// Checks that settings that depend on each other are consistent.
    pub(super) fn check(&self) -> Result<(), Failed> {
        let wrong = |what: &str| Err(Failed(2, what.to_owned()));
        if self.public_cert.len() != self.public_key.len() {
            return wrong("each --public-cert needs its --public-key");
        }
        if self.admin_cert.len() != self.admin_key.len() {
            return wrong("each --admin-cert needs its --admin-key");
        }
        if self.operators_ca.is_some() && self.admin_cert.is_empty() {
            return wrong(
                "operators can show certificates only over TLS: --operators-ca needs --admin-cert and --admin-key",
            );
        }
        if self.webhook.is_some() != self.webhook_secret_file.is_some() {
            return wrong(
                "messages are signed: --webhook and --webhook-secret-file need each other",
            );
        }
        let admin = self.admin();
        let is_near = admin.ip().to_canonical().is_loopback();
        if is_near || !self.admin_cert.is_empty() || self.admin_behind_tls {
            return Ok(());
        }
        wrong(&format!(
            "operators' tokens would cross the network in the clear to {admin}: give the listener a certificate with --admin-cert \
             and --admin-key, or keep it on loopback (--admin 127.0.0.1:8701), or say with --admin-behind-tls that something in front does TLS"
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn flags(words: &[&str]) -> Settings {
        let command = Settings::augment_args(Command::new("serve").no_binary_name(true));
        Settings::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    fn read(text: &str) -> Result<Settings, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// A valid value for each flag that takes one.
    fn value_of(flag: &str) -> &'static str {
        match flag {
            "public" | "machines" | "admin" => "127.0.0.1:1",
            "node-scheme" => "http",
            "node-port" => "1",
            "host" => "gw.example",
            "node-certificate-life" => "30m",
            "plan-every" => "24h",
            "public-url" => "https://tv.example",
            "token-life" => "6h",
            _ => "1",
        }
    }

    #[test]
    fn a_file_may_say_whatever_flags_may_and_nothing_else() {
        let command = Settings::augment_args(Command::new("serve"));
        let names: Vec<_> = command.get_arguments().filter_map(|own| own.get_long()).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            let key = name.replace('-', "_");
            let is_truth = ["signed", "admin-behind-tls"].contains(&name);
            let value = if is_truth { "true".to_owned() } else { format!("{:?}", value_of(name)) };
            let value = if name == "node-port" { "1".to_owned() } else { value };
            assert!(read(&format!("{key} = {value}")).is_ok(), "{key} = {value}");
        }
        let said = read("state = \"a\"\nadmn = \"127.0.0.1:1\"\n").err().unwrap();
        assert!(said.contains("admn") && said.contains("line 2"), "{said}");
        for bad in [
            "token_life = \"soon\"",
            "token_life = 6",
            "node_scheme = \"ftp\"",
            "public_url = \"tv.example\"",
            "public_cert = 1",
            "signed = 1",
            "node_port = 0",
            "host = \"https://a\"",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flags_count_before_the_file() {
        let file = r#"
            admin = "127.0.0.1:1"
            public_cert = "a.pem"
            public_key = ["a.key"]
            token_life = "6h"
            decisions = 1000
            signed = true
        "#;
        let both = flags(&["--admin", "127.0.0.1:2", "--name", "g2"]).over(read(file).unwrap());
        assert_eq!(both.admin().port(), 2);
        assert_eq!(both.name.unwrap().as_str(), "g2");
        assert_eq!(both.token_life.unwrap().0.as_secs(), 6 * 3600);
        assert_eq!(both.decisions.unwrap().0, 1000);
        assert_eq!((both.public_cert.len(), both.public_key.len(), both.signed), (1, 1, true));
        let own = flags(&["--public-cert", "b.pem", "--public-cert", "c.pem"]);
        assert_eq!(own.over(read(file).unwrap()).public_cert.len(), 2);
    }

    #[test]
    fn operators_in_the_clear_are_refused_beyond_loopback() {
        let why = |words: &[&str]| flags(words).check().err().map(|Failed(_, why)| why);
        for good in [
            &[][..],
            &["--admin", "[::1]:1"],
            &["--admin", "[::ffff:127.0.0.1]:1"],
            &["--admin", "0.0.0.0:1", "--admin-behind-tls"],
            &["--admin", "0.0.0.0:1", "--admin-cert", "a", "--admin-key", "b"],
        ] {
            assert_eq!(why(good), None, "{good:?}");
        }
        for (bad, what) in [
            (&["--admin", "0.0.0.0:1"][..], "--admin-behind-tls"),
            (&["--admin", "192.0.2.1:1"], "--admin-cert"),
            (&["--admin-cert", "a"], "--admin-key"),
            (&["--public-key", "a"], "--public-cert"),
            (&["--operators-ca", "a"], "--admin-cert"),
            (&["--webhook", "https://ops.example/"], "--webhook-secret-file"),
            (&["--webhook-secret-file", "a"], "--webhook"),
        ] {
            assert!(why(bad).is_some_and(|why| why.contains(what)), "{bad:?}: {:?}", why(bad));
        }
    }

    #[test]
    fn certificates_hold_neither_too_short_nor_too_long() {
        let life = |text: &str| text.parse::<CertificateLife>().ok().map(|life| life.0.as_secs());
        assert_eq!((life("5m"), life("720h")), (Some(300), Some(30 * 24 * 3600)));
        assert_eq!(life("720h").map(Duration::from_secs), Some(identity::NODE_LIFETIME));
        for bad in ["", "0", "720", "299s", "9529h", "a year"] {
            assert_eq!(life(bad), None, "{bad}");
        }
    }
}
