//! The title that a session watches, judging by its requests: the title of the first manifest it requested. Until it requests one, it is the
//! title of the first file. (The player may have loaded the manifest before the server restarted, or may need none.)

use catalog::KnownTitles;

/// The path that determines a session's title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    path: Box<str>,
    is_manifest: bool,
}

/// The library itself, as a title.
const LIBRARY: &str = "/";

impl Scope {
    /// The scope after the first request.
    pub(crate) fn of(path: &str, is_manifest: bool) -> Self {
        Self { path: path.into(), is_manifest }
    }

    /// Takes another request into account.
    pub(crate) fn take(&mut self, path: &str, is_manifest: bool) {
        if is_manifest && !self.is_manifest {
            *self = Self::of(path, true);
        }
    }

    /// The title's name.
    pub(crate) fn title(&self, known: &KnownTitles) -> &str {
        // A title ends at the end of the path or before a slash, so it is valid text, too.
        let title = std::str::from_utf8(known.title_of(self.path.as_bytes())).unwrap_or(&self.path);
        if title.is_empty() { LIBRARY } else { title }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(requests: &[&str]) -> String {
        let is_manifest = |path: &str| catalog::is_manifest(path.as_bytes());
        let mut scope = Scope::of(requests[0], is_manifest(requests[0]));
        let mut known = KnownTitles::default();
        for path in requests {
            scope.take(path, is_manifest(path));
            if let Some(folder) = known.news(path.as_bytes()) {
                known.learn(folder);
            }
        }
        scope.title(&known).to_owned()
    }

    #[test]
    fn a_title_is_that_of_the_first_manifest() {
        assert_eq!(
            title(&["films/a/master.m3u8", "films/a/v/1.m3u8", "films/a/v/1.m4s"]),
            "films/a"
        );
        assert_eq!(title(&["films/a/v/1.m3u8", "films/a/master.m3u8"]), "films/a");
        assert_eq!(title(&["films/a/v/1.m4s", "films/a/master.m3u8", "films/b/x.m4s"]), "films/a");
        assert_eq!(title(&["films/a/master.m3u8", "films/b/master.m3u8"]), "films/a");
        assert_eq!(title(&["master.m3u8", "1.m4s"]), "/");
    }

    #[test]
    fn without_a_manifest_it_is_that_of_the_first_file() {
        assert_eq!(title(&["films/a.mp4", "films/b.mp4"]), "films/a.mp4");
        assert_eq!(title(&["f/a/video/1.m4s", "f/a/audio/1.m4s"]), "f/a/video");
        assert_eq!(title(&["f/a/v-0123456789ab/video-720.mp4"]), "f/a");
    }
}
