//! Distributions: a line through percentiles with the middle one marked, and small dots for single rounds.

use super::{Chart, Layout, longest, plain};
use crate::report::scale::Scale;
use crate::report::svg::Svg;

/// One distribution.
#[derive(Clone, Debug)]
pub(crate) struct Rungs {
    pub(crate) label: String,
    pub(crate) is_ours: bool,
    /// Percentiles, ascending. The line goes from the first to the last.
    pub(crate) figures: Vec<f64>,
    /// The index of the median in `figures`.
    pub(crate) median: usize,
    /// The same percentiles for each round.
    pub(crate) rounds: Vec<f64>,
    pub(crate) value: String,
}

/// A group of distributions shown next to each other.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) heading: String,
    pub(crate) rows: Vec<Rungs>,
}

/// Properties that all groups share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_logarithmic: bool,
}

/// `None` if there are no rows.
pub(crate) fn chart(
    slug: &str,
    title: &str,
    description: &str,
    groups: &[Group],
    axis: Axis<'_>,
) -> Option<Chart> {
    groups.iter().find(|group| !group.rows.is_empty())?;
    Some(Chart::new(slug, title, description, |width| draw(width, groups, axis)))
}

fn draw(width: f64, groups: &[Group], axis: Axis<'_>) -> Svg {
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let mut layout = Layout::new(
        width,
        longest(rows().map(|row| row.label.as_str())).clamp(9, 24),
        longest(rows().map(|row| row.value.as_str())),
    );
    let mut svg = Svg::new(width, layout.height(rows().count(), groups.len()));
    let figures = rows().flat_map(|row| row.figures.iter().chain(&row.rounds)).copied();
    let (left, right) = (layout.left + 6.0, layout.right - 6.0);
    let scale = match axis.is_logarithmic {
        true => Scale::logarithmic(figures, left, right),
        false => Scale::from_nought(figures, left, right),
    };
    layout.axis(&mut svg, &scale, axis.name, plain);
    for group in groups {
        layout.heading(&mut svg, &group.heading);
        for row in &group.rows {
            let class = if row.is_ours { "label ours-name" } else { "label" };
            let middle = layout.row(&mut svg, class, &row.label, &row.value);
            mark(&mut svg, &scale, row, middle);
        }
    }
    svg
}

fn mark(svg: &mut Svg, scale: &Scale, row: &Rungs, middle: f64) {
    for figure in &row.rounds {
        svg.circle("faint", scale.place(*figure), middle + 7.0, 1.8);
    }
    let (Some(first), Some(last)) = (row.figures.first(), row.figures.last()) else { return };
    let stem = if row.is_ours { "rail ours-line" } else { "rail peer-line" };
    svg.line(stem, (scale.place(*first), middle), (scale.place(*last), middle));
    for (index, figure) in row.figures.iter().enumerate() {
        let x = scale.place(*figure);
        let class = if row.is_ours { "ours" } else { "peer" };
        match index == row.median {
            true => svg.circle(class, x, middle, 5.0),
            false => svg.rect(class, x - 1.5, middle - 6.0, 3.0, 12.0),
        }
    }
}
