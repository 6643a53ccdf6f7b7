//! Memory for the hot set, which caches popular parts of films.

use super::ConfigError;
use catalog::TitlePath;
use serde::{Deserialize, Serialize};

/// Memory for the hot set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// The most bytes that it may use on all nodes together; 0 for no hot set. Unset: a quarter of the memory that is available when the
    /// server starts.
    pub hot_bytes: Option<u64>,
    /// The page size of its memory.
    pub large_pages: LargePages,
    /// Titles to keep in it, by their paths in the library, the most important one first.
    pub pins: Vec<String>,
}

/// Large pages for the hot set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LargePages {
    /// If the kernel grants them.
    #[default]
    Transparent,
    /// From the pool that the operator has reserved.
    Hugetlb,
    /// None.
    Off,
}

impl Memory {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let is_wrong = |title: &&String| TitlePath::new(title).is_err();
        match self.pins.iter().find(is_wrong) {
            None => Ok(()),
            Some(title) => Err(ConfigError::not_of_kind(
                "memory.pins",
                title,
                "titles as in the library, such as \"films/a\" or \"film.mp4\"",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn pins_are_paths_of_titles() {
        let check = |title: &str| {
            let mut config = Config::default();
            config.memory.pins = vec!["film.mp4".into(), title.into()];
            config.check().map_err(|error| error.to_string())
        };
        for title in ["premiere", "series/one", "a film.mp4"] {
            assert_eq!(check(title), Ok(()), "{title}");
        }
        for title in ["", "/", "/premiere", "premiere/", "../a", "a//b", ".hidden"] {
            assert!(check(title).unwrap_err().contains("memory.pins"), "{title}");
        }
    }
}
