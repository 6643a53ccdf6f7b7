//! The purpose of a track, apart from its language: commentary, audio description, captions for the hard of hearing and so on.
//!
//! Containers mark it with flags, which ffprobe reports as dispositions. Many files only have a title such as "Director's commentary", so
//! without any such flag the title's words count, but only words that mean nothing else.

/// The purpose of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Somebody comments on the film.
    Commentary,
    /// Sound that also says what the picture shows.
    AudioDescription,
    /// Subtitles that also name sounds and speakers (SDH), or sound with clearer speech.
    HardOfHearing,
    /// Subtitles of speech that the film's usual viewers don't understand. Players show them unasked.
    Forced,
    /// In another language than the film was made in.
    Dub,
    /// In the language that the film was made in.
    Original,
    /// The words of songs.
    Lyrics,
    /// Songs to sing along with.
    Karaoke,
}

use Role::{AudioDescription, Commentary, Dub, Forced, HardOfHearing, Karaoke, Lyrics, Original};

/// The kind of a track, on which the meaning of a flag depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Sound,
    Text,
}

/// ffprobe's dispositions (libavformat/avformat.h), with the roles that they mean for sound and for text.
const DISPOSITIONS: [(&str, Option<Role>, Option<Role>); 9] = [
    ("comment", Some(Commentary), Some(Commentary)),
    ("visual_impaired", Some(AudioDescription), None),
    ("hearing_impaired", Some(HardOfHearing), Some(HardOfHearing)),
    ("captions", None, Some(HardOfHearing)),
    ("forced", None, Some(Forced)),
    ("dub", Some(Dub), Some(Dub)),
    ("original", Some(Original), Some(Original)),
    ("lyrics", None, Some(Lyrics)),
    ("karaoke", Some(Karaoke), Some(Karaoke)),
];

/// Phrases of titles in lower case, with the roles that they mean for sound and for text.
const PHRASES: [(&str, Option<Role>, Option<Role>); 9] = [
    ("commentary", Some(Commentary), Some(Commentary)),
    ("audio description", Some(AudioDescription), None),
    ("audio descriptive", Some(AudioDescription), None),
    ("descriptive audio", Some(AudioDescription), None),
    ("sdh", None, Some(HardOfHearing)),
    ("hearing impaired", None, Some(HardOfHearing)),
    ("hard of hearing", None, Some(HardOfHearing)),
    ("forced", None, Some(Forced)),
    ("karaoke", Some(Karaoke), Some(Karaoke)),
];

/// Words that turn the phrase after them into its opposite, as in "non-forced".
const NEGATIONS: [&str; 4] = ["no", "non", "not", "without"];

/// The roles of a track, by its dispositions, or else by its title. Each at most once.
pub(crate) fn roles(medium: Medium, has: impl Fn(&str) -> bool, title: Option<&str>) -> Vec<Role> {
    let of = |sound: Option<Role>, text| if medium == Medium::Sound { sound } else { text };
    let flags = DISPOSITIONS.iter().filter(|(flag, ..)| has(flag));
    let flagged = distinct(flags.filter_map(|(_, sound, text)| of(*sound, *text)));
    let Some(title) = title.filter(|_| flagged.is_empty()) else { return flagged };
    let words = words(title);
    let phrases = PHRASES.iter().filter(|(phrase, ..)| says(&words, phrase));
    distinct(phrases.filter_map(|(_, sound, text)| of(*sound, *text)))
}

