//! How many viewers played without a stall, as text and as a table.

use crate::report::html::{self, Cell};
use crate::report::model::{Carried, Part, Side, Versus, median};
use crate::report::number::{THIN_SPACE, significant};

/// A sentence for each side; none for other workloads.
pub(crate) fn sentences(versus: &Versus) -> Vec<String> {
    let rate = versus.rate_bits_per_second.map(|bits| {
        let mbps = significant(bits / 1e6);
        format!(" at {mbps}{THIN_SPACE}Mb/s each")
    });
    let rate = rate.unwrap_or_default();
    let sides = versus.parts.iter().flat_map(Part::sides);
    sides
        .filter_map(|side| {
            let (name, viewers) = (side.name(), viewers(side)?);
            let why = match stopped_by(side) {
                Some(why) => format!(" Why the search ended: {why}."),
                None => String::new(),
            };
            Some(format!("{name}: {viewers} viewers played without a stall{rate}.{why}"))
        })
        .collect()
}

/// The median over the rounds. If one of them found only a lower bound, so is the median.
fn viewers(side: &Side) -> Option<String> {
    let viewers = median(side.carried().filter_map(|carried| carried.viewers))?;
    let is_least = side.carried().any(|carried| carried.at_least == Some(true));
    let viewers = significant(viewers);
    Some(if is_least { format!("at least {viewers}") } else { viewers })
}

/// Why the search ended, in the first round that found only a lower bound, or else in the first round.
fn stopped_by(side: &Side) -> Option<&str> {
    let least = side.carried().find(|carried| carried.at_least == Some(true));
    least.or_else(|| side.carried().next())?.stopped_by.as_deref()
}

/// A row for each search; empty for other workloads.
pub(crate) fn table(part: &Part) -> String {
    let rows: Vec<_> = part
        .sides()
        .iter()
        .flat_map(|side| side.carried().enumerate().map(|(index, one)| row(side, index, one)))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "side",
        "round",
        "viewers without stalls",
        "trials",
        "swarm's lag p99, ms",
        "why the search ended",
    ];
    html::table("Viewers who played without a stall", &head, &rows)
}

fn row(side: &Side, index: usize, carried: &Carried) -> Vec<Cell> {
    let least = if carried.at_least == Some(true) { "at least " } else { "" };
    vec![
        Cell::Words(side.name().to_owned()),
        Cell::Number((index + 1).to_string()),
        Cell::number(carried.viewers, |viewers| format!("{least}{}", significant(viewers))),
        Cell::number(carried.trials, significant),
        Cell::number(carried.lag_ms_p99, significant),
        Cell::words(carried.stopped_by.as_deref()),
    ]
}
