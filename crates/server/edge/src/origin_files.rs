//! The files that the settings of origins name: secrets that the helper needs and may not read, because its sandbox keeps it from every file of the
//! operator's.
//!
//! The keeper reads them, looks for changes, and reads them again when the server asks for it ([`keep_current`]). It writes their text into a
//! nameless file in memory, which each helper inherits under a descriptor ([`HandedFiles`]). The server learns what came of it
//! ([`OriginFilesLink`]). If a file can't be used, the helper goes on with the text that it has.

use crate::origin_access::check_text;
use crate::origin_settings::OriginSettings;
use files::FileStamp;
use helper_process::packets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The settings of all origins, as JSON, in the environment of the keeper and of its helpers. Every user can read a command line, and only this one
/// can read that.
const SETTINGS: &str = "FULLBORE_EDGE_ORIGINS";

/// Holds the descriptor number of the nameless file.
const HANDED: &str = "FULLBORE_EDGE_ORIGIN_FILES";

/// The largest file: a list of CA certificates may have some 200 kB.
const FILE_BYTES_MAX: u32 = 1 << 20;

/// How often the keeper looks for changed files, as the server does for its own.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// What came of reading the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRead {
    /// Why some can't be used, so that older texts are in use.
    pub failed: Option<String>,
}

/// The server's end of the socket on which its keeper reports what came of reading the files, and is asked to read them again.
#[derive(Debug)]
pub struct OriginFilesLink(OwnedFd);

impl OriginFilesLink {
    /// A link for origins that name files, and the keeper's end, which is its standard output.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn for_files_of(origins: &[OriginSettings]) -> io::Result<Option<(Self, OwnedFd)>> {
        if !name_files(origins) {
            return Ok(None);
        }
        let (ours, theirs) = packets::pair()?;
        Ok(Some((Self(ours), theirs)))
    }

    /// Has the keeper read all files now, whether they have changed or not. It reports what came of it.
    pub fn request(&self) {
        // Without a keeper, there is no report.
        let _ = packets::send(&self.0, &(), None);
    }

    /// The keeper's next report, if there is one within this time.
    pub fn report(&self, within: Duration) -> Option<FilesRead> {
        match is_readable(&self.0, within) {
            true => packets::receive(&self.0, &mut Vec::new()).ok()?.map(|(read, _)| read),
            false => None,
        }
    }
}

/// Whether there is a message, or the other end is gone, within this time.
fn is_readable(socket: &OwnedFd, within: Duration) -> bool {
    let mut ends = [PollFd::new(socket, PollFlags::IN)];
    // An interruption makes the wait shorter.
    poll(&mut ends, Timespec::try_from(within).ok().as_ref()).is_ok_and(|ready| ready > 0)
}

fn name_files(origins: &[OriginSettings]) -> bool {
    origins.iter().any(|origin| origin.files().next().is_some())
}

/// The texts of files, by their paths.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginFiles(BTreeMap<PathBuf, String>);

impl OriginFiles {
    /// Reads the files that `origins` name.
    ///
    /// # Errors
    /// Which file can't be read, and for what it is needed.
    pub(crate) fn read(origins: &[OriginSettings]) -> Result<Self, String> {
        let mut texts = BTreeMap::new();
        for (file, what, is_secret) in origins.iter().flat_map(OriginSettings::files) {
            let shown = file.display();
            let text = files::read_text(file, FILE_BYTES_MAX).map_err(|why| {
                format!("cannot read {shown}, {what}: {why}; check the path in edge.origin, and that this user may read it")
            })?;
            if is_secret && is_open_to_others(file) {
                return Err(format!(
                    "{shown}, {what}, is open to other users: run: chmod o= {shown}"
                ));
            }
            texts.insert(file.to_owned(), text);
        }
        Ok(Self(texts))
    }

    /// The text of a file.
    pub(crate) fn text(&self, file: &Path) -> Result<&str, String> {
        let text = self.0.get(file).map(String::as_str);
        text.ok_or_else(|| format!("the text of {} is missing", file.display()))
    }

    /// The text of a file of one line, without its end.
    pub(crate) fn line(&self, file: &Path) -> Result<&str, String> {
        let text = self.text(file)?;
        Ok(text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text)))
    }
}

/// Adds the settings of all origins to the environment of a keeper that `command` starts.
///
/// # Errors
/// If they can't be written as text.
pub fn hand_on(origins: &[OriginSettings], command: &mut Command) -> io::Result<()> {
    command.env(SETTINGS, serde_json::to_string(origins)?);
    Ok(())
}

