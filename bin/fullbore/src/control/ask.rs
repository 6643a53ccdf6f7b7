//! Commands that query or change a running gateway.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

use ::gateway::client::{ApiClient, OperatorAccess};
use ::gateway::gateway::{self, Publication};
use catalog::TitlePath;
use clap::{Args, Subcommand};
use fleet_protocol::{Announced, BadOrigin, Name, Prefix};
use serde_json::{Value, json};

use super::chain::read_chain;
use super::invite::Invite;
use super::{Failed, fill, issues, placing, plan_report, purging, qoe, replay, report};
use crate::bad_value::{self, BadValue};
use crate::folders::spelled_in;
use crate::load::Time;

/// The gateway's address, and the operator's credentials.
#[derive(Args)]
pub(super) struct At {
    /// The gateway's admin address
    #[arg(
        long,
        value_name = "URL",
        env = "FULLBORE_ADMIN",
        default_value = "http://127.0.0.1:8701"
    )]
    admin: String,
    /// File with an operator's token [default: admin.token in --state, unless there is a --cert]
    #[arg(long, value_name = "FILE", env = "FULLBORE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// The operator's certificate, PEM; it identifies you if there is no --token-file
    #[arg(long, value_name = "FILE", env = "FULLBORE_CERT", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert, PEM
    #[arg(long, value_name = "FILE", env = "FULLBORE_KEY", requires = "cert")]
    key: Option<PathBuf>,
    /// Authority that signed the gateway's certificate, PEM [default: the system's trusted authorities]
    #[arg(long, value_name = "FILE", env = "FULLBORE_CA")]
    ca: Option<PathBuf>,
    /// The gateway's folder, if it runs on this machine [default: ~/.local/state/fullbore/gateway]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
}

