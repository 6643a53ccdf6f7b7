//! The machine on which everything was measured.

use super::{Section, Slugs};
use crate::report::html;
use crate::report::model::Versus;
use crate::report::number::{THIN_SPACE, bytes, significant};
use crate::report::section::versus::versions;
use crate::report::source::Source;
use serde_json::{Map, Value};
use std::time::{Duration, SystemTime};

/// Members that may differ between files from the same machine.
const CHANGING: [&str; 2] = ["measured_unix_seconds", "congestion_control"];

/// Each machine once, with its files. More than one is a warning: figures of different machines must not be compared.
pub(crate) fn section(sources: &[Source], runs: &[&Versus], slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("machine"), "The machine");
    let machines = machines(sources);
    if machines.is_empty() {
        section.push(&html::paragraph(
            "warning",
            "None of the files names the machine that it was measured on.",
        ));
    }
    if machines.len() > 1 {
        section.push(&html::paragraph(
            "warning",
            "These files come from more than one machine, or from one that changed in between: compare figures only within a machine.",
        ));
    }
    for (machine, files) in &machines {
        if machines.len() > 1 {
            section.push(&html::heading(3, &files.join(", ")));
        }
        section.push(&html::definitions(&pairs(machine)));
    }
    let versions = versions(runs);
    if !versions.is_empty() {
        section.push(&html::heading(3, "Servers"));
        section.push(&html::list(&versions));
    }
    section
}

/// A name for the title.
pub(crate) fn name(sources: &[Source]) -> Option<String> {
    let machine = sources.iter().find_map(|source| source.raw["machine"].as_object())?;
    // Without the part in brackets, which the list shows.
    let name = machine.get("cpu")?.as_str()?;
    Some(name.split(" (").next().unwrap_or(name).to_owned())
}

/// The date of the latest measurement.
pub(crate) fn date(sources: &[Source]) -> Option<String> {
    let seconds = sources
        .iter()
        .filter_map(|source| source.raw["machine"]["measured_unix_seconds"].as_u64())
        .max()?;
    // At most year 9999, the last that the date format can express.
    let time =
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(253_402_300_799)))?;
    let text = httpdate::fmt_http_date(time);
    // `Sun, 06 Nov 1994 08:49:37 GMT`: the day is enough.
    text.get(5..16).map(|day| day.trim_start_matches('0').to_owned())
}

type Described<'a> = (Map<String, Value>, Vec<&'a str>);

fn machines(sources: &[Source]) -> Vec<Described<'_>> {
    let mut machines: Vec<Described<'_>> = Vec::new();
    for source in sources {
        let Some(machine) = source.raw["machine"].as_object() else { continue };
        let kept = machine.iter().filter(|(name, _)| !CHANGING.contains(&name.as_str()));
        let kept: Map<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        match machines.iter_mut().find(|(known, _)| *known == kept) {
            Some((_, files)) => files.push(&source.file),
            None => machines.push((kept, vec![&source.file])),
        }
    }
    machines
}

fn pairs(machine: &Map<String, Value>) -> Vec<(&'static str, String)> {
    let text = |name: &str| machine.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str| machine.get(name).and_then(Value::as_f64);
    let size = |name: &str| number(name).map(bytes);
    let cores = number("cores").map(|cores| {
        let quota = number("cpu_quota")
            .map(|quota| format!(", of which a quota grants {}", significant(quota)));
        format!("{cores}{}", quota.unwrap_or_default())
    });
    let shared =
        number("l3_shared_by").map(|count| format!(" shared by {count}")).unwrap_or_default();
    let caches = [
        size("l1d_bytes").map(|size| format!("L1d {size}")),
        size("l2_bytes").map(|size| format!("L2 {size}")),
        size("l3_bytes").map(|size| format!("L3 {size}{shared}")),
    ];
    let caches: Vec<_> = caches.into_iter().flatten().collect();
    let memory = size("memory_bytes").map(|memory| {
        let limit =
            size("memory_limit_bytes").map(|limit| format!(", of which a limit grants {limit}"));
        format!("{memory}{}", limit.unwrap_or_default())
    });
    let kernel_tls = machine
        .get("kernel_tls")
        .and_then(Value::as_bool)
        .map(|has| if has { "yes" } else { "no" }.to_owned());
    let untold = || "not reported by the kernel".to_owned();
    vec![
        ("CPU", text("cpu").unwrap_or_else(untold)),
        ("Architecture", text("architecture").unwrap_or_else(untold)),
        ("Cores that may be used", cores.unwrap_or_else(untold)),
        ("Instructions for sealing", features(machine)),
        (
            "Caches of a core",
            if caches.is_empty() { untold() } else { caches.join(&format!(",{THIN_SPACE} ")) },
        ),
        ("Memory", memory.unwrap_or_else(untold)),
        ("Linux", text("kernel").unwrap_or_else(untold)),
        ("Kernel TLS", kernel_tls.unwrap_or_else(untold)),
        ("Fullbore", text("fullbore").unwrap_or_else(|| "version unknown".to_owned())),
    ]
}

fn features(machine: &Map<String, Value>) -> String {
    let names = machine.get("cpu_features").and_then(Value::as_array);
    let names: Vec<_> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "none known".to_owned() } else { names.join(", ") }
}
