//! Viewers over time, as stacked areas: playing, waiting, stalled.

use super::{Chart, plain};
use crate::report::model::Moment;
use crate::report::scale::Scale;
use crate::report::svg::{Anchor, Svg};

/// Height of the areas.
const HEIGHT: f64 = 180.0;
/// Space above, for the names of the areas.
const TOP: f64 = 28.0;
/// Space below, for the marks and the name of the axis.
const BOTTOM: f64 = 40.0;
/// Space for the numbers of viewers.
const LEFT: f64 = 52.0;

/// More moments than this are thinned out: the drawing has no more pixels.
const POINTS_MAX: usize = 400;

/// The areas from the bottom up: name, class, and figure.
type Area = (&'static str, &'static str, fn(&Moment) -> Option<f64>);
const AREAS: [Area; 3] = [
    ("playing", "tone1", |moment| moment.playing),
    ("waiting for the first picture", "tone3", |moment| moment.waiting),
    ("stalled", "behind", |moment| moment.stalled),
];

/// `None` with fewer than two moments.
pub(crate) fn chart(slug: &str, title: &str, moments: &[Moment]) -> Option<Chart> {
    let step = moments.len().div_ceil(POINTS_MAX).max(1);
    let kept: Vec<Moment> = moments.iter().step_by(step).copied().collect();
    if kept.len() < 2 {
        return None;
    }
    let most = |of: fn(&Moment) -> Option<f64>| kept.iter().filter_map(of).fold(0.0, f64::max);
    let description = format!(
        "At most {:.0} viewers played, {:.0} waited for the first picture, {:.0} had stalled at the same time",
        most(AREAS[0].2),
        most(AREAS[1].2),
        most(AREAS[2].2)
    );
    Some(Chart::new(slug, title, &description, |width| draw(width, &kept)))
}

fn draw(width: f64, moments: &[Moment]) -> Svg {
    let mut svg = Svg::new(width, TOP + HEIGHT + BOTTOM);
    let seconds = Scale::from_nought(moments.iter().filter_map(|at| at.seconds), LEFT, width - 8.0);
    let all = |at: &Moment| AREAS.iter().filter_map(|(.., of)| of(at)).map(sane).sum::<f64>();
    // The scale runs from left to right; here it is used from the bottom up.
    let viewers = Scale::from_nought(moments.iter().map(all), 0.0, HEIGHT);
    let floor = TOP + HEIGHT;
    for tick in viewers.ticks() {
        let y = floor - viewers.place(tick);
        svg.line("grid", (LEFT, y), (width - 8.0, y));
        svg.text("tick", LEFT - 6.0, y + 4.0, Anchor::End, &plain(tick));
    }
    let mut below = vec![0.0; moments.len()];
    for (_, class, of) in AREAS {
        area(&mut svg, class, moments, of, &mut below, |at, count| {
            (seconds.place(at), floor - viewers.place(count))
        });
    }
    names(&mut svg);
    for tick in seconds.ticks() {
        svg.text("tick", seconds.place(tick), floor + 15.0, Anchor::Middle, &plain(tick));
    }
    svg.text(
        "axis",
        LEFT,
        floor + 33.0,
        Anchor::Start,
        "seconds since the run began; viewers upwards",
    );
    svg
}

/// Draws one area on top of those in `below`, and adds it to them.
fn area(
    svg: &mut Svg,
    class: &str,
    moments: &[Moment],
    of: fn(&Moment) -> Option<f64>,
    below: &mut [f64],
    place: impl Fn(f64, f64) -> (f64, f64),
) {
    let at = |moment: &Moment| sane(moment.seconds.unwrap_or(0.0));
    let floor: Vec<_> =
        moments.iter().zip(below.iter()).map(|(moment, under)| place(at(moment), *under)).collect();
    let mut is_empty = true;
    for (moment, under) in moments.iter().zip(below.iter_mut()) {
        let count = sane(of(moment).unwrap_or(0.0));
        is_empty &= count == 0.0;
        *under += count;
    }
    if is_empty {
        return;
    }
    let top = moments.iter().zip(below.iter()).map(|(moment, under)| place(at(moment), *under));
    let outline: Vec<_> = top.chain(floor.into_iter().rev()).collect();
    svg.polygon(class, &outline);
}

/// The legend, above the areas.
fn names(svg: &mut Svg) {
    let mut x = LEFT;
    for (name, class, _) in AREAS {
        svg.rect(class, x, 6.0, 10.0, 10.0);
        svg.text("note", x + 15.0, 15.0, Anchor::Start, name);
        x += 30.0 + name.chars().count() as f64 * 6.2;
    }
}

/// A count of viewers that is safe to draw.
fn sane(count: f64) -> f64 {
    if count.is_finite() { count.clamp(0.0, 1e12) } else { 0.0 }
}