/// The request.
#[derive(Subcommand)]
pub(super) enum Ask {
    /// Print a command that lets one box join the fleet, once
    Invite(Invite),
    /// Remove a node from the fleet for good; its certificate is no longer accepted
    Revoke {
        /// Its name, which no other node can take again
        node: Name,
        /// Why; other operators will see it
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        at: At,
    },
    /// List nodes with their state, load and titles
    Nodes {
        /// Confirm that nodes that fell silent together are dead, when the gateway suspects its own network instead
        #[arg(long)]
        believe_silence: bool,
        #[command(flatten)]
        at: At,
    },
    Issues(issues::Issues),
    Snooze(issues::SnoozeIssue),
    Wake(issues::WakeIssue),
    Qoe(qoe::Qoe),
    /// Show the titles that nodes are copying, their progress, and when they will be done
    Fill {
        #[command(flatten)]
        at: At,
    },
    /// Send no new viewers to a node, and let its current ones leave
    Drain {
        /// Its name
        node: Name,
        /// Why; other operators will see it
        #[arg(long)]
        reason: String,
        /// Send viewers to it again after this time, such as 2h [default: only after undrain]
        #[arg(long, value_name = "TIME")]
        returns: Option<Time>,
        #[command(flatten)]
        at: At,
    },
    /// Send viewers to a node again
    Undrain {
        /// Its name
        node: Name,
        #[command(flatten)]
        at: At,
    },
    /// Show the prefixes that a site announces, or replace them with those in a file
    ///
    /// Each line of the file has a prefix and, optionally, its distance: "192.0.2.0/24 as_path=64500,64501 med=50" or
    /// "2001:db8::/32 as_path_length=2". The file replaces the site's earlier one. Routes that nodes pass on from BIRD count as well.
    Announce {
        /// The site
        site: Name,
        /// File of prefixes; an empty one announces nothing [default: show the current announcements]
        file: Option<PathBuf>,
        #[command(flatten)]
        at: At,
    },
    /// Set the prefixes that a site may announce, including everything within them
    #[command(
        group = clap::ArgGroup::new("allowed").required(true).multiple(true),
        override_usage = "fullbore control allow [OPTIONS] <SITE> <PREFIXES|--file <FILE>|--all>"
    )]
    Allow {
        /// The site
        site: Name,
        /// Prefixes, such as 192.0.2.0/24
        #[arg(group = "allowed")]
        prefixes: Vec<Prefix>,
        /// File with a prefix per line
        #[arg(long, value_name = "FILE", group = "allowed", conflicts_with_all = ["prefixes", "all"])]
        file: Option<PathBuf>,
        /// Allow everything
        #[arg(long, group = "allowed", conflicts_with = "prefixes")]
        all: bool,
        #[command(flatten)]
        at: At,
    },
    /// Publish a title of a library: check every file, then have nodes hold and serve it
    ///
    /// For a title that "fullbore publish" has put into a bucket, --origin alone is enough: its record and manifests are read from there.
    #[command(group = clap::ArgGroup::new("from").required(true).multiple(true))]
    Publish {
        /// Path of the title in the library
        title: String,
        /// The library's folder on this machine [default: the folder that --origin names]
        #[arg(long, value_name = "DIR", group = "from")]
        library: Option<PathBuf>,
        /// Where nodes copy the library from: file:///FOLDER, s3://BUCKET/PREFIX or https://HOST/PATH (which needs
        /// --library, too) [default: the folder of --library]
        #[arg(long, value_name = "URL", group = "from")]
        origin: Option<String>,
        /// Have nodes copy it at once, regardless of their windows
        #[arg(long)]
        now: bool,
        /// Series that it belongs to [default: the one set at ingest]
        #[arg(long, value_name = "NAME")]
        series: Option<String>,
        #[command(flatten)]
        at: At,
    },
    /// Withdraw a title: nodes stop serving it, and each sends a receipt
    Withdraw {
        /// Path of the title
        title: String,
        /// Why; other operators will see it
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        at: At,
    },
    /// Place titles by demand, or show what that would move
    ///
    /// Nodes report each title's traffic. From that the gateway forecasts each region's demand in the coming day. The plan shows which nodes copy
    /// which titles, how many bytes that takes, how much traffic is served nearby before and after, and what to buy next. Until you apply a plan for
    /// the first time, every node holds everything that is published.
    #[command(group = clap::ArgGroup::new("verb").required(true))]
    Plan {
        /// Only show what would move
        #[arg(long, group = "verb")]
        dry_run: bool,
        /// Have nodes follow the plan; nothing changes if they already do
        #[arg(long, group = "verb")]
        apply: bool,
        /// Undo plans: every node holds everything that is published again
        #[arg(long, group = "verb")]
        everything: bool,
        /// List at most this many moves, the most urgent first
        #[arg(long, value_name = "COUNT", default_value = "20")]
        moves: u16,
        #[command(flatten)]
        at: At,
    },
    /// Fix where a title is held, regardless of demand; replaces the title's earlier pins
    #[command(group = clap::ArgGroup::new("pins").required(true).multiple(true))]
    Pin {
        /// Path of the title
        title: String,
        /// Copies at each site of the fleet
        #[arg(long, value_name = "COPIES", group = "pins", value_parser = bad_value::copies)]
        everywhere: Option<NonZeroU16>,
        /// Copies at each site of a region, such as europe=2; can be repeated
        #[arg(long, value_name = "NAME=COPIES", group = "pins")]
        region: Vec<CopiesAt>,
        /// Copies at a site; can be repeated
        #[arg(long, value_name = "NAME=COPIES", group = "pins")]
        site: Vec<CopiesAt>,
        /// Remove all pins
        #[arg(long, group = "pins", conflicts_with_all = ["everywhere", "region", "site"])]
        none: bool,
        #[command(flatten)]
        at: At,
    },
    Placement(placing::Placement),
    Purge(purging::PurgeAll),
    Purges(purging::PurgesOfFleet),
    /// Show which nodes hold a title, and which have sent a receipt for its withdrawal
    Where {
        /// Path of the title
        title: String,
        #[command(flatten)]
        at: At,
    },
    /// Show where a viewer would be sent, and why
    Explain {
        /// The viewer's IP address
        #[arg(value_parser = bad_value::viewer_address)]
        address: IpAddr,
        /// Path of the title
        title: String,
        /// The node that the viewer already plays from, if any
        #[arg(long, value_name = "NODE")]
        playing: Option<Name>,
        /// The viewer's number in the log of decisions: it breaks ties between equally good nodes
        #[arg(long, value_name = "HEX")]
        viewer: Option<String>,
        #[command(flatten)]
        at: At,
    },
    /// List the fleet's gateways, or forget one that is gone for good
    // Flags before `remove` belong to the list: clap would otherwise drop them silently.
    #[command(args_conflicts_with_subcommands = true)]
    Gateways {
        #[command(subcommand)]
        verb: Option<GatewaysVerb>,
        #[command(flatten)]
        at: At,
    },
    /// List the keys that sign viewers' URLs, roll them, or distrust them
    #[command(subcommand)]
    Keys(KeysVerb),
    /// List the certificates that nodes show to viewers, print a node's signing request, or give a node the issued certificate
    #[command(subcommand)]
    Certificates(CertificatesVerb),
    /// Replay logged decisions; the exit code is 1 if the outcome of any differs
    Replay {
        /// Only the most recent, such as 90m [default: all that are kept, which is 24 hours]
        #[arg(long, value_name = "TIME")]
        last: Option<Time>,
        /// Only decisions about this title
        #[arg(long)]
        title: Option<String>,
        /// Replay a box's decisions, those of the `fullbore node` with this state folder, on that box: where it sent viewers, and when it turned
        /// viewers away. Needs no gateway
        #[arg(long, value_name = "DIR")]
        node_state: Option<PathBuf>,
        #[command(flatten)]
        at: At,
    },
}

