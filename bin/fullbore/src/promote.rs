//! `fullbore library promote`: copies of the busiest titles on a faster disk.

use crate::load::{Quantity, Time};
use crate::{say_line, status, tell};
use ::ingest::promote::{Busy, Done, Promotion};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

/// Copy the busiest titles to a faster disk, and remove copies that are no longer worth it
///
/// Asks a running server for its busiest titles. The folder for the copies must be one of the library's folders. Only titles that
/// ingest made, at the top of a folder, can be copied. A removed copy stays in the hidden folder .promoted/gone, and keeps using its
/// space, for 24 hours, so that downloads of it can finish.
#[derive(Args)]
pub(crate) struct Promote {
    /// Folder for the copies, on the faster disk
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Most bytes that copies may take, such as 800G or 1.5T; 0 removes all copies, and contacts no server
    #[arg(long, value_name = "SIZE", value_parser = room)]
    bytes: u64,
    /// Folder of the library; repeat it for each. The folder for the copies may be among them
    #[arg(long, value_name = "DIR", required = true)]
    library: Vec<PathBuf>,
    /// The server's admin address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9443")]
    status: String,
    /// A host of the site ([[sites]]) that has this library [default: the library for hosts without a site]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Repeat at this interval, such as 15m [default: run once]
    #[arg(long, value_name = "TIME")]
    every: Option<Time>,
}

impl Promote {
    /// Runs the command.
    pub(crate) fn run(self) -> ExitCode {
        let from = self.library.iter().filter(|folder| !is_same(folder, &self.to));
        let promotion =
            Promotion { to: self.to.clone(), from: from.cloned().collect(), bytes_max: self.bytes };
        let folders: Vec<_> = promotion.from.iter().chain([&promotion.to]).cloned().collect();
        if let Err(error) = catalog::check_folders(&folders) {
            tell(&error.to_string());
            return ExitCode::from(2);
        }
        if promotion.from.is_empty() {
            tell("there is nothing to copy from: name the library's other folders with --library");
            return ExitCode::from(2);
        }
        loop {
            let done = self.run_once(&promotion);
            if let Err(error) = &done {
                tell(error);
            }
            let Some(Time(pause)) = self.every else {
                return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            };
            std::thread::sleep(pause);
        }
    }

    fn run_once(&self, promotion: &Promotion) -> Result<(), String> {
        let busy = match self.bytes {
            0 => Vec::new(),
            _ => busy(&status::fetch(&self.status)?, self.host.as_deref())?,
        };
        let (mut failed, mut left) = (0, 0);
        let told = promotion.run(&busy, |done| match done {
            Done::Promoted(title) => say_line(&format!("promoted: {title}")),
            Done::TakenAway(title, why) => say_line(&format!("taken away: {title} ({why})")),
            Done::Watched(title) => {
                say_line(&format!(
                    "kept: {title} (it is being watched; taken away by a later run)"
                ));
            }
            Done::Kept(title, why) => {
                left += 1;
                tell(&format!(
                    "the copy of {title} is kept, because its title cannot be seen: {why}"
                ));
            }
            Done::Left(path, why) => {
                left += 1;
                tell(&format!("{} is left as it is: {why}", path.display()));
            }
            Done::Failed(title, why) => {
                failed += 1;
                tell(&format!("cannot promote {title}: {why}"));
            }
            Done::Skipped(title, why) => tell(&format!("note: {title} is not promoted: {why}")),
        });
        told.map_err(|error| error.to_string())?;
        match failed {
            0 if left > 0 => Err("some of what is in the folder for the copies was left".into()),
            0 => Ok(()),
            1 => Err("one title could not be promoted".into()),
            count => Err(format!("{count} titles could not be promoted")),
        }
    }
}

/// A quantity, or 0.
fn room(text: &str) -> Result<u64, <Quantity as FromStr>::Err> {
    if text == "0" { Ok(0) } else { text.parse().map(|Quantity(bytes)| bytes) }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || one.canonicalize().ok().is_some_and(|one| other.canonicalize().ok() == Some(one))
}

/// The titles in a server's status that belong to the library of `host`, or to the library for hosts without a site, with their names there.
fn busy(status: &Value, host: Option<&str>) -> Result<Vec<Busy>, String> {
    let sites = sites(status);
    let site = match host {
        Some(host) => Some(site_of(host, &sites)?),
        None => None,
    };
    let titles = status["titles"].as_array().into_iter().flatten();
    let busy = titles.filter_map(|title| {
        let told = title["title"].as_str()?;
        let of_site =
            |site: &&str| told.strip_prefix(*site).and_then(|rest| rest.strip_prefix(':'));
        let name = match site {
            Some(site) => of_site(&site)?,
            None => sites.iter().all(|hosts| of_site(&hosts[0]).is_none()).then_some(told)?,
        };
        Some(Busy {
            title: name.to_owned(),
            gbps: title["gbps_hour"].as_f64()?,
            is_watched: title["gbps"].as_f64()? > 0.0,
        })
    });
    Ok(busy.collect())
}

/// The hosts of each site in a server's status; none of the lists is empty.
fn sites(status: &Value) -> Vec<Vec<&str>> {
    let folders = status["library"].as_array().into_iter().flatten();
    let hosts = folders.filter_map(|folder| folder["hosts"].as_array());
    let names = hosts.map(|hosts| hosts.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    names.filter(|hosts| !hosts.is_empty()).collect()
}

/// The host under which the status lists the titles of `host`'s site: the site's first.
fn site_of<'a>(host: &str, sites: &[Vec<&'a str>]) -> Result<&'a str, String> {
    let is_meant = |hosts: &&Vec<&str>| hosts.iter().any(|one| one.eq_ignore_ascii_case(host));
    sites.iter().find(is_meant).map(|hosts| hosts[0]).ok_or_else(|| {
        let mut all: Vec<_> = sites.concat();
        all.sort_unstable();
        all.dedup();
        match all.is_empty() {
            true => format!("--host {host}: the server has no [[sites]]; leave --host out"),
            false => format!(
                "--host {host}: none of the server's [[sites]] has it, but they have {}",
                all.join(", ")
            ),
        }
    })
}
