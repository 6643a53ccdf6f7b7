//! `fullbore join`: makes this box a node of a fleet.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fleet_protocol::Name;
use identity::InvitationToken;
use node::joining::{Joined, Wish, clock_words, join};
use serde_json::json;

use crate::bad_value::BadValue;
use crate::host::Host;
use crate::{say_line, tell};

/// Make this box a node of a fleet
///
/// `fullbore control invite` prints this command with its addresses and its token. The box creates a key, which never leaves it, and gets
/// a certificate, which it then renews by itself.
#[derive(Args)]
#[command(after_help = "Example:\n  fullbore join https://gateway.example:8702 --token TOKEN \
    --state /var/lib/fullbore --host box1.example\n  fullbore node --state /var/lib/fullbore --library /srv/library")]
pub(crate) struct Join {
    /// Addresses of gateways; the first that answers is used
    #[arg(value_name = "https://HOST:PORT", required = true, num_args = 1..=5)]
    gateways: Vec<GatewayAddress>,
    /// Token of the invitation
    #[arg(long, value_name = "TOKEN")]
    token: InvitationToken,
    /// Folder for the key, the certificate and the box's copy of fleet state; created if missing
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Host name or address by which viewers reach this box
    #[arg(long, value_name = "HOST")]
    host: Host,
    /// Name of the node: lower-case letters, digits and hyphens [default: this machine's host name]
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// Most that this box may send, in Gb/s [default: 90% of its network links' capacity]
    #[arg(long, value_name = "GBPS")]
    ceiling: Option<Gbps>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An address of a gateway.
#[derive(Clone, Debug)]
struct GatewayAddress(String);

impl std::str::FromStr for GatewayAddress {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let address = text.trim_end_matches('/').to_owned();
        match fleet_protocol::check_gateways(std::slice::from_ref(&address)) {
            Ok(()) => Ok(Self(address)),
            Err(_) => {
                Err(BadValue::new(text, "a gateway's address, such as https://192.0.2.1:8702"))
            }
        }
    }
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gbps(f64);

impl std::str::FromStr for Gbps {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        // 100 Tb/s: more than any machine sends.
        let rate = text.parse().ok().filter(|rate| (0.001..=100_000.0).contains(rate));
        rate.map(Self).ok_or_else(|| BadValue::new(text, "a rate in Gb/s, such as 10 or 0.5"))
    }
}

impl Gbps {
    pub(crate) fn bits_per_second(self) -> u64 {
        (self.0 * 1e9) as u64
    }
}

impl Join {
    /// Joins, and prints the node's name and place.
    pub(crate) fn run(self) -> ExitCode {
        let Some(node) = self.name.or_else(own_name) else {
            tell("this machine's host name cannot be a node's name: choose one with --name");
            return ExitCode::from(2);
        };
        let ceiling_bits_per_second = self.ceiling.map_or(0, Gbps::bits_per_second);
        let wish = Wish { node, host: self.host.0, ceiling_bits_per_second };
        let gateways: Vec<_> = self.gateways.into_iter().map(|gateway| gateway.0).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let joined = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
            let joining = join(&gateways, &self.token, wish, &self.state);
            runtime.block_on(joining).map_err(|error| error.to_string())
        });
        match joined {
            Ok(joined) => {
                if let Some(ahead) = joined.clock_ahead_millis {
                    tell(&format!("{}: check the time service of both", clock_words(ahead)));
                }
                say_line(&if self.json { as_json(&joined) } else { as_text(&joined, &self.state) });
                ExitCode::SUCCESS
            }
            Err(why) => {
                tell(&why);
                ExitCode::FAILURE
            }
        }
    }
}

/// The first label of the machine's host name.
fn own_name() -> Option<Name> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    name.trim().split('.').next()?.to_ascii_lowercase().parse().ok()
}

fn as_text(joined: &Joined, state: &Path) -> String {
    let own = &joined.membership;
    format!(
        "{} has joined: cluster {} at site {}. Start it with: fullbore node --state {} --library DIR",
        own.node,
        own.place.cluster,
        own.place.site,
        state.display()
    )
}

fn as_json(joined: &Joined) -> String {
    let own = &joined.membership;
    let told = json!({
        "version": 1,
        "kind": "join",
        "node": own.node,
        "site": own.place.site,
        "cluster": own.place.cluster,
        "node_kind": own.kind,
        "gateways": own.keys.gateways,
        "clock_ahead_millis": joined.clock_ahead_millis,
    });
    told.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_gateways() {
        let address = |text: &str| text.parse::<GatewayAddress>().ok().map(|address| address.0);
        assert_eq!(address("https://a:8702/"), Some("https://a:8702".to_owned()));
        for bad in ["", "a:8702", "http://a:8702", "https://a/b"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_ceiling_is_a_rate() {
        let rate = |text: &str| text.parse::<Gbps>().ok().map(Gbps::bits_per_second);
        assert_eq!(rate("10"), Some(10_000_000_000));
        assert_eq!(rate("0.5"), Some(500_000_000));
        for bad in ["", "0", "-1", "NaN", "inf", "10G", "1e9"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
    }
}
