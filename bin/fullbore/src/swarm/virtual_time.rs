//! `fullbore swarm --virtual`: the same viewers in virtual time, on modelled networks and servers.

use super::Swarm;
use crate::load::Quantity;
use ::swarm::virtual_time::{self, Ceiling, Films, ServerFault, VirtualOptions, VirtualServer};
use clap::Args;
use player::options::PlayerOptions;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Few viewers wait longer than this for a picture, unless `--give-up` sets another time; an assumption.
const GIVE_UP: Duration = Duration::from_secs(60);

const TITLES: usize = 20;

#[derive(Args)]
#[command(next_help_heading = "Virtual time")]
pub(super) struct Virtual {
    /// Play films in virtual time, on modelled networks and servers: hours of thousands of viewers take seconds, and nothing is sent
    #[arg(
        long = "virtual",
        conflicts_with_all = ["urls", "also_at", "sources", "cmcd", "insecure", "ca", "no_resume", "course"]
    )]
    pub(super) is_virtual: bool,
    /// Number of titles [default: 20]
    #[arg(long, value_name = "N")]
    titles: Option<usize>,
    /// Number of servers [default: 1]
    #[arg(long, value_name = "N")]
    servers: Option<usize>,
    /// How many of the servers each viewer's manifest names [default: all]
    #[arg(long, value_name = "N")]
    pathways: Option<usize>,
    /// Failures, such as 1:dead@20m, 2:slow=200k@5m-10m, 3:silent, 1:status=503@1m, all:missing=17, all:wrong-length=17
    #[arg(long, value_name = "SERVER:FAULT")]
    fault: Vec<ServerFault>,
    /// Draw a bad evening from the seed: one server slows down to 200 kb/s per connection for a while, another dies
    #[arg(long)]
    bad_evening: bool,
    /// Most bits per second that each server sends, to all viewers together
    #[arg(long, value_name = "RATE")]
    server_rate: Option<Quantity>,
}

impl Virtual {
    /// Whether any option was given that applies only to virtual time.
    pub(super) fn is_needed(&self) -> bool {
        let counts = [self.titles, self.servers, self.pathways];
        let has_count = counts.iter().any(Option::is_some);
        has_count || self.bad_evening || !self.fault.is_empty() || self.server_rate.is_some()
    }
}

impl Swarm {
    /// Runs the viewers in virtual time and prints what they saw.
    pub(super) fn run_virtual(&self) -> ExitCode {
        let options = self.virtual_options();
        let began = Instant::now();
        let outcome = match virtual_time::run(&options) {
            Ok(outcome) => outcome,
            Err(what) => return super::fail(2, &what.to_string()),
        };
        if let Err(what) = self.write(&outcome.to_json()) {
            return super::fail(1, &what);
        }
        crate::say(&outcome.describe());
        // The figures above depend only on the options; this one does not.
        if io::stderr().is_terminal() {
            crate::tell(&format!("{:.1} s of real time", began.elapsed().as_secs_f64()));
        }
        ExitCode::SUCCESS
    }

    fn virtual_options(&self) -> VirtualOptions {
        let given = &self.virtual_time;
        let servers = given.servers.unwrap_or(1);
        let ceiling =
            given.server_rate.map_or(Ceiling::None, |rate| Ceiling::Shared(rate.0 as f64));
        let mut faults = given.fault.clone();
        if given.bad_evening {
            faults.extend(ServerFault::evening(self.seed, servers, self.duration.0));
        }
        let mut crowd = self.crowd();
        crowd.titles = given.titles.unwrap_or(TITLES);
        VirtualOptions {
            crowd,
            duration: self.duration.0,
            servers: vec![VirtualServer { ceiling, ..VirtualServer::default() }; servers],
            pathways: given.pathways.unwrap_or(servers),
            faults,
            films: Films { duration: self.title_length(), ..Films::default() },
            player: PlayerOptions {
                rule: self.rule,
                buffer_max: self.buffer.0,
                patience: self.patience.0,
                give_up_after: Some(self.give_up.map_or(GIVE_UP, |give_up| give_up.0)),
                ..PlayerOptions::default()
            },
            threads: self.threads.unwrap_or_else(crate::load::cpus_allowed),
        }
    }
}
