//! Charts. Each is drawn twice, for a wide page and for a phone, because a drawing that only shrinks becomes unreadable.
//!
//! Colours are up to the style, and never carry a meaning alone: sides have names, verdicts have shapes and words.

pub(crate) mod amounts;
pub(crate) mod bars;
pub(crate) mod course;
pub(crate) mod curves;
pub(crate) mod flows;
pub(crate) mod foretold;
pub(crate) mod growth;
pub(crate) mod hours;
pub(crate) mod ladder;
pub(crate) mod limit;
pub(crate) mod overview;
pub(crate) mod strip;
pub(crate) mod tiles;
pub(crate) mod waterfall;

use super::number::significant;
use super::scale::Scale;
use super::svg::{Anchor, Svg, shortened};

/// The widths of the two drawings.
const WIDE: f64 = 760.0;
const NARROW: f64 = 352.0;

/// Approximate width of a character in labels of 13 pixels.
const CHARACTER: f64 = 7.0;

/// Height of a group's name, including the gap above it.
const HEADING_HEIGHT: f64 = 38.0;

/// Height of the marks and the name of the axis, below all rows.
const AXIS_HEIGHT: f64 = 40.0;

/// A drawing with a description in words.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// The name of its file; unique in a report.
    pub(crate) slug: String,
    pub(crate) title: String,
    /// A description for readers who cannot see the picture.
    pub(crate) description: String,
    wide: Svg,
    narrow: Svg,
}

impl Chart {
    /// Draws it at both widths.
    pub(crate) fn new(
        slug: &str,
        title: &str,
        description: &str,
        draw: impl Fn(f64) -> Svg,
    ) -> Self {
        Self {
            slug: slug.to_owned(),
            title: title.to_owned(),
            description: description.to_owned(),
            wide: draw(WIDE),
            narrow: draw(NARROW),
        }
    }

    /// For the page, which shows one of the two.
    pub(crate) fn inline(&self) -> String {
        let Self { slug, title, description, .. } = self;
        let wide = self.wide.inline(&format!("{slug}-wide"), "wide", title, description);
        let narrow = self.narrow.inline(&format!("{slug}-narrow"), "narrow", title, description);
        wide + &narrow
    }

    /// For a file.
    pub(crate) fn standalone(&self) -> String {
        self.wide.standalone(&super::style::resolved(), &self.title, &self.description)
    }
}

/// Positions of rows, labels, marks and values. On a wide page a row's label is to the left and its value to the right; on a phone both are
/// above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    width: f64,
    is_wide: bool,
    /// Where the axis begins.
    pub(crate) left: f64,
    /// Where it ends.
    pub(crate) right: f64,
    /// Where the next row begins.
    top: f64,
    row_height: f64,
}

impl Layout {
    /// A layout for labels and values of at most this many characters.
    pub(crate) fn new(width: f64, label_characters: usize, value_characters: usize) -> Self {
        let is_wide = width >= 600.0;
        // Values are in bold.
        let room =
            |characters: usize, each: f64, max: f64| (characters as f64 * each + 16.0).min(max);
        let (left, right) = if is_wide {
            (
                room(label_characters, CHARACTER, 250.0),
                width - room(value_characters, CHARACTER + 0.8, 240.0),
            )
        } else {
            (6.0, width - 6.0)
        };
        let row_height = if is_wide { 30.0 } else { 44.0 };
        Self { width, is_wide, left, right, top: 6.0, row_height }
    }

    /// Height of a drawing with this many rows and headings.
    pub(crate) fn height(&self, rows: usize, headings: usize) -> f64 {
        6.0 + rows as f64 * self.row_height + headings as f64 * HEADING_HEIGHT + AXIS_HEIGHT
    }

    /// Starts a group.
    pub(crate) fn heading(&mut self, svg: &mut Svg, text: &str) {
        svg.text(
            "group",
            0.0,
            self.top + HEADING_HEIGHT - 9.0,
            Anchor::Start,
            &shortened(text, (self.width / 7.5) as usize),
        );
        self.top += HEADING_HEIGHT;
    }

    /// Draws a row's label and value. Returns the vertical middle of its marks.
    pub(crate) fn row(&mut self, svg: &mut Svg, class: &str, label: &str, value: &str) -> f64 {
        let top = self.top;
        self.top += self.row_height;
        let value_characters = value.chars().count();
        if self.is_wide {
            let middle = top + self.row_height / 2.0;
            let label = shortened(label, ((self.left - 12.0) / CHARACTER) as usize);
            svg.text(class, self.left - 12.0, middle + 4.5, Anchor::End, &label);
            svg.text("value", self.right + 12.0, middle + 4.5, Anchor::Start, value);
            return middle;
        }
        let room = ((self.width / CHARACTER) as usize).saturating_sub(value_characters + 1);
        svg.text(class, 0.0, top + 15.0, Anchor::Start, &shortened(label, room));
        svg.text("value", self.width, top + 15.0, Anchor::End, value);
        top + 31.0
    }

    /// Draws the lines behind the rows, the marks and the axis's name. Call it first, because later drawings cover earlier ones.
    pub(crate) fn axis(
        &self,
        svg: &mut Svg,
        scale: &Scale,
        name: &str,
        mark: impl Fn(f64) -> String,
    ) {
        let bottom = svg.height - AXIS_HEIGHT;
        for tick in scale.ticks() {
            let x = scale.place(tick);
            svg.line("grid", (x, 4.0), (x, bottom));
            let anchor = if x < 14.0 {
                Anchor::Start
            } else if x > self.width - 14.0 {
                Anchor::End
            } else {
                Anchor::Middle
            };
            svg.text("tick", x, bottom + 15.0, anchor, &mark(tick));
        }
        svg.text("axis", self.left, bottom + 33.0, Anchor::Start, name);
    }
}

/// An axis mark without needless decimals: `0.5`, `40`.
pub(crate) fn plain(tick: f64) -> String {
    let text = significant(tick);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// The length of the longest text, in characters.
pub(crate) fn longest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0)
}

/// Spreads dots that would cover each other: offsets from the middle, alternately above and below.
pub(crate) fn spread(index: usize, count: usize, room: f64) -> f64 {
    let step = room / count.max(1) as f64;
    (index as f64 + 0.5) * step - room / 2.0
}
