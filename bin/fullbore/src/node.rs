//! `fullbore node`: the agent of a box in a fleet.

mod edge_on_box;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fleet_protocol::OriginRoot;
use identity::Credentials;
use node::beating::{self, BeatingOptions};
use node::bird::{self, BirdOptions};
use node::joining::Membership;
use node::{Agent, AgentOptions, EdgeServer, FillWindow, answer, ceiling_of_links};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tls::client::Trust;

use self::edge_on_box::EdgeOnBox;
use crate::bad_value::{self, BadValue};
use crate::join::Gbps;
use crate::{say_started, tell};

/// How often the agent reports views to the gateways.
const REPORT: Duration = Duration::from_secs(60);

/// Run a node of a fleet: serve, copy titles, report
///
/// Starts `fullbore serve` next to itself, or finds the one that it started earlier, and restarts it if it ends. If this
/// command is killed, the server keeps serving. On SIGTERM both end, the server after its viewers' responses.
///
/// Join the fleet first, with the command that `fullbore control invite` prints.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore node --state /var/lib/fullbore --library /srv/video\n  \
    fullbore node --state DIR --library /disk0 --library /disk1 -- --cert fullchain.pem --key privkey.pem\n\n\
    agent.json in the state folder has the box's state, updated every second."
)]
pub(crate) struct Node {
    /// Folder that `fullbore join` made; the agent also keeps its copy of fleet state, and its server's state and log, there
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The library, which the agent fills; can be repeated, once for each disk
    #[arg(long, value_name = "DIR", required = true)]
    library: Vec<PathBuf>,
    /// Copy titles only in this part of the day, such as "02:00-12:00 Europe/Berlin"; can be repeated [default: all day]
    #[arg(long, value_name = "WINDOW")]
    window: Vec<FillWindow>,
    /// Rate limit for copying and checking titles, in bits per second, such as 800M or 2.5G; 0 means no limit
    #[arg(long, value_name = "RATE", default_value = "800M")]
    fill_rate: FillRate,
    /// Most bytes to copy in one window, or in a day if there is none, such as 500G or 6.5T [default: no limit]
    #[arg(long, value_name = "BYTES")]
    fill_max: Option<FillMax>,
    /// Seconds to wait for each node of the cluster that is due to fetch a title first, on top of the time that the fetch takes
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    fill_wait: Amount,
    /// Copy titles only from this origin (the address of a folder, a bucket or a web server) and from paths below it; can be repeated [default: any
    /// folder, and any bucket at the server that AWS_ENDPOINT_URL names or at Amazon's]
    #[arg(long, value_name = "URL")]
    origin: Vec<OriginRoot>,
    /// Hours within which every title is re-read and compared with its SHA-256
    #[arg(long, value_name = "HOURS", default_value = "168")]
    scrub_hours: Amount,
    /// Seconds to keep a title that the plan has moved to other nodes, after viewers were asked to leave
    #[arg(long, value_name = "SECONDS", default_value = "120")]
    evict_after: Amount,
    /// Most that this box may send, in Gb/s [default: the rate set at join, or 90% of its network links' capacity]
    #[arg(long, value_name = "GBPS")]
    ceiling: Option<Gbps>,
    /// Answer viewers on this address as a gateway does, from the latest snapshot of the fleet
    #[arg(long, value_name = "ADDR:PORT", value_parser = bad_value::address)]
    answers: Option<SocketAddr>,
    /// Configuration file of a caching edge on this box, which runs as the same user: have it carry out the fleet's purges
    #[arg(long, value_name = "FILE")]
    edge: Option<PathBuf>,
    /// Control socket of BIRD on this box: report the prefixes that the site's network reaches to the fleet
    #[arg(long, value_name = "SOCKET")]
    bird: Option<PathBuf>,
    /// BIRD routing table to read; can be repeated [default: master4 and master6]
    #[arg(long, value_name = "NAME", requires = "bird")]
    bird_table: Vec<TableName>,
    /// More flags for `fullbore serve` [default: `--listen [::]:8443 --admin 127.0.0.1:8444`]
    #[arg(last = true, value_name = "SERVE FLAGS")]
    serve: Vec<String>,
}

