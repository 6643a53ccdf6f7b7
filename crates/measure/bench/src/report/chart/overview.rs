//! All comparisons on one logarithmic axis with 1 marked: twice as good and half as good are equally far from it.

use super::bars::whisker;
use super::{Chart, Layout, longest, plain};
use crate::report::number::{THIN_SPACE, with_spread};
use crate::report::scale::Scale;
use crate::report::svg::{Anchor, Svg};
use crate::report::verdict::{Comparison, Verdict};

const RADIUS: f64 = 6.0;

/// `None` if there are no comparisons.
pub(crate) fn chart(comparisons: &[Comparison]) -> Option<Chart> {
    if comparisons.is_empty() {
        return None;
    }
    let description = comparisons.iter().map(Comparison::sentence).collect::<Vec<_>>().join(". ");
    let title = format!("How {} stands, workload by workload", comparisons[0].ours);
    Some(Chart::new("overview", &title, &description, |width| draw(width, comparisons)))
}

/// The row's name: the workload, the other side, and anything unusual.
fn label(comparison: &Comparison, names_congestion_control: bool) -> String {
    let mut label = format!("{} · {}", comparison.work(), comparison.peer);
    if let (true, Some(name)) = (names_congestion_control, &comparison.congestion_control) {
        label.push_str(&format!(" · {name}"));
    }
    if comparison.lower_is_better {
        label.push_str(" (inverse)");
    }
    label
}

fn value(comparison: &Comparison) -> String {
    let word = match comparison.verdict() {
        Verdict::Ahead => "ahead",
        Verdict::Level => "level",
        Verdict::Behind => "behind",
    };
    let figure = with_spread(comparison.advantage(), comparison.advantage_deviation());
    format!("{figure}{THIN_SPACE}× {word}")
}

fn draw(width: f64, comparisons: &[Comparison]) -> Svg {
    let first = &comparisons[0].congestion_control;
    let differ = comparisons.iter().any(|one| one.congestion_control != *first);
    let labels: Vec<_> = comparisons.iter().map(|one| label(one, differ)).collect();
    let values: Vec<_> = comparisons.iter().map(value).collect();
    let texts = |texts: &[String]| longest(texts.iter().map(String::as_str));
    let mut layout = Layout::new(width, texts(&labels), texts(&values));
    let mut svg = Svg::new(width, layout.height(labels.len(), 1));
    // At least from half to double, so that small differences look small.
    let extent = comparisons.iter().map(Comparison::advantage).chain([0.5, 2.0]);
    let scale = Scale::logarithmic(extent, layout.left + RADIUS, layout.right - RADIUS);
    layout.axis(&mut svg, &scale, "times as good as the other side, logarithmic", |tick| {
        format!("{}×", plain(tick))
    });
    let (one, top) = (scale.place(1.0), 24.0);
    let bottom = svg.height - super::AXIS_HEIGHT;
    layout.heading(&mut svg, "");
    svg.line("one", (one, top + 4.0), (one, bottom));
    svg.text("note", one - 10.0, top - 4.0, Anchor::End, "← behind");
    svg.text("note", one + 10.0, top - 4.0, Anchor::Start, "ahead →");
    for ((comparison, label), value) in comparisons.iter().zip(&labels).zip(&values) {
        let middle = layout.row(&mut svg, "label", label, value);
        mark(&mut svg, &scale, comparison, middle);
    }
    svg
}

fn mark(svg: &mut Svg, scale: &Scale, comparison: &Comparison, middle: f64) {
    let (advantage, deviation) = (comparison.advantage(), comparison.advantage_deviation());
    let (from, to) = (scale.place(1.0), scale.place(advantage));
    let (class, stem) = match comparison.verdict() {
        Verdict::Ahead => ("ahead", "stem ahead-stem"),
        Verdict::Level => ("level", "stem level-stem"),
        Verdict::Behind => ("behind", "stem behind-stem"),
    };
    svg.line(stem, (from, middle), (to, middle));
    match comparison.verdict() {
        Verdict::Ahead => svg.circle(class, to, middle, RADIUS),
        Verdict::Level => {
            svg.rect(class, to - RADIUS * 0.8, middle - RADIUS * 0.8, RADIUS * 1.6, RADIUS * 1.6)
        }
        Verdict::Behind => svg.diamond(class, to, middle, RADIUS * 1.25),
    }
    let ends = (scale.place(advantage - deviation), scale.place(advantage + deviation));
    // A deviation that the mark would hide appears only in the value next to it.
    if ends.1 - ends.0 > 2.0 * RADIUS {
        whisker(svg, ends, middle, 4.0);
    }
}
