//! Settings of a cue: `line:10% position:50%,line-left align:start region:r`. Unknown and invalid ones are left out, as players do.

/// The valid settings in `text`, separated by spaces.
pub(super) fn valid(text: &str) -> String {
    let settings = text.split_whitespace().filter(|setting| is_valid(setting));
    settings.collect::<Vec<_>>().join(" ")
}

fn is_valid(setting: &str) -> bool {
    let Some((name, value)) = setting.split_once(':') else { return false };
    let (first, alignment) =
        value.split_once(',').map_or((value, None), |(first, rest)| (first, Some(rest)));
    match name {
        "vertical" => ["rl", "lr"].contains(&value),
        "line" => {
            (is_percentage(first) || is_line(first))
                && alignment.is_none_or(|one| ["start", "center", "end"].contains(&one))
        }
        "position" => {
            is_percentage(first)
                && alignment.is_none_or(|one| ["line-left", "center", "line-right"].contains(&one))
        }
        "size" => is_percentage(value),
        "align" => ["start", "center", "end", "left", "right"].contains(&value),
        "region" => !value.is_empty() && !value.contains("-->"),
        _ => false,
    }
}

/// A whole number, which may be negative.
fn is_line(text: &str) -> bool {
    is_digits(text.strip_prefix('-').unwrap_or(text))
}

/// From 0 to 100, with or without a fraction.
fn is_percentage(text: &str) -> bool {
    let Some(number) = text.strip_suffix('%') else { return false };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    is_digits(whole)
        && is_digits(fraction)
        && number.parse().is_ok_and(|number: f64| number <= 100.0)
}

/// The longest number of a setting; more digits have no meaning.
const DIGITS_MAX: usize = 20;

fn is_digits(text: &str) -> bool {
    (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}
