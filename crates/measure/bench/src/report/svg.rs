//! Writes drawings: rectangles, lines, circles, paths and text, with everything escaped.
//!
//! Why no plotting library: they write colours and fonts into each element, so a drawing cannot follow the reader's light or dark theme,
//! and they pull in rasterizers that are not needed here. Here elements have classes, and `chart.css` defines each class once.
//!
//! Invariants: the output is well-formed XML for any text, and every coordinate is a number.

use std::fmt::Write;

/// A drawing without its frame.
#[derive(Clone, Debug)]
pub(crate) struct Svg {
    /// Width in the drawing's own units, which are CSS pixels at its natural size.
    pub(crate) width: f64,
    /// Height in the same units.
    pub(crate) height: f64,
    body: String,
}

/// Which end of a text is at the given position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty drawing.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A rectangle; draws nothing if it has no size.
    pub(crate) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        if width <= 0.0 || height <= 0.0 {
            return;
        }
        let [x, y, width, height] = [x, y, width, height].map(coordinate);
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#
        ));
    }

    /// A line between two points.
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(coordinate);
        self.push(format_args!(
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        ));
    }

    /// A disc.
    pub(crate) fn circle(&mut self, class: &str, x: f64, y: f64, radius: f64) {
        let [x, y, radius] = [x, y, radius].map(coordinate);
        self.push(format_args!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{radius}"/>"#));
    }

    /// A closed shape through these points.
    pub(crate) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<_> =
            points.iter().map(|(x, y)| format!("{},{}", coordinate(*x), coordinate(*y))).collect();
        self.push(format_args!(r#"<polygon class="{class}" points="{}"/>"#, points.join(" ")));
    }

    /// A diamond around a point.
    pub(crate) fn diamond(&mut self, class: &str, x: f64, y: f64, radius: f64) {
        self.polygon(class, &[(x - radius, y), (x, y - radius), (x + radius, y), (x, y + radius)]);
    }

    /// A text on a base line.
    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (coordinate(x), coordinate(y), escaped(text));
        self.push(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("writing to a string cannot fail");
        self.body.push('\n');
    }

    /// For a page that has the style. `id` distinguishes it from the page's other drawings; `class` is the frame's.
    pub(crate) fn inline(&self, id: &str, class: &str, title: &str, description: &str) -> String {
        let (width, height) = (coordinate(self.width), coordinate(self.height));
        let [title, description] = [title, description].map(escaped);
        format!(
            r#"<svg class="{class}" role="img" aria-labelledby="{id}-title {id}-desc" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title id="{id}-title">{title}</title>
<desc id="{id}-desc">{description}</desc>
{}</svg>
"#,
            self.body
        )
    }

    /// A separate file: the same drawing with its title, on its own background, with `style` inside.
    pub(crate) fn standalone(&self, style: &str, title: &str, description: &str) -> String {
        let (margin, heading) = (20.0, 34.0);
        let (width, height) = (
            coordinate(self.width + 2.0 * margin),
            coordinate(self.height + 2.0 * margin + heading),
        );
        let [title, description] = [title, description].map(escaped);
        format!(
            r#"<svg role="img" aria-labelledby="title desc" width="{width}" height="{height}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title id="title">{title}</title>
<desc id="desc">{description}</desc>
<style>{style}</style>
<rect class="ground" width="{width}" height="{height}"/>
<text class="heading" x="{margin}" y="{}">{title}</text>
<g transform="translate({margin} {})">
{}</g>
</svg>
"#,
            margin + 14.0,
            margin + heading,
            self.body
        )
    }
}

/// Rounds to a tenth of a pixel, as exact as eyes are. Anything that is not a number becomes 0.
fn coordinate(figure: f64) -> f64 {
    if figure.is_finite() { (figure.clamp(-1e6, 1e6) * 10.0).round() / 10.0 } else { 0.0 }
}

/// Text for XML and HTML, also within quotes. Characters that XML 1.0 does not allow (section 2.2), and those that
/// change the direction of the text around them, become U+FFFD.
pub(crate) fn escaped(text: &str) -> String {
    let readable = |character: char| match character {
        '\t' | '\n' | '\r' => ' ',
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other => other,
    };
    escape::xml::escape_attribute(&text.chars().map(readable).collect::<String>())
}

/// Cuts text that is too long for its place.
pub(crate) fn shortened(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(characters_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing() -> Svg {
        let mut svg = Svg::new(100.0, 50.0);
        svg.rect("a", f64::NAN, f64::INFINITY, 10.0, 1e300);
        svg.rect("b", 0.0, 0.0, -1.0, 5.0);
        svg.text("c", 1.0, 2.0, Anchor::Middle, "</text><script>\u{0}\u{1b}\u{202e}\u{ffff}&\"'");
        svg.diamond("d", 5.0, 5.0, 2.0);
        svg
    }

    #[test]
    fn drawings_are_well_formed_whatever_they_are_given() {
        let hostile = "\"><svg onload='x'>\u{8}&nbsp;";
        for text in [
            drawing().inline("id", "wide", hostile, hostile),
            drawing().standalone(".a{}", hostile, hostile),
        ] {
            let document = roxmltree::Document::parse(&text).unwrap();
            assert!(document.descendants().all(|node| node.tag_name().name() != "script"));
            let title =
                document.descendants().find(|node| node.tag_name().name() == "title").unwrap();
            assert!(title.text().unwrap().starts_with("\"><svg onload='x'>"));
        }
    }

    #[test]
    fn no_coordinate_is_anything_but_a_number_and_what_has_no_size_is_left_out() {
        let text = drawing().inline("id", "wide", "", "");
        assert!(!text.contains("NaN") && !text.contains("inf"));
        assert!(!text.contains(r#"class="b""#));
    }

    #[test]
    fn long_texts_are_cut_with_a_sign_of_it() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 4), "abc…");
    }
}
