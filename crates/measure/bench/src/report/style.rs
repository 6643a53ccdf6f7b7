//! The report's look in one place: named colours for light and dark, and the classes of charts and pages.
//!
//! Ours is blue, others are grey, losses are orange. They can be told apart by colour with every kind of colour blindness, and without
//! colour by name and shape. Text has a contrast of at least 4.5 to its background, marks of at least 3 (WCAG 2.2, 1.4.3 and 1.4.11).

use std::fmt::Write;

const CHART: &str = include_str!("chart.css");
const PAGE: &str = include_str!("page.css");

/// Name, light, dark.
const COLOURS: [(&str, &str, &str); 18] = [
    ("ground", "#fcfcfb", "#15181c"),
    ("raised", "#f3f4f5", "#1d2126"),
    ("ink", "#1b1f24", "#e7e9ec"),
    ("muted", "#59616b", "#a2abb5"),
    ("grid", "#e2e5e8", "#2c3239"),
    ("ours", "#2563c9", "#6aa0ff"),
    ("ours-ink", "#1c4fa6", "#8fb8ff"),
    ("peer", "#868e98", "#7e8792"),
    ("loss", "#b84a0e", "#ff9a57"),
    ("loss-soft", "#fbe9dd", "#3a2417"),
    ("tone0", "#1c4fa6", "#8fb8ff"),
    ("tone1", "#79a6ec", "#3f6fc0"),
    ("tone2", "#59616b", "#a2abb5"),
    ("tone3", "#a9b2bc", "#4f5863"),
    ("tone4", "#173a75", "#c4d9ff"),
    ("on-dark", "#ffffff", "#10151c"),
    ("on-light", "#10151c", "#ffffff"),
    ("focus", "#1c4fa6", "#8fb8ff"),
];

/// For the page: colours as variables, then the rules.
pub(crate) fn page() -> String {
    let variables =
        |pick: fn(&(&str, &str, &str)) -> String| -> String { COLOURS.iter().map(pick).collect() };
    let light = variables(|(name, light, _)| format!("--{name}:{light};"));
    let dark = variables(|(name, _, dark)| format!("--{name}:{dark};"));
    format!(
        ":root{{color-scheme:light dark;{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n{PAGE}{CHART}"
    )
}

/// For a file with one chart: without variables, which presentation programs do not support.
pub(crate) fn resolved() -> String {
    let mut style = with_colours(|(_, light, _)| light);
    let dark = with_colours(|(_, _, dark)| dark);
    write!(style, "@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
        .expect("writing to a string cannot fail");
    style
}

fn with_colours(
    pick: impl Fn(&(&'static str, &'static str, &'static str)) -> &'static str,
) -> String {
    COLOURS.iter().fold(CHART.to_owned(), |style, colour| {
        style.replace(&format!("var(--{})", colour.0), pick(colour))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_that_is_used_is_said_and_the_other_way_round() {
        assert!(!resolved().contains("var("));
        for (name, ..) in COLOURS {
            assert!(
                format!("{PAGE}{CHART}").contains(&format!("var(--{name})")),
                "{name} is not used"
            );
        }
        let said = page();
        for used in said.split("var(--").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(COLOURS.iter().any(|(name, ..)| *name == used), "{used} is not said");
        }
    }

    /// WCAG 2.2: (lighter + 0.05) / (darker + 0.05) of relative luminances.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour: &str| -> f64 {
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn contrasts_suffice_in_light_and_in_dark() {
        let of = |name: &str, dark: bool| {
            let (_, light, of_dark) = COLOURS.iter().find(|(known, ..)| *known == name).unwrap();
            if dark { *of_dark } else { *light }
        };
        let pairs = [
            ("ink", "ground", 4.5),
            ("muted", "ground", 4.5),
            ("ours-ink", "ground", 4.5),
            ("loss", "ground", 4.5),
            ("ink", "raised", 4.5),
            ("muted", "raised", 4.5),
            ("ours", "ground", 3.0),
            ("peer", "ground", 3.0),
            ("on-dark", "tone0", 4.5),
            ("on-light", "tone1", 4.5),
            ("on-dark", "tone2", 4.5),
            ("on-light", "tone3", 4.5),
            ("on-dark", "tone4", 4.5),
        ];
        for dark in [false, true] {
            for (front, back, least) in pairs {
                let contrast = contrast(of(front, dark), of(back, dark));
                assert!(contrast >= least, "{front} on {back}, dark {dark}: {contrast:.2}");
            }
        }
    }
}