/// The settings of all origins, in a keeper or a helper.
///
/// # Errors
/// If the variable is missing, or was set by another program.
pub fn handed_on() -> io::Result<Vec<OriginSettings>> {
    let missing = || io::Error::other(format!("{SETTINGS} is not set"));
    let text = std::env::var(SETTINGS).map_err(|_| missing())?;
    Ok(serde_json::from_str(&text)?)
}

/// In a keeper: reads the files, and has `helper` inherit their texts. A thread keeps these current from then on, and reports to the `server`.
///
/// # Errors
/// Which file can't be used.
pub fn keep_current(
    origins: Vec<OriginSettings>,
    helper: &mut Command,
    server: OwnedFd,
) -> io::Result<()> {
    // It is not the helper's.
    helper.stdout(Stdio::null());
    if !name_files(&origins) {
        return Ok(());
    }
    // Helpers inherit it.
    let mut handed = File::from(memfd_create("origin-files", MemfdFlags::empty())?);
    let (mut watched, mut texts) = (Watched::new(&origins), OriginFiles::default());
    watched.read(&origins, &mut texts).map_err(io::Error::other)?;
    write(&mut handed, &texts)?;
    helper.env(HANDED, handed.as_raw_fd().to_string());
    let keep = move || {
        while let Some(is_asked) = await_request(&server) {
            if !is_asked && !watched.have_changed() {
                continue;
            }
            let read = watched.read(&origins, &mut texts);
            let written =
                write(&mut handed, &texts).map_err(|why| format!("cannot hand files on: {why}"));
            let failed = read.and(written).err();
            if failed.is_none() {
                let why = if is_asked { "on request" } else { "because they changed on disk" };
                eprintln!("fullbore: the files for origins reloaded {why}");
            }
            // The server says what is wrong, and counts it.
            let _ = packets::send(&server, &FilesRead { failed }, None);
        }
    };
    std::thread::Builder::new().name("origin-files".into()).spawn(keep)?;
    Ok(())
}

/// Waits for a request of the server's, or for the time of the next look at the files. Returns whether there was a request, and nothing if the
/// server is gone.
fn await_request(server: &OwnedFd) -> Option<bool> {
    if !is_readable(server, LOOKED_AT_EVERY) {
        return Some(false);
    }
    packets::receive::<()>(server, &mut Vec::new()).ok()?.map(|_| true)
}

/// The state of files when they were last read.
struct Watched(Vec<FileStamp>);

impl Watched {
    fn new(origins: &[OriginSettings]) -> Self {
        let files = origins.iter().flat_map(OriginSettings::files);
        Self(files.map(|(file, ..)| FileStamp::take(file.to_owned())).collect())
    }

    fn have_changed(&self) -> bool {
        self.0.iter().any(FileStamp::is_outdated)
    }

    /// Reads and checks the files, and replaces those in `texts`. If one of an origin's can't be used, all of that origin's stay as they are, and
    /// count as changed.
    ///
    /// # Errors
    /// Why, for the first such origin.
    fn read(&mut self, origins: &[OriginSettings], texts: &mut OriginFiles) -> Result<(), String> {
        // Before they are read, so that a change in between is noticed later instead of missed.
        let stamps = Self::new(origins);
        let mut result = Ok(());
        for origin in origins.iter().map(std::slice::from_ref) {
            let read = OriginFiles::read(origin);
            match read.and_then(|read| check_text(origin, &read).map(|()| read)) {
                Ok(read) => texts.0.extend(read.0),
                Err(why) => result = result.and(Err(why)),
            }
        }
        if result.is_ok() {
            *self = stamps;
        }
        result
    }
}

/// Whether every user may read or write a file.
fn is_open_to_others(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.mode() & 0o006 != 0)
}

/// Replaces the texts in the nameless file. A reader that comes meanwhile finds no JSON, and reads again.
fn write(handed: &mut File, texts: &OriginFiles) -> io::Result<()> {
    let text = serde_json::to_vec(texts)?;
    handed.set_len(0)?;
    handed.rewind()?;
    handed.write_all(&text)
}

/// In a helper: the texts that its keeper has read.
pub struct HandedFiles {
    /// None if no settings name a file.
    file: Option<File>,
    /// The time and the size of the nameless file when it was last read.
    seen: Option<(i64, i64, u64)>,
}

