//! Colours of text, as the classes that every WebVTT player knows (WebVTT section 5, "Default text colors").
//!
//! Any other colour becomes the nearest of them. A STYLE block could name it exactly, but ffmpeg before version 6 reads no cues after one.
//! White is the default, and black would be unreadable on the default black background, so neither has a class here.

/// A class of colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Colour {
    Lime,
    Cyan,
    Red,
    Yellow,
    Magenta,
    Blue,
}

/// Red, green and blue.
pub(super) type Rgb = (u8, u8, u8);

const CLASSES: [(Option<Colour>, Rgb); 8] = [
    (None, (255, 255, 255)),
    (None, (0, 0, 0)),
    (Some(Colour::Lime), (0, 255, 0)),
    (Some(Colour::Cyan), (0, 255, 255)),
    (Some(Colour::Red), (255, 0, 0)),
    (Some(Colour::Yellow), (255, 255, 0)),
    (Some(Colour::Magenta), (255, 0, 255)),
    (Some(Colour::Blue), (0, 0, 255)),
];

/// Names of HTML that people use in subtitles.
const NAMES: [(&str, Rgb); 20] = [
    ("white", (255, 255, 255)),
    ("silver", (192, 192, 192)),
    ("gray", (128, 128, 128)),
    ("grey", (128, 128, 128)),
    ("black", (0, 0, 0)),
    ("red", (255, 0, 0)),
    ("maroon", (128, 0, 0)),
    ("yellow", (255, 255, 0)),
    ("gold", (255, 215, 0)),
    ("orange", (255, 165, 0)),
    ("lime", (0, 255, 0)),
    ("green", (0, 128, 0)),
    ("aqua", (0, 255, 255)),
    ("cyan", (0, 255, 255)),
    ("teal", (0, 128, 128)),
    ("blue", (0, 0, 255)),
    ("navy", (0, 0, 128)),
    ("magenta", (255, 0, 255)),
    ("fuchsia", (255, 0, 255)),
    ("purple", (128, 0, 128)),
];

impl Colour {
    /// The nearest class, or `None` for white and black.
    pub(super) fn nearest(rgb: Rgb) -> Option<Self> {
        let apart = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        let distance = |(r, g, b): Rgb| apart(r, rgb.0) + apart(g, rgb.1) + apart(b, rgb.2);
        CLASSES.iter().min_by_key(|(_, known)| distance(*known)).and_then(|(class, _)| *class)
    }

    /// The colour of HTML's `color` attribute: a name, or `#rrggbb`, with or without the `#`.
    pub(super) fn of_html(value: &str) -> Option<Self> {
        let value = value.trim();
        let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
        let rgb = named.map(|(_, rgb)| *rgb).or_else(|| hex(value.trim_start_matches('#')));
        rgb.and_then(Self::nearest)
    }

    /// The colour of a style or tag of ASS: `&HBBGGRR&`, `&HAABBGGRR`, or a decimal number.
    pub(super) fn of_ass(value: &str) -> Option<Self> {
        let value = value.trim().trim_end_matches('&');
        let hexadecimal = value.strip_prefix("&H").or_else(|| value.strip_prefix("&h"));
        let number = match hexadecimal {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => value.trim_start_matches('&').parse::<i64>().ok()? as u32,
        };
        let [_, blue, green, red] = number.to_be_bytes();
        Self::nearest((red, green, blue))
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Lime => "lime",
            Self::Cyan => "cyan",
            Self::Red => "red",
            Self::Yellow => "yellow",
            Self::Magenta => "magenta",
            Self::Blue => "blue",
        }
    }
}

fn hex(digits: &str) -> Option<Rgb> {
    let is_hex = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    let [_, red, green, blue] = number.to_be_bytes();
    Some((red, green, blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_html_and_ass_become_the_nearest_class() {
        for (value, expected) in [
            ("yellow", Some(Colour::Yellow)),
            ("#FFFF00", Some(Colour::Yellow)),
            ("ffcc00", Some(Colour::Yellow)),
            ("Green", Some(Colour::Lime)),
            ("white", None),
            ("#000000", None),
            ("#ää", None),
            ("", None),
        ] {
            assert_eq!(Colour::of_html(value), expected, "{value}");
        }
        for (value, expected) in [
            ("&H0000FFFF", Some(Colour::Yellow)),
            ("&H00FFFF&", Some(Colour::Yellow)),
            ("&HFF0000&", Some(Colour::Blue)),
            ("65535", Some(Colour::Yellow)),
            ("&Hffffff", None),
            ("&H", None),
            ("-1", None),
        ] {
            assert_eq!(Colour::of_ass(value), expected, "{value}");
        }
    }
}
