//! Which title a session watches, as far as its requests tell.
//!
//! A title is the folder of the manifest that the session began with. If no manifest was seen (it may have come before the server
//! restarted, or the player needs none), it is the file while there is one only, and then the folder that holds all that was asked for.
//! This fits what `fullbore` lists as titles, without knowing the list.

/// What a session has asked for so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    title: String,
    by_manifest: bool,
}

impl Scope {
    /// Of the first request.
    pub(crate) fn of(path: &str, is_manifest: bool) -> Self {
        let title = if is_manifest { folder_of(path) } else { path };
        Self { title: title.to_owned(), by_manifest: is_manifest }
    }

    /// The title's name.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Takes another request into account.
    pub(crate) fn widen(&mut self, path: &str, is_manifest: bool) {
        if is_manifest {
            let folder = folder_of(path);
            // A playlist deeper down belongs to the master playlist.
            if !self.by_manifest || is_within(&self.title, folder) {
                *self = Self::of(path, true);
            }
        } else if !self.by_manifest && !is_within(path, &self.title) {
            let common = common_folder(&self.title, path);
            if !common.is_empty() {
                self.title = common.to_owned();
            }
        }
    }
}

/// The folder of a file; the file itself if that is the library.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(folder, _)| folder)
}

fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn common_folder<'p>(one: &'p str, other: &str) -> &'p str {
    let mut folder = one;
    while let Some((above, _)) = folder.rsplit_once('/') {
        folder = above;
        if is_within(other, folder) {
            return folder;
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(requests: &[&str]) -> String {
        let is_manifest = |path: &str| path.ends_with(".m3u8");
        let mut scope = Scope::of(requests[0], is_manifest(requests[0]));
        for path in &requests[1..] {
            scope.widen(path, is_manifest(path));
        }
        scope.title().to_owned()
    }

    #[test]
    fn a_title_is_its_manifests_folder() {
        assert_eq!(
            title(&["films/a/master.m3u8", "films/a/v/1.m3u8", "films/a/v/1.m4s"]),
            "films/a"
        );
        assert_eq!(title(&["films/a/v/1.m3u8", "films/a/master.m3u8"]), "films/a");
        assert_eq!(title(&["films/a/v/1.m4s", "films/a/master.m3u8", "films/b/x.m4s"]), "films/a");
        assert_eq!(title(&["master.m3u8", "1.m4s"]), "master.m3u8");
    }

    #[test]
    fn without_a_manifest_it_is_what_all_requests_have_in_common() {
        assert_eq!(title(&["films/a.mp4", "films/a.mp4"]), "films/a.mp4");
        assert_eq!(title(&["f/a/video/1.m4s", "f/a/video/2.m4s"]), "f/a/video");
        assert_eq!(title(&["f/a/video/1.m4s", "f/a/audio/1.m4s"]), "f/a");
        assert_eq!(title(&["f/a/v/1.m4s", "f/ab/1.m4s"]), "f");
        assert_eq!(title(&["a.mp4", "b.mp4"]), "a.mp4");
    }
}
