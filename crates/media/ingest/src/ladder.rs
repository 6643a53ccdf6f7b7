//! The ladder: the sizes of a film between which players switch.
//!
//! A rung is named by the shorter side of its picture, so portrait and landscape films from a phone get the same quality: 1080 is 1920x1080
//! or 1080x1920. Pictures are never enlarged.

use std::fmt::Display;
use std::path::Path;

use serde::Deserialize;

/// One size of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// The picture's shorter side, in pixels.
    pub height: u32,
    /// The highest rate of the picture in kilobits per second, for H.264 at up to 30 frames a second. Below it quality is constant, so
    /// most films take less.
    pub kbps: u32,
}

/// The possible sizes: at least one, each once, smallest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Vec<Rung>);

/// Why a ladder cannot be used. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LadderError(String);

/// A source that is larger than the next lower rung by less than this factor gets no rung of its own: 1088 lines count as 1080.
const NEARLY: f64 = 1.1;
/// More than any encoder accepts.
const SIDE_PIXELS_MAX: u32 = 8192;
const KBPS_MAX: u32 = 1_000_000;
/// A ladder has a line for each rung.
const FILE_BYTES_MAX: u32 = 1 << 20;

impl Default for Ladder {
    /// From one rung to the next the rate grows by a factor of 1.6 to 2, as Apple's authoring specification for HLS requires (section 1,
    /// "average segment bit rate between adjacent variants").
    fn default() -> Self {
        let rungs = [
            (240, 400),
            (360, 800),
            (540, 1600),
            (720, 3000),
            (1080, 5500),
            (1440, 10_000),
            (2160, 18_000),
        ];
        Self(rungs.map(|(height, kbps)| Rung { height, kbps }).to_vec())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rungs: Vec<Rung>,
}

impl Ladder {
    /// A ladder of these rungs, in any order.
    ///
    /// # Errors
    /// If there is no rung, two have the same height, or one cannot be encoded.
    pub fn new(mut rungs: Vec<Rung>) -> Result<Self, LadderError> {
        rungs.sort_by_key(|rung| rung.height);
        if rungs.is_empty() {
            return Err(LadderError("a ladder needs at least one rung".into()));
        }
        if let Some(twice) = rungs.windows(2).find(|two| two[0].height == two[1].height) {
            return Err(LadderError(format!("there are two rungs of height {}", twice[0].height)));
        }
        for Rung { height, kbps } in &rungs {
            if !(16..=SIDE_PIXELS_MAX).contains(height) {
                return Err(LadderError(format!(
                    "height = {height} is not between 16 and {SIDE_PIXELS_MAX}"
                )));
            }
            if !(10..=KBPS_MAX).contains(kbps) {
                return Err(LadderError(format!("kbps = {kbps} is not between 10 and {KBPS_MAX}")));
            }
        }
        Ok(Self(rungs))
    }

    /// Reads a ladder from a file: TOML, or JSON if its name ends in `.json`.
    ///
    /// # Errors
    /// If the file cannot be read or is not a ladder. The error names the file, and the line if it is known.
    pub fn read(path: &Path) -> Result<Self, LadderError> {
        let within = |error: &dyn Display| LadderError(format!("{}: {error}", path.display()));
        let text = files::read_text(path, FILE_BYTES_MAX).map_err(|error| {
            LadderError(format!("cannot read the ladder {}: {error}", path.display()))
        })?;
        let is_json = path.extension().is_some_and(|found| found.eq_ignore_ascii_case("json"));
        let written: Written = if is_json {
            serde_json::from_str(&text).map_err(|error| within(&error))?
        } else {
            let plain = |error: toml::de::Error| files::in_plain_words(&error.to_string());
            toml::from_str(&text).map_err(|error| within(&plain(error)))?
        };
        Self::new(written.rungs).map_err(|error| within(&error))
    }

    /// Its largest rung.
    pub(crate) fn largest(&self) -> Rung {
        *self.0.last().expect("a ladder has at least one rung")
    }