#[derive(Subcommand)]
pub(super) enum GatewaysVerb {
    /// Forget a gateway: nodes stop contacting it. It must not be running
    Remove {
        /// Its name
        name: Name,
        #[command(flatten)]
        at: At,
    },
}

#[derive(Subcommand)]
pub(super) enum KeysVerb {
    /// List keys
    List {
        #[command(flatten)]
        at: At,
    },
    /// Sign viewers' URLs with a new key, or start signing them if this is the first. No viewer is refused
    Roll {
        /// When the new key starts signing, such as 30m, at least 10s [default: 10m]. For the first key: when nodes start to refuse URLs
        /// without a token [default: --token-life of the gateway]
        #[arg(long, value_name = "TIME")]
        after: Option<Time>,
        #[command(flatten)]
        at: At,
    },
    /// After a key was stolen: sign with a new key at once. All URLs signed before stop working, so viewers who are playing must reload their page
    Distrust {
        #[command(flatten)]
        at: At,
    },
}

#[derive(Subcommand)]
pub(super) enum CertificatesVerb {
    /// List nodes with their hosts, and when their certificates expire
    List {
        #[command(flatten)]
        at: At,
    },
    /// Print a node's certificate signing request, PEM, for its host
    Request {
        /// Its name
        node: Name,
        #[command(flatten)]
        at: At,
    },
    /// Give a node the certificate that was issued for its request
    Put {
        /// Its name
        node: Name,
        /// The chain, PEM: the node's certificate first, then its issuer's
        #[arg(value_name = "CHAIN.pem")]
        chain: PathBuf,
        #[command(flatten)]
        at: At,
    },
}

/// A number of copies at a place: `europe=2`.
#[derive(Clone)]
pub(super) struct CopiesAt(pub(super) Name, pub(super) NonZeroU16);

impl FromStr for CopiesAt {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let parts = text.split_once('=');
        let read =
            parts.and_then(|(name, copies)| Some(Self(name.parse().ok()?, copies.parse().ok()?)));
        read.ok_or_else(|| BadValue::new(text, "a name and a number of copies, such as europe=2"))
    }
}

impl At {
    pub(super) fn client(&self) -> Result<ApiClient, Failed> {
        let certificate = self.cert.clone().zip(self.key.clone());
        let own = || super::serve::state_folder(self.state.as_deref()).join("admin.token");
        let token_file = match &self.token_file {
            Some(file) => Some(file.clone()),
            None => certificate.is_none().then(own),
        };
        let authority = self.ca.clone();
        Ok(ApiClient::new(&self.admin, &OperatorAccess { token_file, certificate, authority })?)
    }

    /// Prints an answer: as JSON, or as text.
    pub(super) fn print(&self, answer: &Value, words: impl FnOnce(&Value) -> String) {
        if self.json {
            crate::say(&format!("{answer:#}\n"));
        } else {
            crate::say(&words(answer));
        }
    }
}

impl CertificatesVerb {
    async fn run(self) -> Result<(), Failed> {
        match self {
            Self::List { at } => {
                let answer = at.client()?.get("/api/v1/certificates", &[]).await?;
                at.print(&answer, report::certificates);
            }
            Self::Request { node, at } => {
                let path = format!("/api/v1/certificates/{node}/request");
                let answer = at.client()?.get(&path, &[]).await?;
                at.print(&answer, report::certificate_request);
            }
            Self::Put { node, chain, at } => {
                let text = read_chain(&chain)?;
                let path = format!("/api/v1/certificates/{node}/chain");
                let answer = at.client()?.post(&path, &json!({ "chain": text })).await?;
                at.print(&answer, report::certificate_put);
            }
        }
        Ok(())
    }
}

