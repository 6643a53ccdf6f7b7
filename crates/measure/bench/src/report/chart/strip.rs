//! Single measurements on one axis, with their median.

use super::{Chart, Layout, plain, spread};
use crate::report::number::{THIN_SPACE, with_spread};
use crate::report::scale::Scale;
use crate::report::svg::Svg;
use crate::stats::Summary;

/// Start times in milliseconds. `None` if there are none.
pub(crate) fn chart(slug: &str, milliseconds: &[f64]) -> Option<Chart> {
    if milliseconds.is_empty() {
        return None;
    }
    let summary = Summary::of(milliseconds);
    let description = format!(
        "{} starts: the first byte came after {} ms",
        milliseconds.len(),
        with_spread(summary.median, summary.deviation)
    );
    let title = "From the start of the process to the first byte";
    Some(Chart::new(slug, title, &description, |width| draw(width, milliseconds, summary)))
}

fn draw(width: f64, milliseconds: &[f64], summary: Summary) -> Svg {
    let value = format!("{}{THIN_SPACE}ms", with_spread(summary.median, summary.deviation));
    let mut layout = Layout::new(width, 9, value.chars().count());
    let mut svg = Svg::new(width, layout.height(1, 0));
    let scale = Scale::from_nought(milliseconds.iter().copied(), layout.left, layout.right - 4.0);
    layout.axis(
        &mut svg,
        &scale,
        "milliseconds; a dot is a start, the upright is the median",
        plain,
    );
    let middle = layout.row(&mut svg, "label ours-name", "starts", &value);
    for (index, figure) in milliseconds.iter().enumerate() {
        // Use five lanes, so that consecutive starts do not overlap.
        svg.circle("ours dot", scale.place(*figure), middle + spread(index % 5, 5, 18.0), 3.0);
    }
    let x = scale.place(summary.median);
    svg.line("whisker", (x, middle - 13.0), (x, middle + 13.0));
    svg
}
