//! Numbers for people: three significant digits, thin spaces between thousands, a fitting unit.

/// Separates groups of three digits, and a number from its unit. It is narrow and does not break lines.
pub(crate) const THIN_SPACE: char = '\u{202f}';

const KIBI: f64 = 1024.0;

/// Three significant digits: `0.0412`, `3.14`, `40.2`, `184`, `12 800`. With an exponent only if no plain form is readable.
pub(crate) fn significant(figure: f64) -> String {
    let Some((rounded, exponent)) = rounded(figure) else { return "0".to_owned() };
    match exponent {
        -4..=11 => grouped(rounded, decimals(exponent)),
        _ => format!("{rounded:.2e}"),
    }
}

/// A median and its deviation. The deviation gets the median's decimals, or its first digit if that would be zero.
pub(crate) fn with_spread(median: f64, deviation: f64) -> String {
    let decimals = rounded(median).map_or(0, |(_, exponent)| decimals(exponent));
    let spread = grouped(deviation, decimals);
    let vanishes = !spread.contains(|digit: char| ('1'..='9').contains(&digit));
    let spread = match rounded(deviation) {
        Some((_, exponent @ -6..0)) if vanishes => {
            format!("{deviation:.*}", exponent.unsigned_abs() as usize)
        }
        _ => spread,
    };
    format!("{}{THIN_SPACE}±{THIN_SPACE}{spread}", significant(median))
}

/// A count, with all its digits.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(THIN_SPACE);
        }
        text.push(digit);
    }
    text
}

/// A share, 0 to 1, as a percentage.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = if percent.abs() < 10.0 && percent.fract() != 0.0 {
        format!("{percent:.1}")
    } else {
        format!("{percent:.0}")
    };
    format!("{text}{THIN_SPACE}%")
}

/// A size such as `32 MiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    let (divisor, name) = byte_unit(bytes);
    let figure = bytes / divisor;
    let whole = figure.fract() == 0.0 && figure < 1000.0;
    let text = if whole { format!("{figure:.0}") } else { significant(figure) };
    format!("{text}{THIN_SPACE}{name}")
}

/// The largest binary unit not above `bytes`, and its name.
pub(crate) fn byte_unit(bytes: f64) -> (f64, &'static str) {
    let units = [(KIBI.powi(3), "GiB"), (KIBI.powi(2), "MiB"), (KIBI, "KiB")];
    units.into_iter().find(|(unit, _)| bytes.abs() >= *unit).unwrap_or((1.0, "B"))
}

/// The figure rounded to three significant digits, and the exponent of its first digit; `None` for zero and for anything that is not a
/// number.
fn rounded(figure: f64) -> Option<(f64, i32)> {
    if figure == 0.0 || !figure.is_finite() {
        return None;
    }
    let text = format!("{figure:.2e}");
    let exponent = text.split_once('e')?.1.parse().ok()?;
    Some((text.parse().ok()?, exponent))
}

fn decimals(exponent: i32) -> usize {
    usize::try_from(2 - exponent).unwrap_or(0)
}

/// The figure with this many decimals, and its integer part in groups of three.
fn grouped(figure: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", figure.abs());
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let sign = if figure < 0.0 { "−" } else { "" };
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let cases = [
            (40.234, "40.2"),
            (7.2349, "7.23"),
            (0.041_234, "0.0412"),
            (184.4, "184"),
            (9.996, "10.0"),
            (999.6, "1\u{202f}000"),
            (12_843.0, "12\u{202f}800"),
            (0.0, "0"),
            (f64::NAN, "0"),
            (-2.5, "−2.50"),
            (1e-7, "1.00e-7"),
            (1e20, "1.00e20"),
        ];
        for (figure, text) in cases {
            assert_eq!(significant(figure), text);
        }
    }

    #[test]
    fn a_spread_has_the_decimals_of_its_median_unless_it_would_vanish() {
        let plain = |median, deviation| with_spread(median, deviation).replace(THIN_SPACE, " ");
        assert_eq!(plain(40.21, 0.31), "40.2 ± 0.3");
        assert_eq!(plain(12.8, 0.03), "12.8 ± 0.03");
        assert_eq!(plain(2570.0, 41.2), "2 570 ± 41");
        assert_eq!(plain(5.0, 0.0), "5.00 ± 0.00");
        assert_eq!(plain(0.0, 0.0), "0 ± 0");
    }

    #[test]
    fn bytes_have_the_unit_that_fits() {
        let plain = |count| bytes(count).replace(THIN_SPACE, " ");
        assert_eq!(plain(32.0 * 1_048_576.0), "32 MiB");
        assert_eq!(plain(44.0 * 1024.0 + 512.0), "44.5 KiB");
        assert_eq!(plain(900.0), "900 B");
        assert_eq!(count(1_048_576).replace(THIN_SPACE, " "), "1 048 576");
        assert_eq!(percent(0.853).replace(THIN_SPACE, " "), "85 %");
        assert_eq!(percent(0.0312).replace(THIN_SPACE, " "), "3.1 %");
    }
}
