//! Codecs as manifests name them (RFC 6381), and which ones a player can switch between.
//!
//! A title may exist in several codecs, so that old players find one that they support. A player chooses one kind and stays with it, since
//! another kind needs another decoder. This one takes the first that the manifest names, which every player supports.

/// Prefixes of sound codecs (RFC 6381 and its registry).
const SOUND: [&str; 8] = ["mp4a", "ac-3", "ec-3", "ac-4", "opus", "Opus", "fLaC", "alac"];

/// Pairs of names for the same codec, which differ in where its parameters are stored.
const SAME: [(&str, &str); 3] = [("avc3", "avc1"), ("hev1", "hvc1"), ("dvhe", "dvh1")];

/// Returns true if all of them are sound codecs, and false if there are none.
pub(super) fn are_sound(codecs: &str) -> bool {
    !codecs.is_empty() && codecs.split(',').all(|codec| is_sound(codec.trim()))
}

fn is_sound(codec: &str) -> bool {
    SOUND.iter().any(|sound| codec.starts_with(sound))
}

/// The kind of picture codec in the list; `None` if it names none.
pub(super) fn of_pictures(codecs: &str) -> Option<&str> {
    let codec =
        codecs.split(',').map(str::trim).find(|codec| !codec.is_empty() && !is_sound(codec))?;
    let kind = codec.split('.').next().unwrap_or(codec);
    let same = SAME.iter().find(|(other, _)| *other == kind);
    Some(same.map_or(kind, |(_, same)| *same))
}

/// The kinds of sound codecs in the list, in order.
pub(super) fn of_sounds(codecs: &str) -> Vec<&str> {
    let sounds = codecs.split(',').map(str::trim).filter(|codec| is_sound(codec));
    sounds.map(|codec| codec.split('.').next().unwrap_or(codec)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_from_sound_and_kinds_from_their_parameters() {
        assert_eq!(of_pictures("mp4a.40.2, avc1.64001f"), Some("avc1"));
        assert_eq!(of_pictures("avc3.64001f"), of_pictures("avc1.42c01e,ec-3"));
        assert_ne!(of_pictures("hvc1.2.4.L123"), of_pictures("avc1.64001f"));
        assert_eq!((of_pictures("mp4a.40.2"), of_pictures("")), (None, None));
        assert_eq!(of_sounds("avc1.64001f, ec-3,mp4a.40.2"), ["ec-3", "mp4a"]);
        assert!(
            are_sound("mp4a.40.2,ac-3") && !are_sound("avc1.64001f,mp4a.40.2") && !are_sound("")
        );
    }
}
