//! Names of tracks for players' menus: readable, and different within each group, as HLS requires (RFC 8216 section 4.3.4.1.1).

use super::hls;
use crate::language;
use crate::role::{Medium, with_remarks};
use crate::source::Label;

/// A name that none of `others` has: the track's title or language, with its roles; else with its language, too; else with a number.
pub(super) fn distinct<'o>(
    others: impl Iterator<Item = &'o str> + Clone,
    medium: Medium,
    label: &Label,
) -> String {
    let language = label.language.as_deref().map(language::name);
    let otherwise = match medium {
        Medium::Sound => "Audio",
        Medium::Text => "Subtitles",
    };
    let plain = label.title.as_deref().or(language.as_deref()).unwrap_or(otherwise);
    let wanted = with_remarks(plain.trim(), medium, &label.roles);
    // Playlists replace a few letters, and names have to differ there as well.
    let is_taken = |name: &str| others.clone().any(|other| hls::plain(other) == hls::plain(name));
    if !is_taken(&wanted) {
        return wanted;
    }
    let with_language = language.filter(|_| label.title.is_some());
    let with_language = with_language.map(|language| format!("{wanted} · {language}"));
    let numbered = (2..).map(|number| format!("{wanted} {number}"));
    let mut candidates = with_language.into_iter().chain(numbered);
    // One of the numbers is free.
    candidates.find(|name| !is_taken(name)).unwrap_or(wanted)
}

/// A name that none of `others` has, for a version of a sound named `name`: "English (5.1, AC-3)".
pub(super) fn of_version<'o>(
    others: impl Iterator<Item = &'o str> + Clone,
    name: &str,
    version: &str,
) -> String {
    let wanted = if version.is_empty() { name.to_owned() } else { format!("{name} ({version})") };
    let numbered = (2..).map(|number| format!("{wanted} {number}"));
    let mut candidates = std::iter::once(wanted.clone()).chain(numbered);
    candidates.find(|name| !others.clone().any(|other| other == name)).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;

    fn names(labels: &[Label]) -> Vec<String> {
        labels.iter().fold(Vec::new(), |mut all: Vec<String>, label| {
            let name = distinct(all.iter().map(String::as_str), Medium::Sound, label);
            all.push(name);
            all
        })
    }

    fn label(title: Option<&str>, language: &str, roles: &[Role]) -> Label {
        let title = title.map(str::to_owned);
        let language = Some(language.to_owned()).filter(|tag| !tag.is_empty());
        Label { title, language, roles: roles.to_vec(), is_default: false }
    }

    #[test]
    fn people_can_tell_all_tracks_apart() {
        let all = [
            label(None, "en", &[]),
            label(None, "en", &[Role::Commentary]),
            label(None, "en", &[]),
            label(Some("Surround"), "en", &[]),
            label(Some("Surround"), "de", &[]),
            label(Some("Surround"), "de", &[]),
            label(Some("English"), "en", &[Role::AudioDescription]),
            label(None, "", &[]),
            label(Some("a \"quoted\" one"), "", &[]),
            label(Some("a 'quoted' one"), "", &[]),
        ];
        let expected = [
            "English",
            "English (commentary)",
            "English 2",
            "Surround",
            "Surround · German",
            "Surround 2",
            "English (audio description)",
            "Audio",
            "a \"quoted\" one",
            "a 'quoted' one 2",
        ];
        assert_eq!(names(&all), expected);
    }
}