impl HandedFiles {
    /// Those of this process. It has to be called before the process is confined.
    ///
    /// # Errors
    /// If the variable for their descriptor was set by another program.
    pub fn here() -> io::Result<Self> {
        let Some(number) = std::env::var_os(HANDED) else { return Ok(Self::none()) };
        let number: Option<u32> = number.to_str().and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| io::Error::other(format!("{HANDED} is not a number")))?;
        let file = File::open(format!("/proc/self/fd/{number}"))?;
        Ok(Self { file: Some(file), seen: None })
    }

    /// Settings name no file.
    pub(crate) fn none() -> Self {
        Self { file: None, seen: None }
    }

    /// The texts, if there are other ones than at the last call. While the keeper is writing, there are none.
    ///
    /// # Errors
    /// If they can't be read.
    pub(crate) fn changed(&mut self) -> io::Result<Option<OriginFiles>> {
        let Some(file) = &self.file else { return Ok(None) };
        let state = file.metadata()?;
        let state = (state.mtime(), state.mtime_nsec(), state.size());
        if self.seen == Some(state) {
            return Ok(None);
        }
        let mut text = vec![0; usize::try_from(state.2).map_err(io::Error::other)?];
        let texts = match file.read_exact_at(&mut text, 0) {
            Ok(()) => serde_json::from_slice(&text).ok(),
            Err(_) => None,
        };
        if texts.is_some() {
            self.seen = Some(state);
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use tempfile::tempdir;

    fn of_file(file: &Path) -> Vec<OriginSettings> {
        let text = serde_json::json!([
            { "url": "http://127.0.0.1", "headers": { "X-A": { "file": file } } }
        ]);
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_and_no_secret_is_shown() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("secret");
        let origins = of_file(&file);
        let missing = OriginFiles::read(&origins).map(drop).unwrap_err();
        assert!(
            missing.contains(file.to_str().unwrap()) && missing.contains("header"),
            "{missing}"
        );
        fs::write(&file, "swordfish").unwrap();
        let mode = |mode| fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        mode(0o604);
        let open = OriginFiles::read(&origins).map(drop).unwrap_err();
        assert!(open.contains("chmod o=") && !open.contains("swordfish"), "{open}");
        mode(0o640);
        for (text, is_usable) in [
            ("swordfish\n", true),
            ("swordfish\r\n", true),
            ("swordfish", true),
            ("swordfish\nswordfish\n", false),
            ("\n", false),
        ] {
            fs::write(&file, text).unwrap();
            let texts = OriginFiles::read(&origins).unwrap();
            let checked = check_text(&origins, &texts);
            assert_eq!(checked.is_ok(), is_usable, "{text:?}");
            match checked {
                Ok(()) => assert_eq!(texts.line(&file), Ok("swordfish")),
                Err(why) => {
                    assert!(
                        why.contains(file.to_str().unwrap()) && !why.contains("swordfish"),
                        "{why}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_bad_file_of_one_origin_keeps_no_renewed_file_of_another_waiting() {
        let folder = tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        let put = |file: &Path, text: &str| {
            fs::write(file, text).unwrap();
            fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
        };
        let origins = [of_file(&a), of_file(&b)].concat();
        put(&a, "a1");
        put(&b, "b1");
        let (mut watched, mut texts) = (Watched::new(&origins), OriginFiles::default());
        watched.read(&origins, &mut texts).unwrap();
        fs::remove_file(&a).unwrap();
        put(&b, "another");
        assert!(watched.have_changed());
        let why = watched.read(&origins, &mut texts).unwrap_err();
        assert!(why.contains(a.to_str().unwrap()), "{why}");
        assert_eq!((texts.line(&a), texts.line(&b)), (Ok("a1"), Ok("another")));
        assert!(watched.have_changed(), "the bad one is tried again");
    }

    #[test]
    fn texts_are_handed_on_and_read_once_after_each_change() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("handed");
        let mut written = File::create(&path).unwrap();
        let mut handed = HandedFiles { file: Some(File::open(&path).unwrap()), seen: None };
        let mut read = || handed.changed().unwrap().map(|texts| texts.0);
        assert_eq!(read(), None, "it is being written");
        for text in ["one", "another"] {
            let texts = BTreeMap::from([(PathBuf::from("/secret"), text.to_owned())]);
            write(&mut written, &OriginFiles(texts.clone())).unwrap();
            assert_eq!((read(), read()), (Some(texts), None));
        }
        written.set_len(5).unwrap();
        assert_eq!(read(), None, "it is being written");
    }
}
