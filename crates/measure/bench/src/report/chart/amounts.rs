//! Amounts of one kind, as bars that start at zero.

use super::{Chart, Layout, longest, plain};
use crate::report::scale::Scale;
use crate::report::svg::Svg;

const BAR: f64 = 18.0;

/// A bar with its name and its figure as text.
#[derive(Clone, Debug)]
pub(crate) struct Amount {
    pub(crate) label: String,
    pub(crate) is_ours: bool,
    pub(crate) figure: f64,
    pub(crate) value: String,
}

/// `None` if there are none.
pub(crate) fn chart(slug: &str, title: &str, amounts: &[Amount], axis: &str) -> Option<Chart> {
    if amounts.is_empty() {
        return None;
    }
    let told: Vec<String> =
        amounts.iter().map(|amount| format!("{}: {}", amount.label, amount.value)).collect();
    Some(Chart::new(slug, title, &told.join("; "), |width| draw(width, amounts, axis)))
}

fn draw(width: f64, amounts: &[Amount], axis: &str) -> Svg {
    let mut layout = Layout::new(
        width,
        longest(amounts.iter().map(|amount| amount.label.as_str())),
        longest(amounts.iter().map(|amount| amount.value.as_str())),
    );
    let mut svg = Svg::new(width, layout.height(amounts.len(), 0));
    let figures = amounts.iter().map(|amount| amount.figure);
    let scale = Scale::from_nought(figures, layout.left, layout.right - 4.0);
    layout.axis(&mut svg, &scale, axis, plain);
    for amount in amounts {
        let (name, bar) =
            if amount.is_ours { ("label ours-name", "ours") } else { ("label", "peer") };
        let middle = layout.row(&mut svg, name, &amount.label, &amount.value);
        let begin = scale.place(0.0);
        svg.rect(bar, begin, middle - BAR / 2.0, scale.place(amount.figure) - begin, BAR);
    }
    svg
}
