//! The viewers' experience, as text for a terminal.

use super::spread::PERCENTS;
use super::{Outcome, SessionGroup, Spread};
use std::collections::BTreeMap;
use std::fmt::{Result, Write};

/// Only this many pathways or titles are shown. The JSON has all.
const LINES_MAX: usize = 10;

pub(crate) fn describe(outcome: &Outcome) -> String {
    let mut text = String::new();
    write_all(&mut text, outcome).expect("writing to a string cannot fail");
    text
}

fn write_all(text: &mut String, outcome: &Outcome) -> Result {
    let all = &outcome.all;
    writeln!(
        text,
        "{} sessions: {} started, {} without a stall ({}), {} gave up",
        all.sessions,
        all.started,
        all.without_stall,
        percent(all.smooth_share()),
        all.gave_up
    )?;
    write_table(text, all)?;
    writeln!(
        text,
        "  played {:.1} h, stalled {:.1} s: {} of the time",
        outcome.played.seconds() / 3600.0,
        outcome.stalled.seconds(),
        percent(outcome.stall_ratio())
    )?;
    writeln!(
        text,
        "  {:.3} GB, of which probes {}",
        outcome.bytes as f64 / 1e9,
        percent(outcome.probe_share())
    )?;
    outcome.live.write(text)?;
    write_counts(text, "stalls", outcome.stalls.by_reason())?;
    write_counts(text, "gave up", counts(&outcome.gave_up))?;
    if outcome.skips > 0 {
        writeln!(text, "  parts of films skipped, because they were missing: {}", outcome.skips)?;
    }
    write_counts(text, "failures", counts(&outcome.failures))?;
    write_counts(text, "moves", counts(&outcome.moves))?;
    write_pathways(text, outcome)?;
    write_titles(text, outcome)
}

fn write_table(text: &mut String, group: &SessionGroup) -> Result {
    write!(text, "  {:<21}", "")?;
    for percent in PERCENTS {
        write!(text, "{:>9}", format!("p{percent}"))?;
    }
    writeln!(text, "{:>9}", "mean")?;
    let names = [
        "play delay, s",
        "stall ratio, %",
        "stalls per hour",
        "bit rate, Mb/s",
        "switches",
        "wait after a seek, s",
        "to quality, s",
        "latency, s",
    ];
    for (name, (key, spread)) in names.into_iter().zip(group.spreads()) {
        // Films have none.
        if key == "latency_seconds" && spread.count() == 0 {
            continue;
        }
        let factor = if key == "stall_ratio" { 100.0 } else { 1.0 };
        write_row(text, name, spread, factor)?;
    }
    Ok(())
}

fn write_row(text: &mut String, name: &str, spread: &Spread, factor: f64) -> Result {
    write!(text, "  {name:<21}")?;
    let values = PERCENTS.map(|percent| spread.percentile(percent)).into_iter();
    for value in values.chain([spread.mean()]) {
        match value {
            Some(value) => write!(text, "{:>9.2}", value * factor)?,
            None => write!(text, "{:>9}", "-")?,
        }
    }
    writeln!(text)
}

fn counts(map: &BTreeMap<&'static str, u64>) -> impl Iterator<Item = (&'static str, u64)> {
    map.iter().map(|(name, count)| (*name, *count))
}

/// Writes a line such as `  stalls 12: 7 slow_network, 5 silence`.
fn write_counts<'a>(
    text: &mut String,
    name: &str,
    counts: impl Iterator<Item = (&'a str, u64)>,
) -> Result {
    let counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
    let sum: u64 = counts.iter().map(|(_, count)| count).sum();
    let parts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    writeln!(text, "  {name} {sum}{colon}{}", parts.join(", "))
}

fn write_pathways(text: &mut String, outcome: &Outcome) -> Result {
    for (name, pathway) in outcome.pathways.iter().take(LINES_MAX) {
        writeln!(
            text,
            "  pathway {name}: {:.3} GB, most bytes of {} sessions ({} without a stall), {} stalls",
            pathway.bytes as f64 / 1e9,
            pathway.group.sessions,
            percent(pathway.group.smooth_share()),
            pathway.stalls
        )?;
        if let Some(segments) = pathway.segments_elsewhere_min {
            writeln!(
                text,
                "    left by {} of {}, who had at least {segments} segments elsewhere",
                pathway.left, pathway.used
            )?;
        }
    }
    Ok(())
}

fn write_titles(text: &mut String, outcome: &Outcome) -> Result {
    if outcome.titles.len() < 2 {
        return Ok(());
    }
    for (title, group) in outcome.titles.iter().take(LINES_MAX) {
        writeln!(
            text,
            "  title {}: {} sessions, {} without a stall, {:.2} Mb/s",
            title + 1,
            group.sessions,
            percent(group.smooth_share()),
            group.mbps.mean().unwrap_or(0.0)
        )?;
    }
    if outcome.titles.len() > LINES_MAX {
        writeln!(text, "  and {} more titles", outcome.titles.len() - LINES_MAX)?;
    }
    Ok(())
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.3}%", share * 100.0))
}
