//! The metadata that goes with a high dynamic range. Static metadata describes the whole film: the screen on which it was mastered (SMPTE ST
//! 2086) and its brightest pixels (CTA-861.3). It is in the stream's description, or only in its frames. Dynamic metadata, HDR10+ (SMPTE ST
//! 2094-40), is only in frames.

use serde::Deserialize;
use serde_json::Value;

/// HDR10+ in ffprobe's answer: "HDR Dynamic Metadata SMPTE2094-40 (HDR10+)".
const HDR10_PLUS: &str = "SMPTE2094-40";

/// The metadata of a picture, as far as it has any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HdrMetadata {
    pub(crate) mastering: Option<Mastering>,
    pub(crate) light: Option<LightLevel>,
    pub(crate) has_hdr10_plus: bool,
}

/// The screen on which a film was mastered, in the units of HEVC and MP4 (ITU-T H.265 section D.3.28, ISO/IEC 14496-12 'mdcv').
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mastering {
    /// Green, blue, red, white: x and y in 1/50,000.
    pub(crate) points: [[u16; 2]; 4],
    /// In 1/10,000 cd/m².
    pub(crate) luminance_max: u32,
    /// In 1/10,000 cd/m².
    pub(crate) luminance_min: u32,
}

/// The brightest pixel of a film, and its brightest frame on average, in cd/m².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LightLevel {
    pub(crate) content_max: u16,
    pub(crate) frame_average_max: u16,
}

/// One entry of ffprobe's `side_data_list`, of a stream or a frame. Other entries have other fields, or these with other types.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct HdrSideData {
    side_data_type: Value,
    red_x: Value,
    red_y: Value,
    green_x: Value,
    green_y: Value,
    blue_x: Value,
    blue_y: Value,
    white_point_x: Value,
    white_point_y: Value,
    min_luminance: Value,
    max_luminance: Value,
    max_content: Value,
    max_average: Value,
}

const POINT_UNITS: f64 = 50_000.0;
const LUMINANCE_UNITS: f64 = 10_000.0;

impl HdrSideData {
    /// `None` unless all fields are there: neither HEVC nor MP4 has a form for a part of them.
    fn mastering(&self) -> Option<Mastering> {
        let part = |value: &Value| u16::try_from(units(value, POINT_UNITS)?).ok();
        let point = |x: &Value, y: &Value| Some([part(x)?, part(y)?]);
        Some(Mastering {
            points: [
                point(&self.green_x, &self.green_y)?,
                point(&self.blue_x, &self.blue_y)?,
                point(&self.red_x, &self.red_y)?,
                point(&self.white_point_x, &self.white_point_y)?,
            ],
            luminance_max: units(&self.max_luminance, LUMINANCE_UNITS)?,
            luminance_min: units(&self.min_luminance, LUMINANCE_UNITS)?,
        })
    }

    fn is_hdr10_plus(&self) -> bool {
        self.side_data_type.as_str().is_some_and(|name| name.contains(HDR10_PLUS))
    }

    fn light(&self) -> Option<LightLevel> {
        Some(LightLevel {
            content_max: u16::try_from(self.max_content.as_u64()?).ok()?,
            frame_average_max: u16::try_from(self.max_average.as_u64()?).ok()?,
        })
    }
}

/// A fraction, "34000/50000", in whole units.
fn units(fraction: &Value, per_one: f64) -> Option<u32> {
    let (over, under) = fraction.as_str()?.split_once('/')?;
    let value = over.parse::<f64>().ok()? / under.parse::<f64>().ok()? * per_one;
    (value.is_finite() && (0.0..=f64::from(u32::MAX)).contains(&value))
        .then(|| value.round() as u32)
}

