//! `fullbore control invite`: prints a command that lets one box join the fleet, once.

use clap::{Args, ValueEnum};
use fleet_protocol::Name;
use serde_json::json;

use super::ask::At;
use super::{Failed, report};
use crate::host::Host;
use crate::join::Gbps;
use crate::load::Time;

#[derive(Args)]
pub(super) struct Invite {
    /// Cluster that the box joins
    #[arg(long)]
    cluster: Name,
    /// Site of the cluster; cluster and site are created if they don't exist yet
    #[arg(long)]
    site: Option<Name>,
    /// Region of the site, if the site is created
    #[arg(long, requires = "site")]
    region: Option<Name>,
    /// Rack of the box, if the site has several
    #[arg(long)]
    rack: Option<Name>,
    /// The only name that the box may take [default: any]
    #[arg(long)]
    node: Option<Name>,
    /// The only host that the box may have [default: any that no other machine of the fleet has]
    #[arg(long)]
    host: Option<Host>,
    /// Kind of box
    #[arg(long, default_value = "storage")]
    kind: KindArg,
    /// Most that the box may send, in Gb/s [default: what the box reports, within bounds]
    #[arg(long, value_name = "GBPS")]
    ceiling: Option<Gbps>,
    /// How long the invitation is valid, such as 90m or 24h
    #[arg(long, value_name = "TIME", default_value = "24h")]
    expires: Time,
    #[command(flatten)]
    at: At,
}

/// A kind of box.
#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    /// Many disks
    Storage,
    /// Flash
    Flash,
    /// Some of each, for a site of its own
    Global,
}

impl KindArg {
    fn as_str(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Flash => "flash",
            Self::Global => "global",
        }
    }
}

impl Invite {
    /// Creates the invitation, and prints the command for the new box.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let body = json!({
            "cluster": self.cluster, "site": self.site, "region": self.region, "rack": self.rack,
            "node": self.node, "host": self.host.map(|host| host.0),
            "kind": self.kind.as_str(), "seconds": self.expires.0.as_secs(),
            "ceiling_bits_per_second": self.ceiling.map(Gbps::bits_per_second)
        });
        let answer = self.at.client()?.post("/api/v1/invites", &body).await?;
        self.at.print(&answer, report::invite);
        Ok(())
    }
}
