//! Commands that place titles: plans, pins, and the placement policy.

use std::num::NonZeroU16;

use clap::Args;
use serde_json::{Map, Value, json};

use super::ask::{At, CopiesAt};
use super::{Failed, plan_report};
use crate::bad_value::{self, BadValue};

/// Show the placement policy, or change it from the next plan on
///
/// Without a flag it only prints. Sizes are bytes, or end in GB or TB. Nodes of one site get titles in proportion to their ceilings (node --ceiling).
#[derive(Args)]
pub(super) struct Placement {
    /// Copies of each title, each in a different failure domain
    #[arg(long, value_name = "COUNT", value_parser = bad_value::copies)]
    floor_copies: Option<NonZeroU16>,
    /// Most bytes that one plan may move, such as 2TB; none moves as many as are worth it
    #[arg(long, value_name = "SIZE", value_parser = bound)]
    churn_max: Option<Bound>,
    /// Share of a region's titles that storage nodes take for demand, the most requested first, in thousandths
    #[arg(long, value_name = "PERMILLE", value_parser = clap::value_parser!(u16).range(0..=1000))]
    storage_cut_off: Option<u16>,
    /// The same for flash nodes
    #[arg(long, value_name = "PERMILLE", value_parser = clap::value_parser!(u16).range(0..=1000))]
    flash_cut_off: Option<u16>,
    /// The same for global nodes
    #[arg(long, value_name = "PERMILLE", value_parser = clap::value_parser!(u16).range(0..=1000))]
    global_cut_off: Option<u16>,
    /// Share of its bytes that a move for demand must be expected to serve in a day, in thousandths
    #[arg(long, value_name = "PERMILLE")]
    worth: Option<u32>,
    /// Value that a move must have relative to what it displaces, in thousandths, at least 1000
    #[arg(long, value_name = "PERMILLE")]
    margin: Option<u32>,
    /// Value of each further copy at a site relative to the first, in thousandths
    #[arg(long, value_name = "PERMILLE")]
    further: Option<u32>,
    /// Group titles with fewer starts than this in a region with the rest
    #[arg(long, value_name = "COUNT")]
    starts_min: Option<u64>,
    #[command(flatten)]
    at: At,
}

/// A limit in bytes, or `none` for as many as are worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound(Option<u64>);

fn bound(text: &str) -> Result<Bound, BadValue> {
    if text == "none" {
        return Ok(Bound(None));
    }
    let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("", 1)];
    let unit = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let bytes = unit.and_then(|(count, unit)| count.parse::<u64>().ok()?.checked_mul(*unit));
    let bytes = bytes.ok_or_else(|| BadValue::new(text, "bytes, such as 500GB or 2TB, or none"))?;
    Ok(Bound(Some(bytes)))
}

impl Placement {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let client = self.at.client()?;
        let mut policy = client.get("/api/v1/placement", &[]).await?;
        if self.change(&mut policy) {
            let body: Map<String, Value> = policy.as_object().cloned().unwrap_or_default();
            let body = body.into_iter().filter(|(name, _)| name != "version").collect();
            policy = client.put("/api/v1/placement", &Value::Object(body)).await?;
        }
        self.at.print(&policy, |policy| {
            let next = "From the next plan on; see what it would move with: fullbore control plan --dry-run";
            format!("{}{next}\n", plan_report::policy(policy))
        });
        Ok(())
    }

    /// Applies the flags to `policy`. Returns whether there were any.
    fn change(&self, policy: &mut Value) -> bool {
        let whole = |value: Option<u32>| value.map(Value::from);
        let changes = [
            ("/floor_copies", self.floor_copies.map(|copies| Value::from(copies.get()))),
            ("/churn_bytes_max", self.churn_max.map(|Bound(bytes)| Value::from(bytes))),
            ("/cut_offs/storage_permille", self.storage_cut_off.map(Value::from)),
            ("/cut_offs/flash_permille", self.flash_cut_off.map(Value::from)),
            ("/cut_offs/global_permille", self.global_cut_off.map(Value::from)),
            ("/worth_permille", whole(self.worth)),
            ("/margin_permille", whole(self.margin)),
            ("/further_permille", whole(self.further)),
            ("/starts_min", self.starts_min.map(Value::from)),
        ];
        let mut is_changed = false;
        for (place, value) in changes {
            if let (Some(value), Some(own)) = (value, policy.pointer_mut(place)) {
                *own = value;
                is_changed = true;
            }
        }
        is_changed
    }
}

pub(super) async fn plan(apply: bool, everything: bool, moves: u16, at: &At) -> Result<(), Failed> {
    let client = at.client()?;
    if everything {
        let answer = client.post("/api/v1/plan/undo", &json!({})).await?;
        at.print(&answer, plan_report::undone);
        return Ok(());
    }
    let answer = match apply {
        true => client.post("/api/v1/plan/apply", &json!({ "moves": moves })).await?,
        false => client.get("/api/v1/plan", &[("moves", moves.to_string())]).await?,
    };
    at.print(&answer, |answer| plan_report::plan(answer, apply));
    Ok(())
}

/// Pins a title, everywhere or at the given regions and sites.
pub(super) async fn pin(
    title: &str,
    everywhere: Option<NonZeroU16>,
    at_places: [(&str, Vec<CopiesAt>); 2],
    at: &At,
) -> Result<Value, Failed> {
    let everywhere = everywhere.map(|copies| json!({ "scope": "everywhere", "copies": copies }));
    let mut pins: Vec<Value> = everywhere.into_iter().collect();
    for (scope, places) in at_places {
        let pin = |CopiesAt(name, copies)| json!({ "scope": { scope: name }, "copies": copies });
        pins.extend(places.into_iter().map(pin));
    }
    let body = json!({ "title": title, "pins": pins });
    Ok(at.client()?.post("/api/v1/titles/pin", &body).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_sizes_or_none() {
        assert_eq!(bound("none").ok(), Some(Bound(None)));
        assert_eq!(bound("2TB").ok(), Some(Bound(Some(2_000_000_000_000))));
        assert_eq!(bound("500GB").ok(), Some(Bound(Some(500_000_000_000))));
        assert_eq!(bound("7").ok(), Some(Bound(Some(7))));
        for bad in ["", "2 TB", "TB", "-1", "1.5TB", "99999999999TB"] {
            assert!(bound(bad).is_err(), "{bad}");
        }
    }
}