/// A number that is not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Amount(f64);

impl std::str::FromStr for Amount {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let number = text.parse().ok().filter(|number| (0.0..=1e9).contains(number));
        number.map(Self).ok_or_else(|| BadValue::new(text, "a number from 0 to 1,000,000,000"))
    }
}

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FillRate(u64);

impl std::str::FromStr for FillRate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
        let unit = units.iter().find_map(|(unit, many)| Some((text.strip_suffix(unit)?, *many)));
        let (number, many) = unit.unwrap_or((text, 1.0));
        let rate = number.parse::<f64>().ok().map(|number| number * many);
        // 100 Tb/s is more than any machine receives. A copy at less than 8 kb/s would take forever.
        let rate = rate.filter(|rate| *rate == 0.0 || (8e3..=1e14).contains(rate));
        let wanted = "a rate in bits per second, such as 800M or 2.5G, or 0";
        rate.map(|rate| Self(rate as u64)).ok_or_else(|| BadValue::new(text, wanted))
    }
}

/// Bytes that may be copied in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FillMax(u64);

impl std::str::FromStr for FillMax {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let units = [("M", 1e6), ("G", 1e9), ("T", 1e12)];
        let unit = units.iter().find_map(|(unit, many)| Some((text.strip_suffix(unit)?, *many)));
        let (number, many) = unit.unwrap_or((text, 1.0));
        let bytes = number.parse::<f64>().ok().map(|number| number * many);
        // A limit below the size of a block would never allow a copy.
        let bytes = bytes.filter(|bytes| (4e6..=1e18).contains(bytes));
        let wanted = "bytes, such as 500G or 6.5T, and 4M at least";
        bytes.map(|bytes| Self(bytes as u64)).ok_or_else(|| BadValue::new(text, wanted))
    }
}

/// The name of a routing table in bird.conf.
#[derive(Clone, Debug, PartialEq)]
struct TableName(String);

impl std::str::FromStr for TableName {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        // It becomes part of a command to BIRD, so it must not contain anything else.
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let fits = (1..=63).contains(&text.len()) && text.bytes().all(is_word);
        let wanted = "a table's name in bird.conf, of letters, digits and _";
        if fits { Ok(Self(text.to_owned())) } else { Err(BadValue::new(text, wanted)) }
    }
}