fn distinct(roles: impl Iterator<Item = Role>) -> Vec<Role> {
    roles.fold(Vec::new(), |mut all, role| {
        if !all.contains(&role) {
            all.push(role);
        }
        all
    })
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Whether the words contain the phrase, and not its negation.
fn says(words: &[String], phrase: &str) -> bool {
    let phrase: Vec<_> = phrase.split(' ').collect();
    let is_negated = |at: usize| at > 0 && NEGATIONS.contains(&words[at - 1].as_str());
    let mut places = words.windows(phrase.len()).enumerate();
    places.any(|(at, some)| some.iter().eq(phrase.iter()) && !is_negated(at))
}

impl Role {
    /// The word for it in `title.json`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Commentary => "commentary",
            AudioDescription => "audio-description",
            HardOfHearing => "hard-of-hearing",
            Forced => "forced",
            Dub => "dub",
            Original => "original",
            Lyrics => "lyrics",
            Karaoke => "karaoke",
        }
    }

    /// What to add to a track's name, so that viewers can distinguish it from others in its language.
    fn remark(self, medium: Medium) -> &'static str {
        match (self, medium) {
            (AudioDescription, _) => "audio description",
            (HardOfHearing, Medium::Text) => "SDH",
            (HardOfHearing, Medium::Sound) => "clear speech",
            (Dub, _) => "dubbed",
            (role, _) => role.word(),
        }
    }

    /// Whether a name says so already.
    fn is_in(self, medium: Medium, name: &str) -> bool {
        let words = words(name);
        let phrases =
            PHRASES.iter().filter(|(_, sound, text)| [*sound, *text].contains(&Some(self)));
        let mut known = phrases.map(|(phrase, ..)| *phrase).chain([self.word()]);
        known.any(|phrase| says(&words, phrase))
            || says(&words, &self.remark(medium).to_lowercase())
    }
}

/// `name`, with the roles that it does not mention: "English (commentary)".
pub(crate) fn with_remarks(name: &str, medium: Medium, roles: &[Role]) -> String {
    let missing = roles.iter().filter(|role| !role.is_in(medium, name));
    let remarks: Vec<_> = missing.map(|role| role.remark(medium)).collect();
    if remarks.is_empty() { name.to_owned() } else { format!("{name} ({})", remarks.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_title(medium: Medium, title: &str) -> Vec<Role> {
        roles(medium, |_| false, Some(title))
    }

    #[test]
    fn dispositions_count_before_words() {
        let comment = |flag: &str| flag == "comment" || flag == "default";
        assert_eq!(roles(Medium::Sound, comment, Some("Audio description")), [Commentary]);
        let none: [Role; 0] = [];
        assert_eq!(roles(Medium::Sound, |flag| flag == "forced", None), none);
        let both = |flag: &str| ["captions", "hearing_impaired", "forced"].contains(&flag);
        assert_eq!(roles(Medium::Text, both, None), [HardOfHearing, Forced]);
    }

    #[test]
    fn only_unambiguous_words_count() {
        for (title, sound, text) in [
            ("Director's Commentary", vec![Commentary], vec![Commentary]),
            ("English [SDH]", vec![], vec![HardOfHearing]),
            ("FORCED", vec![], vec![Forced]),
            ("Full (non-forced)", vec![], vec![]),
            ("Without commentary", vec![], vec![]),
            ("Audio Description (UK)", vec![AudioDescription], vec![]),
            ("Comments", vec![], vec![]),
            ("Reinforced concrete", vec![], vec![]),
            ("AD", vec![], vec![]),
            ("SDH & forced", vec![], vec![HardOfHearing, Forced]),
        ] {
            assert_eq!(by_title(Medium::Sound, title), sound, "{title}");
            assert_eq!(by_title(Medium::Text, title), text, "{title}");
        }
    }

    #[test]
    fn a_name_says_each_role_once() {
        let sound = |name, roles: &[Role]| with_remarks(name, Medium::Sound, roles);
        assert_eq!(sound("English", &[]), "English");
        assert_eq!(sound("English", &[AudioDescription]), "English (audio description)");
        assert_eq!(sound("Director's commentary", &[Commentary]), "Director's commentary");
        assert_eq!(sound("German", &[Dub, HardOfHearing]), "German (dubbed, clear speech)");
        assert_eq!(with_remarks("English SDH", Medium::Text, &[HardOfHearing]), "English SDH");
        assert_eq!(with_remarks("English", Medium::Text, &[HardOfHearing]), "English (SDH)");
    }
}