impl Ask {
    /// Sends the request, and prints the answer.
    pub(super) async fn run(self) -> Result<(), Failed> {
        match self {
            Self::Invite(invite) => invite.run().await?,
            Self::Revoke { node, reason, at } => {
                let path = format!("/api/v1/nodes/{node}/revoke");
                let answer = at.client()?.post(&path, &json!({ "reason": reason })).await?;
                at.print(&answer, report::node_state);
            }
            Self::Nodes { believe_silence, at } => {
                let client = at.client()?;
                let answer = match believe_silence {
                    true => client.post("/api/v1/believe-silence", &json!({})).await?,
                    false => client.get("/api/v1/nodes", &[]).await?,
                };
                at.print(&answer, report::nodes);
            }
            Self::Fill { at } => {
                let answer = at.client()?.get("/api/v1/nodes", &[]).await?;
                at.print(&fill::filling(&answer), fill::words);
            }
            Self::Drain { node, reason, returns, at } => {
                let returns = returns.map(|Time(after)| now_unix_seconds() + after.as_secs());
                let body = json!({ "reason": reason, "returns_unix_seconds": returns });
                let path = format!("/api/v1/nodes/{node}/drain");
                let answer = at.client()?.post(&path, &body).await?;
                at.print(&answer, report::node_state);
            }
            Self::Undrain { node, at } => {
                let path = format!("/api/v1/nodes/{node}/undrain");
                let answer = at.client()?.post(&path, &json!({})).await?;
                at.print(&answer, report::node_state);
            }
            Self::Gateways { verb: None, at } => {
                let answer = at.client()?.get("/api/v1/gateways", &[]).await?;
                at.print(&answer, report::gateways);
            }
            Self::Gateways { verb: Some(GatewaysVerb::Remove { name, at }), .. } => {
                let path = format!("/api/v1/gateways/{name}/remove");
                let answer = at.client()?.post(&path, &json!({})).await?;
                at.print(&answer, report::gateway_removed);
            }
            Self::Keys(KeysVerb::List { at }) => {
                let answer = at.client()?.get("/api/v1/keys", &[]).await?;
                at.print(&answer, report::keys);
            }
            Self::Keys(KeysVerb::Roll { after, at }) => {
                let body = json!({ "seconds": after.map(|Time(after)| after.as_secs()) });
                let answer = at.client()?.post("/api/v1/keys/roll", &body).await?;
                at.print(&answer, report::keys);
            }
            Self::Keys(KeysVerb::Distrust { at }) => {
                let answer = at.client()?.post("/api/v1/keys/distrust", &json!({})).await?;
                at.print(&answer, report::keys);
            }
            Self::Certificates(verb) => verb.run().await?,
            Self::Issues(issues) => return issues.run().await,
            Self::Snooze(snooze) => snooze.run().await?,
            Self::Wake(wake) => wake.run().await?,
            other => return other.run_for_viewers().await,
        }
        Ok(())
    }

    /// The commands about titles and viewers.
    async fn run_for_viewers(self) -> Result<(), Failed> {
        match self {
            Self::Publish { title, library, origin, now, series, at } => {
                publish(&title, library, origin, (now, series), &at).await
            }
            Self::Withdraw { title, reason, at } => {
                let body = json!({ "title": title, "reason": reason });
                let answer = at.client()?.post("/api/v1/titles/withdraw", &body).await?;
                at.print(&answer, report::withdrawn);
                Ok(())
            }
            // clap requires exactly one of three flags: without the other two, this is the dry run.
            Self::Plan { dry_run: _, apply, everything, moves, at } => {
                placing::plan(apply, everything, moves, &at).await
            }
            Self::Pin { title, everywhere, region, site, none: _, at } => {
                let at_places = [("region", region), ("site", site)];
                let answer = placing::pin(&title, everywhere, at_places, &at).await?;
                at.print(&answer, plan_report::pinned);
                Ok(())
            }
            Self::Placement(placement) => placement.run().await,
            Self::Purge(purge) => purge.run().await,
            Self::Purges(purges) => purges.run().await,
            Self::Qoe(qoe) => qoe.run().await,
            Self::Where { title, at } => {
                let answer = at.client()?.get("/api/v1/where", &[("title", title)]).await?;
                at.print(&answer, report::title_at_nodes);
                Ok(())
            }
            Self::Explain { address, title, playing, viewer, at } => {
                let mut query = vec![("address", address.to_string()), ("title", title)];
                query.extend(playing.map(|node| ("playing", node.to_string())));
                query.extend(viewer.map(|number| ("viewer", number)));
                let answer = at.client()?.get("/api/v1/explain", &query).await?;
                at.print(&answer, |answer| report::text(answer, "text"));
                Ok(())
            }
            Self::Replay { last, title, node_state: Some(state), at } => {
                replay::of_node(&state, last, title.as_deref(), &at)
            }
            Self::Replay { last, title, at, .. } => replay::of_gateway(last, title, &at).await,
            Self::Announce { site, file, at } => announce(&site, file, &at).await,
            Self::Allow { site, prefixes, file, all, at } => {
                let prefixes = match (all, file) {
                    (true, _) => vec![json!("0.0.0.0/0"), json!("::/0")],
                    (false, Some(file)) => {
                        let read = read_prefixes(&file)?.into_iter();
                        read.map(|one| json!(one.prefix)).collect()
                    }
                    (false, None) => prefixes.iter().map(|prefix| json!(prefix)).collect(),
                };
                let path = format!("/api/v1/sites/{site}/allowed");
                let answer = at.client()?.post(&path, &json!({ "allowed": prefixes })).await?;
                at.print(&answer, report::allowed);
                Ok(())
            }
            // `run` has handled the others.
            _ => Ok(()),
        }
    }
}

