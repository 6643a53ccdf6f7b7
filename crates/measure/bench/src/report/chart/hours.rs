//! Columns for each hour of a day, with the series next to each other.

use super::{Chart, plain};
use crate::report::scale::Scale;
use crate::report::svg::{Anchor, Svg};

const HEIGHT: f64 = 170.0;
/// Space above, for the names of the columns.
const TOP: f64 = 28.0;
/// Space below, for the hours and the name of the axis.
const BOTTOM: f64 = 40.0;
/// Space for the marks of the axis.
const LEFT: f64 = 52.0;

/// Figures by hour, with their name and class.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
    pub(crate) figures: Vec<f64>,
}

/// Draws the columns; `hours` are the labels below them. `None` if there are none.
pub(crate) fn chart(
    slug: &str,
    title: &str,
    hours: &[String],
    series: &[Series],
    axis: &str,
) -> Option<Chart> {
    if hours.is_empty() {
        return None;
    }
    let most = |series: &Series| {
        let most = series.figures.iter().copied().fold(0.0, f64::max);
        format!("{}: at most {}", series.name, plain(most))
    };
    let told: Vec<String> = series.iter().map(most).collect();
    let description = format!("{}; {axis}", told.join("; "));
    Some(Chart::new(slug, title, &description, |width| draw(width, hours, series, axis)))
}

fn draw(width: f64, hours: &[String], series: &[Series], axis: &str) -> Svg {
    let mut svg = Svg::new(width, TOP + HEIGHT + BOTTOM);
    let all = series.iter().flat_map(|series| series.figures.iter().copied());
    // The scale runs from left to right; here it is used from the bottom up.
    let scale = Scale::from_nought(all, 0.0, HEIGHT);
    let floor = TOP + HEIGHT;
    for tick in scale.ticks() {
        let y = floor - scale.place(tick);
        svg.line("grid", (LEFT, y), (width - 8.0, y));
        svg.text("tick", LEFT - 6.0, y + 4.0, Anchor::End, &plain(tick));
    }
    let step = (width - 8.0 - LEFT) / hours.len() as f64;
    let column = step * 0.8 / series.len().max(1) as f64;
    for (at, one) in series.iter().enumerate() {
        for (hour, figure) in one.figures.iter().enumerate() {
            let height = scale.place(*figure);
            let x = LEFT + step * (hour as f64 + 0.1) + column * at as f64;
            svg.rect(one.class, x, floor - height, column, height);
        }
    }
    let every = (28.0 / step).ceil().max(1.0) as usize;
    for (at, hour) in hours.iter().enumerate().step_by(every) {
        let x = LEFT + step * (at as f64 + 0.5);
        svg.text("tick", x, floor + 15.0, Anchor::Middle, hour);
    }
    let mut x = LEFT;
    for one in series {
        svg.rect(one.class, x, 6.0, 10.0, 10.0);
        svg.text("note", x + 15.0, 15.0, Anchor::Start, one.name);
        x += 30.0 + one.name.chars().count() as f64 * 6.2;
    }
    svg.text("axis", LEFT, floor + 33.0, Anchor::Start, axis);
    svg
}
