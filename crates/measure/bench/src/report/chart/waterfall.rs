//! The worth of each optimisation: bars from the baseline down (or up) to what is left without it.
//!
//! Each is switched off alone, so all losses start from the same line and do not add up. The axis is relative to each workload's own
//! baseline, so that Netflix's rows, from a machine of another size, can be marked next to ours.

use super::{Chart, Layout, longest};
use crate::report::model::{Ablate, AblateRow};
use crate::report::number::percent;
use crate::report::scale::Scale;
use crate::report::svg::Svg;

const BAR: f64 = 18.0;

/// Rows that have a ratio, by workload in the file's order, largest loss first.
pub(crate) fn groups(ablate: &Ablate) -> Vec<(&str, Vec<&AblateRow>)> {
    let mut groups: Vec<(&str, Vec<&AblateRow>)> = Vec::new();
    for row in ablate.rows.iter().flatten().filter(|row| row.ratio().is_some()) {
        match groups.iter_mut().find(|(work, _)| *work == row.workload()) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((row.workload(), vec![row])),
        }
    }
    for (_, rows) in &mut groups {
        rows.sort_by(|a, b| a.ratio().unwrap_or(0.0).total_cmp(&b.ratio().unwrap_or(0.0)));
    }
    groups
}

/// A change as `−38 %`.
pub(crate) fn change(ratio: f64) -> String {
    let percent = percent((ratio - 1.0).abs());
    match ratio {
        ratio if ratio < 1.0 => format!("−{percent}"),
        _ => format!("+{percent}"),
    }
}

/// `None` if nothing was measured.
pub(crate) fn chart(slug: &str, ablate: &Ablate) -> Option<Chart> {
    let groups = groups(ablate);
    if groups.is_empty() {
        return None;
    }
    let said: Vec<_> = groups
        .iter()
        .flat_map(|(work, rows)| rows.iter().map(move |row| (work, row)))
        .map(|(work, row)| {
            format!("{work} without {} {}", row.switch(), change(row.ratio().unwrap_or(1.0)))
        })
        .collect();
    let title = "What each optimisation is worth";
    Some(Chart::new(slug, title, &said.join(", "), |width| draw(width, &groups)))
}

fn draw(width: f64, groups: &[(&str, Vec<&AblateRow>)]) -> Svg {
    let rows = || groups.iter().flat_map(|(_, rows)| rows);
    let labels = longest(rows().map(|row| row.switch())) + 8;
    let mut layout = Layout::new(width, labels.clamp(12, 26), 8);
    let count = rows().count() + groups.len();
    let mut svg = Svg::new(width, layout.height(count, groups.len()));
    let seeds = rows().filter_map(|row| row.seed.as_ref()?.ratio());
    let figures = rows().filter_map(|row| row.ratio()).chain(seeds).chain([1.0]);
    let scale =
        Scale::from_nought(figures.map(|ratio| ratio * 100.0), layout.left, layout.right - 8.0);
    layout.axis(
        &mut svg,
        &scale,
        "% of the baseline's Gb/s (or handshakes/s) per CPU %",
        super::plain,
    );
    for (work, rows) in groups {
        layout.heading(&mut svg, work);
        let middle = layout.row(&mut svg, "label ours-name", "everything on", "100\u{202f}%");
        let (begin, whole) = (scale.place(0.0), scale.place(100.0));
        svg.rect("ours", begin, middle - BAR / 2.0, whole - begin, BAR);
        for row in rows {
            let ratio = row.ratio().unwrap_or(1.0);
            let label = format!("without {}", row.switch());
            let middle = layout.row(&mut svg, "label", &label, &change(ratio));
            mark(&mut svg, &scale, ratio, middle);
            if let Some(seed) = row.seed.as_ref().and_then(|seed| seed.ratio()) {
                svg.diamond("seed", scale.place(seed * 100.0), middle, 7.0);
            }
        }
    }
    svg
}

/// The remainder is solid; a loss is an outline up to the baseline; a gain extends past it.
fn mark(svg: &mut Svg, scale: &Scale, ratio: f64, middle: f64) {
    let (begin, whole, end) = (scale.place(0.0), scale.place(100.0), scale.place(ratio * 100.0));
    let (top, inset) = (middle - BAR / 2.0, 0.75);
    svg.rect("peer", begin, top, end.min(whole) - begin, BAR);
    if end < whole {
        svg.rect("lost", end + inset, top + inset, whole - end - 2.0 * inset, BAR - 2.0 * inset);
    } else {
        svg.rect("gained", whole, top, end - whole, BAR);
    }
    svg.line("one", (whole, middle - 11.0), (whole, middle + 11.0));
}