async fn publish(
    title: &str,
    library: Option<PathBuf>,
    origin: Option<String>,
    (now, series): (bool, Option<String>),
    at: &At,
) -> Result<(), Failed> {
    let path = TitlePath::new(title).map_err(|error| Failed(2, error.to_string()))?;
    let client = at.client()?;
    let mut publication = read_title(&path, library, origin).await?;
    publication.at_once = now;
    publication.series = series;
    let answer = client.post("/api/v1/titles/publish", &publication.to_json()).await?;
    at.print(&answer, report::published);
    Ok(())
}

/// Reads a title from a library on this machine, or else from its origin.
async fn read_title(
    path: &TitlePath,
    library: Option<PathBuf>,
    origin: Option<String>,
) -> Result<Publication, Failed> {
    let at_origin = origin.as_deref().and_then(|origin| origin.strip_prefix("file://"));
    let library = library.or(at_origin.map(PathBuf::from));
    let path = &library.as_ref().map_or_else(|| path.clone(), |at| spelled_in(at, path));
    let read = match (library, origin) {
        (Some(library), Some(origin)) => gateway::read_title(&library, path, origin),
        (Some(library), None) => {
            let whole = library.canonicalize();
            let whole = whole.map_err(|error| {
                Failed(
                    1,
                    format!(
                        "cannot open the library {}: {error}; check --library",
                        library.display()
                    ),
                )
            })?;
            gateway::read_title(&library, path, format!("file://{}", whole.display()))
        }
        (None, Some(web)) if web.starts_with("http") => {
            let need =
                format!("name a folder that holds the library of {web}, too: add --library DIR");
            return Err(Failed(2, need));
        }
        (None, origin) => {
            let origin = origin.unwrap_or_default();
            if !origin.starts_with("s3://") {
                return Err(Failed(2, format!("--origin {origin:?}: {BadOrigin}")));
            }
            gateway::read_title_in_bucket(&origin, path).await
        }
    };
    read.map_err(|why| Failed(1, why))
}

async fn announce(site: &Name, file: Option<PathBuf>, at: &At) -> Result<(), Failed> {
    let path = format!("/api/v1/sites/{site}/announced");
    let client = at.client()?;
    let Some(file) = file else {
        let answer = client.get(&path, &[]).await?;
        at.print(&answer, report::announcements);
        return Ok(());
    };
    let text = Announced::write_file(&read_prefixes(&file)?);
    let answer = client.post(&path, &json!({ "file": text })).await?;
    at.print(&answer, report::announced);
    Ok(())
}

fn read_prefixes(file: &std::path::Path) -> Result<Vec<Announced>, Failed> {
    let failed = |why: &dyn std::fmt::Display| Failed(1, format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => {
            failed(&"it is not text: write a prefix on each line, such as 192.0.2.0/24")
        }
        _ => failed(&format_args!("cannot read it: {error}")),
    })?;
    Announced::read_file(&text).map_err(|error| failed(&error))
}

/// A clock before 1970 counts as 1970.
pub(super) fn now_unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}
