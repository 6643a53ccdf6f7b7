//! Several curves over one quantity, each with its name at the right end.

use super::{Chart, plain};
use crate::report::number::significant;
use crate::report::scale::Scale;
use crate::report::svg::{Anchor, Svg};

/// Height of the area of the curves.
const HEIGHT: f64 = 360.0;
const TOP: f64 = 8.0;
/// Space below, for the marks and the name of the axis.
const BOTTOM: f64 = 40.0;
/// Space for the marks of the other axis.
const LEFT: f64 = 44.0;
/// Space for the names.
const RIGHT: f64 = 150.0;
/// The least distance between two names.
const NAME_HEIGHT: f64 = 15.0;

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// Whether it is this server's.
    pub is_ours: bool,
    /// Its points from left to right. The quantity is above zero.
    pub points: Vec<(f64, f64)>,
}

/// `None` if no curve has two points.
pub(crate) fn chart(slug: &str, title: &str, curves: &[Curve], axis: &str) -> Option<Chart> {
    let curves: Vec<&Curve> = curves.iter().filter(|curve| curve.points.len() > 1).collect();
    if curves.is_empty() {
        return None;
    }
    let told = |curve: &&Curve| {
        let figures: Vec<_> = curve
            .points
            .iter()
            .map(|(at, y)| format!("{} at {}", significant(*y), plain(*at)))
            .collect();
        format!("{}: {}", curve.label, figures.join(", "))
    };
    let told: Vec<_> = curves.iter().map(told).collect();
    Some(Chart::new(slug, title, &told.join("; "), |width| draw(width, &curves, axis)))
}

fn draw(width: f64, curves: &[&Curve], axis: &str) -> Svg {
    let mut svg = Svg::new(width, TOP + HEIGHT + BOTTOM);
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let (right, floor) = (width - RIGHT, TOP + HEIGHT);
    let along = Scale::logarithmic(all().map(|(x, _)| x), LEFT, right);
    // The scale runs from left to right; here it is used from the bottom up.
    let up = Scale::from_nought(all().map(|(_, y)| y), 0.0, HEIGHT);
    for tick in up.ticks() {
        let y = floor - up.place(tick);
        svg.line("grid", (LEFT, y), (right, y));
        svg.text("tick", LEFT - 6.0, y + 4.0, Anchor::End, &plain(tick));
    }
    for tick in along.ticks() {
        svg.text("tick", along.place(tick), floor + 15.0, Anchor::Middle, &plain(tick));
    }
    svg.text("axis", LEFT, floor + 33.0, Anchor::Start, axis);
    let mut ends = Vec::new();
    for curve in curves {
        let (line, dot) =
            if curve.is_ours { ("ours-line stem", "ours") } else { ("peer-line", "peer") };
        let place = |(x, y): (f64, f64)| (along.place(x), floor - up.place(y));
        let points: Vec<_> = curve.points.iter().copied().map(place).collect();
        points.windows(2).for_each(|pair| svg.line(line, pair[0], pair[1]));
        points.iter().for_each(|(x, y)| svg.circle(dot, *x, *y, 3.0));
        ends.push((points[points.len() - 1], *curve));
    }
    names(&mut svg, ends);
    svg
}

/// The names at the ends of the curves, without covering each other.
fn names(svg: &mut Svg, mut ends: Vec<((f64, f64), &Curve)>) {
    ends.sort_by(|((_, a), _), ((_, b), _)| b.total_cmp(a));
    let mut below = f64::INFINITY;
    for ((x, y), curve) in ends {
        let class = if curve.is_ours { "ours-name" } else { "note" };
        let at = y.min(below - NAME_HEIGHT);
        svg.text(class, x + 10.0, at + 4.0, Anchor::Start, &curve.label);
        below = at;
    }
}
