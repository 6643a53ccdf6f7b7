//! A map of load: a row per region, a tile per site, darker the more the site carried.

use super::{Chart, longest};
use crate::report::svg::{Anchor, Svg, shortened};

/// From this many percent on, and how to draw it.
const STEPS: [(f64, &str, &str); 5] = [
    (0.0, "tone0", "below 50"),
    (50.0, "tone1", "50"),
    (70.0, "tone2", "70"),
    (90.0, "tone4", "90"),
    (100.0, "behind", "100 and more"),
];

const ROW: f64 = 22.0;
const TOP: f64 = 28.0;
const TILE_MAX: f64 = 18.0;

/// A region's sites, with the load of each in percent of its ceiling.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) name: String,
    pub(crate) percents: Vec<f64>,
}

/// `None` if there are no regions.
pub(crate) fn chart(slug: &str, title: &str, regions: &[Region]) -> Option<Chart> {
    let all = || regions.iter().flat_map(|region| region.percents.iter().copied());
    let most = all().reduce(f64::max)?;
    let full = all().filter(|percent| *percent >= 90.0).count();
    let description = format!(
        "{} sites in {} regions; the highest load is {most:.0} percent, {full} sites reached 90",
        all().count(),
        regions.len()
    );
    Some(Chart::new(slug, title, &description, |width| draw(width, regions)))
}

fn draw(width: f64, regions: &[Region]) -> Svg {
    let left =
        (longest(regions.iter().map(|region| region.name.as_str())) as f64 * 7.0 + 14.0).min(120.0);
    let most = regions.iter().map(|region| region.percents.len()).max().unwrap_or(0).max(1);
    let tile = ((width - left) / most as f64).min(TILE_MAX);
    let mut svg = Svg::new(width, TOP + regions.len() as f64 * ROW + 8.0);
    let mut x = 0.0;
    for (_, class, name) in STEPS {
        svg.rect(class, x, 6.0, 10.0, 10.0);
        svg.text("note", x + 14.0, 15.0, Anchor::Start, name);
        x += 26.0 + name.chars().count() as f64 * 6.4;
    }
    for (row, region) in regions.iter().enumerate() {
        let top = TOP + row as f64 * ROW;
        let name = shortened(&region.name, ((left - 12.0) / 7.0) as usize);
        svg.text("label", left - 8.0, top + 14.0, Anchor::End, &name);
        for (at, percent) in region.percents.iter().enumerate() {
            let reached = STEPS.iter().rev().find(|(from, ..)| percent >= from);
            let class = reached.map_or(STEPS[0].1, |(_, class, _)| class);
            let x = left + at as f64 * tile;
            svg.rect(class, x, top + 2.0, tile * 0.9, ROW - 4.0);
        }
    }
    svg
}
