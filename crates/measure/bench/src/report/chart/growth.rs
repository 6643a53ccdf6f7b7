//! One figure that grows, or should not, as a bar for each step of the quantity it depends on.

use super::{Chart, Layout, longest, plain};
use crate::report::scale::Scale;
use crate::report::svg::Svg;

const BAR: f64 = 18.0;

/// A step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) label: String,
    pub(crate) figure: f64,
    /// The figure as text.
    pub(crate) value: String,
}

/// `None` if there are no steps.
pub(crate) fn chart(slug: &str, title: &str, steps: &[Step], axis: &str) -> Option<Chart> {
    if steps.is_empty() {
        return None;
    }
    let told: Vec<_> = steps.iter().map(|step| format!("{}: {}", step.label, step.value)).collect();
    Some(Chart::new(slug, title, &told.join("; "), |width| draw(width, steps, axis)))
}

fn draw(width: f64, steps: &[Step], axis: &str) -> Svg {
    let mut layout = Layout::new(
        width,
        longest(steps.iter().map(|step| step.label.as_str())),
        longest(steps.iter().map(|step| step.value.as_str())),
    );
    let mut svg = Svg::new(width, layout.height(steps.len(), 0));
    let scale = Scale::from_nought(steps.iter().map(|step| step.figure), layout.left, layout.right);
    layout.axis(&mut svg, &scale, axis, plain);
    for step in steps {
        let middle = layout.row(&mut svg, "label", &step.label, &step.value);
        let begin = scale.place(0.0);
        svg.rect("ours", begin, middle - BAR / 2.0, scale.place(step.figure) - begin, BAR);
    }
    svg
}
