//! Colours that only the container states.
//!
//! ffprobe's usual answer has what the first frames say. Those of ProRes, AV1 and VP9 always state colours, and "unknown" replaces the container's
//! statement there: PQ would be read as standard range. So if a colour is unknown, ffprobe is asked again, without reading frames.

use std::fs::File;

use super::{Probed, Stream};
use crate::confined::Bounds;
use crate::ffprobe::{ProbeError, ask};
use crate::formats::{self, ReadAhead};
use crate::ingest::{Stop, words};

/// The streams as the container describes them; none if it doesn't.
pub(super) fn streams(
    film: &File,
    bounds: &Bounds,
    stop: &Stop,
) -> Result<Vec<Stream>, ProbeError> {
    let mut arguments = words("-nofind_stream_info -show_streams");
    arguments.extend(formats::film(ReadAhead::Short));
    match ask(film, arguments, bounds, stop) {
        Ok(answer) => {
            let probed = serde_json::from_slice::<Probed>(&answer);
            Ok(probed.map(|one| one.streams).unwrap_or_default())
        }
        Err(ProbeError::Unreadable(_)) => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

impl Probed {
    /// Whether the container may state colours of a picture that frames don't.
    pub(super) fn may_lack_colours(&self) -> bool {
        self.format.is_one_of(&["mov", "matroska"])
            && self.streams.iter().any(|one| {
                one.codec_type.as_deref() == Some("video")
                    && [&one.color_primaries, &one.color_transfer, &one.color_space]
                        .into_iter()
                        .any(|tag| !is_stated(tag.as_deref()))
            })
    }

    /// Adds the colours that only `container` states.
    pub(super) fn add_colours(&mut self, container: &[Stream]) {
        for stream in &mut self.streams {
            let Some(other) = container.iter().find(|one| one.index == stream.index) else {
                continue;
            };
            for (tag, stated) in [
                (&mut stream.color_primaries, &other.color_primaries),
                (&mut stream.color_transfer, &other.color_transfer),
                (&mut stream.color_space, &other.color_space),
            ] {
                if !is_stated(tag.as_deref()) && is_stated(stated.as_deref()) {
                    tag.clone_from(stated);
                    stream.has_colours_of_container = true;
                }
            }
        }
    }
}

/// Whether ffprobe knows a colour.
fn is_stated(tag: Option<&str>) -> bool {
    tag.is_some_and(|tag| tag != "unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_that_only_the_container_states_are_added() {
        let probed = |tags: &str| -> Probed {
            let stream = format!(
                r#"{{"index": 0, "codec_type": "video", "codec_name": "prores", "width": 320, "height": 180, {tags}}}"#
            );
            let format = r#""format": {"format_name": "mov,mp4,m4a,3gp,3g2,mj2"}"#;
            serde_json::from_str(&format!(r#"{{"streams": [{stream}], {format}}}"#)).expect("JSON")
        };
        let stated = r#""color_space": "bt2020nc", "color_transfer": "smpte2084", "color_primaries": "bt2020""#;
        let container = probed(stated).streams;
        for (tags, is_hdr) in [
            (r#""color_space": "unknown", "color_transfer": "unknown""#, true),
            (r#""color_transfer": "bt709""#, false), // frames know better
        ] {
            let mut film = probed(tags);
            assert!(film.may_lack_colours());
            film.add_colours(&container);
            let picture = film.into_source(ReadAhead::Short).video.expect("a picture");
            assert_eq!(picture.colours.is_hdr(), is_hdr, "{tags}");
            // A copy would lose them.
            assert_eq!(picture.colours.completing("av1").is_some(), is_hdr, "{tags}");
        }
        assert!(!probed(stated).may_lack_colours());
    }
}
