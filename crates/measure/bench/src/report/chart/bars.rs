//! Sides next to each other: a bar up to the median, a whisker for the median absolute deviation, a dot per round.

use super::{Chart, Layout, longest, plain, spread};
use crate::report::model::{Part, Side};
use crate::report::scale::Scale;
use crate::report::svg::Svg;
use crate::report::verdict::Unit;

const BAR: f64 = 18.0;
/// Half the height of a whisker's ends: shorter than the bar, so that close ones do not look like a box.
const WHISKER: f64 = 5.0;
const ROUND_RADIUS: f64 = 2.3;

/// A comparison with an optional heading (the hit ratio).
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) heading: Option<String>,
    pub(crate) part: &'a Part,
}

/// All groups on one axis. `None` if no side has a figure.
pub(crate) fn chart(
    slug: &str,
    title: &str,
    description: &str,
    groups: &[Group<'_>],
) -> Option<Chart> {
    let sides = || groups.iter().flat_map(|group| group.part.sides());
    sides().find(|side| side.median.is_some())?;
    let unit = Unit::of(groups.first()?.part);
    let lower = groups.iter().any(|group| group.part.lower_is_better());
    Some(Chart::new(slug, title, description, |width| draw(width, groups, &unit, lower)))
}

fn draw(width: f64, groups: &[Group<'_>], unit: &Unit, lower_is_better: bool) -> Svg {
    let sides: Vec<_> = groups.iter().flat_map(|group| group.part.sides()).collect();
    let values: Vec<_> = sides.iter().map(|side| value(side, unit)).collect();
    let mut layout = Layout::new(
        width,
        longest(sides.iter().map(|side| side.name())).clamp(9, 24),
        longest(values.iter().map(String::as_str)),
    );
    let headings = groups.iter().filter(|group| group.heading.is_some()).count();
    let mut svg = Svg::new(width, layout.height(sides.len(), headings));
    let (divisor, name) = axis(unit, &sides, lower_is_better);
    let all = sides.iter().flat_map(|side| figures(side)).map(|figure| figure / divisor);
    let scale = Scale::from_nought(all, layout.left, layout.right);
    layout.axis(&mut svg, &scale, &name, plain);
    let mut values = values.iter();
    for group in groups {
        if let Some(heading) = &group.heading {
            layout.heading(&mut svg, heading);
        }
        for (index, side) in group.part.sides().iter().enumerate() {
            let class = if index == 0 { "label ours-name" } else { "label" };
            let middle =
                layout.row(&mut svg, class, side.name(), values.next().map_or("", String::as_str));
            mark(&mut svg, |figure| scale.place(figure / divisor), side, index, middle);
        }
    }
    svg
}

fn mark(svg: &mut Svg, place: impl Fn(f64) -> f64, side: &Side, index: usize, middle: f64) {
    let Some(median) = side.median else { return };
    let begin = place(0.0);
    let class = if index == 0 { "ours" } else { "peer" };
    svg.rect(class, begin, middle - BAR / 2.0, place(median) - begin, BAR);
    let rounds: Vec<_> = side.rounds().iter().filter_map(|round| round.figure).collect();
    for (index, figure) in rounds.iter().enumerate() {
        let y = middle + spread(index, rounds.len(), BAR - 2.0 * ROUND_RADIUS);
        svg.circle("round", place(*figure), y, ROUND_RADIUS);
    }
    if let Some(deviation) = side.deviation {
        whisker(svg, (place(median - deviation), place(median + deviation)), middle, WHISKER);
    }
}

/// A line with a vertical stroke at each end.
pub(crate) fn whisker(svg: &mut Svg, (from, to): (f64, f64), middle: f64, half_height: f64) {
    svg.line("whisker", (from, middle), (to, middle));
    for x in [from, to] {
        svg.line("whisker", (x, middle - half_height), (x, middle + half_height));
    }
}

fn value(side: &Side, unit: &Unit) -> String {
    side.median.map_or_else(
        || "not measured".to_owned(),
        |median| unit.figure(median, side.deviation.unwrap_or(0.0)),
    )
}

fn figures(side: &Side) -> impl Iterator<Item = f64> {
    let high = side.median.map(|median| median + side.deviation.unwrap_or(0.0));
    side.rounds().iter().filter_map(|round| round.figure).chain(high)
}

/// The divisor and the name of the axis.
fn axis(unit: &Unit, sides: &[&Side], lower_is_better: bool) -> (f64, String) {
    let greatest = sides.iter().flat_map(|side| figures(side)).fold(0.0, f64::max);
    let (divisor, name) = match unit {
        Unit::ConnectionBytes => {
            let (divisor, name) = crate::report::number::byte_unit(greatest);
            (divisor, format!("{name} of memory per connection"))
        }
        other => (1.0, other.words().to_owned()),
    };
    let better = if lower_is_better { "less is better" } else { "more is better" };
    (divisor, format!("{name}, {better}"))
}
