//! Signed URLs: the keys, and the paths that need a token.

use super::ConfigError;
use fullbore_http::LibraryPath;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Signed URLs: access to paths until a given time, for holders of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signing {
    /// Files with keys; their order does not matter for checking. If empty, nothing needs a token.
    pub keys: Vec<PathBuf>,
    /// Paths that need a token: files, or folders with everything below them, as on disk. `/` is the whole library.
    pub required: Vec<String>,
    /// Accept files without keys. Then nothing needs a token until one of them gets a key.
    pub may_be_empty: bool,
    /// A file with the keys by which nodes of a fleet prove that they copy titles. It may be empty, and changes each day. Requests with a proof
    /// are not counted as views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<PathBuf>,
    /// Files with keys of Common Access Tokens (CTA-5007-B). If empty, such tokens are not accepted.
    pub cat_keys: Vec<PathBuf>,
    /// The issuers whose Common Access Tokens count; empty for every holder of a key.
    pub cat_issuers: Vec<String>,
    /// The names that this server answers to in Common Access Tokens for an audience.
    pub cat_audiences: Vec<String>,
}

impl Default for Signing {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            required: vec!["/".into()],
            may_be_empty: false,
            copies: None,
            cat_keys: Vec::new(),
            cat_issuers: Vec::new(),
            cat_audiences: Vec::new(),
        }
    }
}

impl Signing {
    /// Whether files with keys of any kind are configured.
    pub fn has_files(&self) -> bool {
        !self.keys.is_empty() || !self.cat_keys.is_empty()
    }

    /// Whether the file at `path` in the library needs a token, once there are keys.
    pub fn requires(&self, path: &Path) -> bool {
        let prefixes =
            self.required.iter().map(|prefix| LibraryPath::as_written(prefix.as_bytes()));
        // A folder's name may be decomposed on disk.
        let composed = escape::unicode::composed(path.as_os_str().as_bytes());
        let path = Path::new(OsStr::from_bytes(&composed));
        // Compares whole segments, and an empty prefix covers everything.
        prefixes.flatten().any(|prefix| path.starts_with(prefix.as_path()))
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.cat_keys.is_empty()
            && !(self.cat_issuers.is_empty() && self.cat_audiences.is_empty())
        {
            return Err(ConfigError::CatsWithoutKeys);
        }
        if !self.has_files() && self.required != Self::default().required {
            return Err(ConfigError::RequiredWithoutKeys);
        }
        if self.required.is_empty() {
            return Err(ConfigError::NothingRequired);
        }
        let nameless = |path: &&String| LibraryPath::as_written(path.as_bytes()).is_none();
        match self.required.iter().find(nameless) {
            None => Ok(()),
            Some(path) => Err(ConfigError::not_of_kind(
                "signing.required",
                path,
                "paths as in the library, such as \"films\" or \"films/a.mp4\"",
            )),
        }
    }
}
