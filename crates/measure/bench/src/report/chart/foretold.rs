//! A model's figures next to measured ones: a bar for the measurement, a mark for the model, a line for the allowed error.

use super::{Chart, Layout, longest, plain};
use crate::report::number::significant;
use crate::report::scale::Scale;
use crate::report::svg::Svg;

const BAR: f64 = 16.0;
const MARK: f64 = 6.0;

/// A row.
#[derive(Clone, Debug)]
pub struct Foretold {
    /// The name of what was measured.
    pub label: String,
    /// The model's figure.
    pub predicted: f64,
    /// The measured figure.
    pub measured: f64,
    /// The largest error that counts as close: 0.15.
    pub error_max: f64,
}

impl Foretold {
    fn is_near(&self) -> bool {
        (self.predicted / self.measured - 1.0).abs() <= self.error_max
    }

    fn value(&self) -> String {
        let error = (self.predicted / self.measured - 1.0) * 100.0;
        format!("{} for {} ({error:+.0}%)", significant(self.predicted), significant(self.measured))
    }
}

/// `None` if there are no rows.
pub(crate) fn chart(slug: &str, title: &str, rows: &[Foretold], axis: &str) -> Option<Chart> {
    if rows.is_empty() {
        return None;
    }
    let told: Vec<_> = rows.iter().map(|row| format!("{}: {}", row.label, row.value())).collect();
    Some(Chart::new(slug, title, &told.join("; "), |width| draw(width, rows, axis)))
}

fn draw(width: f64, rows: &[Foretold], axis: &str) -> Svg {
    let values: Vec<_> = rows.iter().map(Foretold::value).collect();
    let mut layout = Layout::new(
        width,
        longest(rows.iter().map(|row| row.label.as_str())),
        longest(values.iter().map(String::as_str)),
    );
    let mut svg = Svg::new(width, layout.height(rows.len(), 0));
    let figures = rows.iter().flat_map(|row| [row.predicted, row.measured * (1.0 + row.error_max)]);
    let scale = Scale::from_nought(figures, layout.left, layout.right - 4.0);
    layout.axis(&mut svg, &scale, axis, plain);
    for (row, value) in rows.iter().zip(&values) {
        let middle = layout.row(&mut svg, "label", &row.label, value);
        let begin = scale.place(0.0);
        svg.rect("peer", begin, middle - BAR / 2.0, scale.place(row.measured) - begin, BAR);
        let far = row.measured * row.error_max;
        let ends = (scale.place(row.measured - far), scale.place(row.measured + far));
        super::bars::whisker(&mut svg, ends, middle, 5.0);
        let place = scale.place(row.predicted);
        match row.is_near() {
            true => svg.circle("ours", place, middle, MARK),
            false => svg.diamond("behind", place, middle, MARK + 1.0),
        }
    }
    svg
}