impl Node {
    /// Runs until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        match self.work() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                tell(&why);
                ExitCode::FAILURE
            }
        }
    }

    fn work(self) -> Result<(), String> {
        // Otherwise the server would refuse them, again and again.
        catalog::check_folders(&self.library).map_err(|error| error.to_string())?;
        let membership = Membership::read(&self.state).map_err(|error| error.to_string())?;
        let membership = membership.ok_or_else(|| {
            format!(
                "{} is not a node's state folder: join a fleet first, with the command that `fullbore control invite` prints",
                self.state.display()
            )
        })?;
        let credentials = Credentials::read(&self.state).map_err(|error| error.to_string())?;
        // Before any thread starts, because threads inherit signal handling.
        let mut signals = Signals::new([SIGTERM, SIGINT])
            .map_err(|error| format!("cannot handle signals: {error}"))?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
        let agent = Agent::start(self.options(&membership)?).map_err(|error| error.to_string())?;
        say_started(&format!("node      {}\n", membership.node));
        let begun = runtime.block_on(self.begin(&agent, membership, credentials));
        if begun.is_ok() {
            signals.forever().next();
        }
        agent.stop();
        begun.map(drop)
    }

    /// Starts sending heartbeats, and answering viewers if --answers is set.
    async fn begin(
        &self,
        agent: &Arc<Agent>,
        membership: Membership,
        credentials: Credentials,
    ) -> Result<impl Sized, String> {
        let answering = match self.answers {
            Some(address) => Some(answer(Arc::clone(agent), &self.state, address).await?),
            None => None,
        };
        if let Some(answering) = &answering {
            say_started(&format!("answers   http://{}/\n", answering.address));
        }
        let state = Arc::clone(agent);
        let routes = self.bird.as_ref().map(|socket| {
            let tables = self.bird_table.iter().map(|table| table.0.clone()).collect();
            bird::watch(BirdOptions { socket: socket.clone(), tables })
        });
        if let Some(readings) = &routes {
            agent.show_bird(readings.clone());
        }
        let options = BeatingOptions { routes, ..BeatingOptions::default() };
        let beating = beating::start(membership, credentials, self.state.clone(), state, options)?;
        Ok((answering, beating))
    }

    /// The most that the box may send: from --ceiling, from joining, or from its network links.
    fn ceiling(&self, membership: &Membership) -> u64 {
        let joined = Some(membership.ceiling_bits_per_second).filter(|ceiling| *ceiling > 0);
        self.ceiling.map(Gbps::bits_per_second).or(joined).unwrap_or_else(|| {
            let (ceiling, line) = ceiling_of_links();
            tell(&line);
            ceiling
        })
    }

    fn options(&self, membership: &Membership) -> Result<AgentOptions, String> {
        let program = std::env::current_exe();
        let edge = self.edge.as_deref().map(EdgeOnBox::of).transpose()?;
        Ok(AgentOptions {
            node: membership.node.clone(),
            state: self.state.clone(),
            libraries: self.library.clone(),
            copy_bytes_per_second: self.fill_rate.0 / 8,
            windows: self.window.clone(),
            fill_bytes_max: self.fill_max.map_or(0, |FillMax(bytes)| bytes),
            fill_wait: Duration::from_secs_f64(self.fill_wait.0),
            scrub: Duration::from_secs_f64(self.scrub_hours.0 * 3600.0),
            evict_after: Duration::from_secs_f64(self.evict_after.0),
            report: REPORT,
            ceiling_bits_per_second: self.ceiling(membership),
            snapshot_keys: membership.keys.snapshots.clone(),
            viewer_keys: membership.keys.tokens.clone(),
            origins: self.origin.clone(),
            trust: Trust::System,
            host: membership.host.clone(),
            edge: edge.map(|edge| Arc::new(edge) as Arc<dyn EdgeServer>),
            program: program.map_err(|error| format!("cannot find this program: {error}"))?,
            serve_flags: self.serve.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, FillMax, FillRate, TableName};

    #[test]
    fn amounts_are_not_negative() {
        assert_eq!("0.5".parse::<Amount>().ok(), Some(Amount(0.5)));
        for bad in ["", "-1", "NaN", "inf", "1e10"] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_in_bits_per_second() {
        for (text, bits) in [("0", 0), ("800M", 800_000_000), ("2.5G", 2_500_000_000), ("9k", 9000)]
        {
            assert_eq!(text.parse::<FillRate>().ok(), Some(FillRate(bits)), "{text}");
        }
        for bad in ["", "M", "-1M", "1", "1T", "NaNG", "infG", "800 M", "1e15"] {
            assert!(bad.parse::<FillRate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_windows_volume_is_in_bytes() {
        for (text, bytes) in
            [("500G", 500_000_000_000), ("6.5T", 6_500_000_000_000), ("4e6", 4_000_000)]
        {
            assert_eq!(text.parse::<FillMax>().ok(), Some(FillMax(bytes)), "{text}");
        }
        for bad in ["", "0", "3M", "-1G", "NaN", "1e19", "5 G"] {
            assert!(bad.parse::<FillMax>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_table_s_name_is_a_word() {
        assert_eq!("viewers_4".parse::<TableName>().ok(), Some(TableName("viewers_4".into())));
        for bad in ["", "a b", "a\nconfigure", "a;b", "\"a\"", &"x".repeat(64)] {
            assert!(bad.parse::<TableName>().is_err(), "{bad}");
        }
    }
}
