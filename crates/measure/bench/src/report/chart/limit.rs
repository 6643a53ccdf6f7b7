//! The limits of the machine: how the parts of the chain share a core's time, and how close the server comes to their sum.

use super::{Chart, Layout, longest, plain};
use crate::report::model::{Chain, LimitPart};
use crate::report::number::{THIN_SPACE, percent, significant, with_spread};
use crate::report::scale::Scale;
use crate::report::svg::{Anchor, Svg, shortened};

/// How many tones the style has for parts.
const TONES: usize = 5;

/// A part of the chain: its name, its rate alone, and its share of a byte's time.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) gbps: f64,
    pub(crate) share: f64,
}

/// The chain's parts in order. A byte's time in a part is the inverse of the part's rate alone. Empty unless all of them were measured.
pub(crate) fn links(chain: &Chain, parts: &[LimitPart]) -> Vec<Link> {
    let found: Option<Vec<_>> = chain
        .chain
        .iter()
        .flatten()
        .map(|name| {
            let part = parts.iter().find(|part| part.name.as_ref() == Some(name))?;
            Some((name.clone(), part.gbps.filter(|gbps| *gbps > 0.0)?))
        })
        .collect();
    let found = found.unwrap_or_default();
    let whole: f64 = found.iter().map(|(_, gbps)| gbps.recip()).sum();
    found.into_iter().map(|(name, gbps)| Link { name, gbps, share: gbps.recip() / whole }).collect()
}

/// Where a byte's time goes. `None` without a chain.
pub(crate) fn shares(slug: &str, chain: &Chain, parts: &[LimitPart]) -> Option<Chart> {
    let links = links(chain, parts);
    if links.is_empty() {
        return None;
    }
    let said: Vec<_> =
        links.iter().map(|link| format!("{} {}", link.name, percent(link.share))).collect();
    let title = format!(
        "{}: where a byte's time goes, if each part runs as fast as it does alone",
        chain.workload()
    );
    Some(Chart::new(slug, &title, &said.join(", "), |width| draw_shares(width, &links)))
}

fn draw_shares(width: f64, links: &[Link]) -> Svg {
    let (bar, gap, line) = (44.0, 2.0, 24.0);
    let mut svg = Svg::new(width, 8.0 + bar + 14.0 + links.len() as f64 * line + 4.0);
    let mut x = 0.0;
    for (index, link) in links.iter().enumerate() {
        let part = link.share * width;
        let tone = format!("tone{}", index % TONES);
        svg.rect(&tone, x, 8.0, (part - gap).max(1.0), bar);
        if part > 44.0 {
            let text = format!("{tone}-text");
            svg.text(
                &text,
                x + part / 2.0,
                8.0 + bar / 2.0 + 5.0,
                Anchor::Middle,
                &percent(link.share),
            );
        }
        let y = 8.0 + bar + 28.0 + index as f64 * line;
        svg.rect(&tone, 0.0, y - 11.0, 13.0, 13.0);
        let label = format!("{}. {}", index + 1, shortened(&link.name, (width / 16.0) as usize));
        svg.text("label", 22.0, y, Anchor::Start, &label);
        let value =
            format!("{} · {}{THIN_SPACE}Gb/s alone", percent(link.share), significant(link.gbps));
        svg.text("value", width, y, Anchor::End, &value);
        x += part;
    }
    svg
}

/// The ceiling, the same chain in one loop, and the server. `None` if all are missing.
pub(crate) fn heights(slug: &str, chain: &Chain, pipeline_gbps: Option<f64>) -> Option<Chart> {
    let server = chain.server.unwrap_or_default();
    let rows: Vec<_> = [
        ("parts' sum (ceiling)", chain.ceiling_gbps, None),
        ("bare pipeline", pipeline_gbps, None),
        ("server", server.gbps_per_cpu_second, server.deviation),
    ]
    .into_iter()
    .filter_map(|(name, gbps, deviation)| Some((name, gbps?, deviation)))
    .collect();
    if rows.is_empty() {
        return None;
    }
    let mut description: Vec<_> =
        rows.iter().map(|(name, gbps, _)| format!("{name} {} Gb/s", significant(*gbps))).collect();
    description.extend(
        chain.share_of_ceiling.map(|share| format!("the server reaches {}", percent(share))),
    );
    let title = format!("{}: the ceiling, and how near the server comes", chain.workload());
    Some(Chart::new(slug, &title, &description.join(", "), |width| {
        draw_heights(width, chain, &rows)
    }))
}

fn draw_heights(width: f64, chain: &Chain, rows: &[(&str, f64, Option<f64>)]) -> Svg {
    let share = |name: &str| (name == "server").then_some(chain.share_of_ceiling).flatten();
    let value = |(name, gbps, deviation): &(&str, f64, Option<f64>)| {
        let figure =
            deviation.map_or_else(|| significant(*gbps), |deviation| with_spread(*gbps, deviation));
        share(name).map_or_else(|| figure.clone(), |share| format!("{figure} ({})", percent(share)))
    };
    let values: Vec<_> = rows.iter().map(value).collect();
    let labels = longest(rows.iter().map(|(name, ..)| *name));
    let mut layout = Layout::new(width, labels, longest(values.iter().map(String::as_str)));
    let mut svg = Svg::new(width, layout.height(rows.len(), 0));
    let figures = rows.iter().map(|(_, gbps, deviation)| gbps + deviation.unwrap_or(0.0));
    let scale = Scale::from_nought(figures, layout.left, layout.right);
    layout.axis(&mut svg, &scale, "Gb/s per CPU second, more is better", plain);
    for ((name, gbps, deviation), value) in rows.iter().zip(&values) {
        let is_server = *name == "server";
        let middle =
            layout.row(&mut svg, if is_server { "label ours-name" } else { "label" }, name, value);
        let begin = scale.place(0.0);
        svg.rect(
            if is_server { "ours" } else { "peer" },
            begin,
            middle - 9.0,
            scale.place(*gbps) - begin,
            18.0,
        );
        if let Some(deviation) = deviation {
            let ends = (scale.place(gbps - deviation), scale.place(gbps + deviation));
            super::bars::whisker(&mut svg, ends, middle, 5.0);
        }
    }
    svg
}