impl HdrMetadata {
    /// The metadata in a list of side data.
    pub(crate) fn of<'d>(all: impl Iterator<Item = &'d HdrSideData> + Clone) -> Self {
        Self {
            mastering: all.clone().find_map(HdrSideData::mastering),
            light: all.clone().find_map(HdrSideData::light),
            has_hdr10_plus: all.clone().any(HdrSideData::is_hdr10_plus),
        }
    }

    /// The metadata in ffprobe's answer about frames. An answer in another form has none: a film plays without it.
    pub(crate) fn of_frames(answer: &[u8]) -> Self {
        let frames =
            serde_json::from_slice(answer).map_or_else(|_| Vec::new(), |all: Answer| all.frames);
        Self::of(frames.iter().flat_map(|frame| &frame.side_data_list))
    }

    /// This metadata, completed by `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            mastering: self.mastering.or(other.mastering),
            light: self.light.or(other.light),
            has_hdr10_plus: self.has_hdr10_plus || other.has_hdr10_plus,
        }
    }

    /// The static metadata as parameters of x265, each with ":" in front.
    pub(crate) fn for_x265(&self) -> String {
        let mastering = self.mastering.map(|one| {
            let [green, blue, red, white] = one.points.map(|[x, y]| format!("({x},{y})"));
            let (max, min) = (one.luminance_max, one.luminance_min);
            format!(":master-display=G{green}B{blue}R{red}WP{white}L({max},{min})")
        });
        let light =
            self.light.map(|one| format!(":max-cll={},{}", one.content_max, one.frame_average_max));
        [mastering, light].into_iter().flatten().collect()
    }

    /// The static metadata as parameters of SVT-AV1, each with ":" in front.
    pub(crate) fn for_svt_av1(&self) -> String {
        let mastering = self.mastering.map(|one| {
            let part = |value: u16| f64::from(value) / POINT_UNITS;
            let [green, blue, red, white] =
                one.points.map(|[x, y]| format!("({:.5},{:.5})", part(x), part(y)));
            let light = |value: u32| f64::from(value) / LUMINANCE_UNITS;
            let (max, min) = (light(one.luminance_max), light(one.luminance_min));
            format!(":mastering-display=G{green}B{blue}R{red}WP{white}L({max:.4},{min:.4})")
        });
        let light = self
            .light
            .map(|one| format!(":content-light={},{}", one.content_max, one.frame_average_max));
        [mastering, light].into_iter().flatten().collect()
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    side_data_list: Vec<HdrSideData>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: &str = r#"{"frames": [{"side_data_list": [
        {"side_data_type": "Mastering display metadata", "red_x": "44564/65536", "red_y": "16000/50000", "green_x": "13250/50000",
         "green_y": "34500/50000", "blue_x": "7500/50000", "blue_y": "3000/50000", "white_point_x": "15635/50000",
         "white_point_y": "16450/50000", "min_luminance": "1/10000", "max_luminance": "256000/256"},
        {"side_data_type": "Content light level metadata", "max_content": 1000, "max_average": 400},
        {"side_data_type": "H.26[45] User Data Unregistered SEI message"}]}]}"#;

    #[test]
    fn static_metadata_is_passed_on_in_the_units_of_each_encoder() {
        let found = HdrMetadata::of_frames(FRAME.as_bytes());
        assert!(!found.has_hdr10_plus);
        assert_eq!(
            found.for_x265(),
            ":master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400"
        );
        assert_eq!(
            found.for_svt_av1(),
            ":mastering-display=G(0.26500,0.69000)B(0.15000,0.06000)R(0.68000,0.32000)WP(0.31270,0.32900)L(1000.0000,0.0001)\
             :content-light=1000,400"
        );
    }

    #[test]
    fn metadata_that_is_incomplete_or_impossible_is_left_out() {
        for (old, new) in [
            ("\"red_x\"", "\"other\""),
            ("44564/65536", "-1/65536"),
            ("44564/65536", "1/0"),
            ("44564/65536", "99999999/1"),
            ("256000/256", "1e300/1"),
            ("1/10000", "none"),
        ] {
            let found = HdrMetadata::of_frames(FRAME.replacen(old, new, 1).as_bytes());
            assert_eq!((found.mastering, found.light.is_some()), (None, true), "{new}");
        }
        let found = HdrMetadata::of_frames(FRAME.replacen("1000,", "65536,", 1).as_bytes());
        assert_eq!((found.mastering.is_some(), found.light), (true, None));
        assert_eq!(HdrMetadata::of_frames(b"{}"), HdrMetadata::default());
        assert_eq!(HdrMetadata::of_frames(b"no"), HdrMetadata::default());
        let plus = FRAME.replacen(
            "Content light level metadata",
            "HDR Dynamic Metadata SMPTE2094-40 (HDR10+)",
            1,
        );
        assert!(HdrMetadata::of_frames(plus.as_bytes()).has_hdr10_plus);
    }
}