    /// The rungs for a picture whose shorter side is `side` pixels: every rung that is not larger. If the largest of those is much smaller, or
    /// there is none, a rung of the picture's own size is added.
    pub(crate) fn rungs_for(&self, side: u32) -> Vec<Rung> {
        let mut rungs: Vec<_> = self.0.iter().copied().filter(|rung| rung.height <= side).collect();
        let largest = rungs.last().map_or(0, |rung| rung.height);
        let is_last_of_all = self.0.last().is_some_and(|last| last.height == largest);
        if !is_last_of_all && f64::from(side) > f64::from(largest) * NEARLY {
            rungs.push(Rung { height: side, kbps: self.kbps_at(side) });
        }
        rungs
    }

    /// The rate for a picture of this size, interpolated by area between the rungs around it.
    fn kbps_at(&self, side: u32) -> u32 {
        let area = |rung: &Rung| f64::from(rung.height).powi(2);
        let above = self.0.iter().find(|rung| rung.height >= side);
        let below = self.0.iter().rev().find(|rung| rung.height < side);
        let wanted = f64::from(side).powi(2);
        let kbps = match (below, above) {
            (Some(below), Some(above)) => {
                let part = (wanted - area(below)) / (area(above) - area(below));
                f64::from(below.kbps) + part * (f64::from(above.kbps) - f64::from(below.kbps))
            }
            (Some(one), None) | (None, Some(one)) => f64::from(one.kbps) * wanted / area(one),
            (None, None) => 0.0, // there is at least one
        };
        (kbps.round() as u32).max(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn heights(side: u32) -> Vec<u32> {
        Ladder::default().rungs_for(side).iter().map(|rung| rung.height).collect()
    }

    #[test]
    fn no_rung_is_larger_than_the_picture() {
        for side in 16..=4400 {
            assert!(heights(side).iter().all(|&height| height <= side), "{side}");
        }
    }

    #[test]
    fn a_picture_gets_the_rungs_below_it_and_its_own_size_where_that_is_a_gain() {
        assert_eq!(heights(1080), [240, 360, 540, 720, 1080]);
        assert_eq!(heights(1088), [240, 360, 540, 720, 1080]);
        assert_eq!(heights(804), [240, 360, 540, 720, 804]);
        assert_eq!(heights(480), [240, 360, 480]);
        assert_eq!(heights(120), [120]);
        assert_eq!(heights(4320), [240, 360, 540, 720, 1080, 1440, 2160]);
    }

    #[test]
    fn sizes_between_two_rungs_take_a_rate_between_theirs() {
        let kbps = |side| Ladder::default().rungs_for(side).last().unwrap().kbps;
        assert!((3000..5500).contains(&kbps(804)), "{}", kbps(804));
        assert!(kbps(120) < 400);
    }

    #[test]
    fn ladders_that_cannot_be_say_why() {
        let rung = |height, kbps| Rung { height, kbps };
        for (rungs, why) in [
            (vec![], "at least one"),
            (vec![rung(360, 800), rung(360, 900)], "two rungs"),
            (vec![rung(0, 800)], "height = 0"),
            (vec![rung(360, 0)], "kbps = 0"),
        ] {
            let said = Ladder::new(rungs).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn ladders_are_read_from_toml_and_json() {
        let folder = tempfile::tempdir().unwrap();
        let toml = folder.path().join("ladder.toml");
        fs::write(
            &toml,
            "rungs = [\n { height = 720, kbps = 2000 },\n { height = 360, kbps = 500 }]",
        )
        .unwrap();
        let json = folder.path().join("ladder.json");
        fs::write(
            &json,
            r#"{"rungs": [{"height": 360, "kbps": 500}, {"height": 720, "kbps": 2000}]}"#,
        )
        .unwrap();
        assert_eq!(Ladder::read(&toml).unwrap(), Ladder::read(&json).unwrap());
        fs::write(&toml, "rungs = [{ height = 720, kbit = 2000 }]").unwrap();
        let said = Ladder::read(&toml).unwrap_err().to_string();
        assert!(said.contains("ladder.toml") && said.contains("kbit"), "{said}");
        fs::write(&toml, "rungs = [{ height = \"720\", kbps = 2000 }]").unwrap();
        let said = Ladder::read(&toml).unwrap_err().to_string();
        assert!(said.contains("the text \"720\"; write a whole number"), "{said}");
    }
}
