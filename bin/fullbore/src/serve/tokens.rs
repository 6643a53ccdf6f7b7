//! How to get at a title that needs a token: the URLs of the start lines alone would be refused.

use config::Config;
use config::Signing;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use token::{CatSettings, KeyRing};

/// Which paths need a token, and which key signs.
pub(super) struct Tokens {
    signing: Signing,
    /// The file of a signing key. None if the server has only verifying keys.
    key: Option<PathBuf>,
    /// Only Common Access Tokens are accepted.
    are_cats: bool,
}

/// The command that prints a signed URL.
pub(super) struct SignCommand {
    pub(super) line: String,
    /// It works as it stands. If not, the signing key is on another machine.
    pub(super) is_complete: bool,
}

impl Tokens {
    /// Reads the keys of a server with this configuration; none if nothing needs a token. Call it before the sandbox starts, which blocks reading
    /// keys.
    pub(super) fn of(config: &Config) -> Option<Self> {
        // An unusable file stops the startup later, with a message.
        let ring = |file: &PathBuf| KeyRing::read_perhaps_empty(&[file]).ok();
        let rings = config.signing.keys.iter().filter_map(|file| Some((file, ring(file)?)));
        let mut rings: Vec<_> = rings.filter(|(_, ring)| !ring.is_empty()).collect();
        let are_cats = rings.is_empty();
        if are_cats {
            let cats = |file: &PathBuf| {
                let keys = std::slice::from_ref(file);
                KeyRing::none().with_cats(&CatSettings { keys, ..CatSettings::default() }).ok()
            };
            let read = config.signing.cat_keys.iter().filter_map(|file| Some((file, cats(file)?)));
            rings.extend(read);
        }
        let key = rings.iter().find(|(_, ring)| ring.is_secret()).map(|(file, _)| (*file).clone());
        (!rings.is_empty()).then(|| Self { signing: config.signing.clone(), key, are_cats })
    }

    /// The command for the file at `url_path` below `base`; none if it needs no token.
    pub(super) fn command(&self, url_path: &str, base: &str) -> Option<SignCommand> {
        let path = escape::percent::decode(url_path.as_bytes())?;
        let path = Path::new(OsStr::from_bytes(&path));
        if !self.signing.requires(path) {
            return None;
        }
        let key = self.key.as_ref().map_or("FILE".into(), |key| key.to_string_lossy());
        // With the leading slash, no name is taken for a flag.
        let path = format!("/{}", path.to_string_lossy());
        let (path, key) = (for_shell(&path), for_shell(&key));
        let form = if self.are_cats { " --cat" } else { "" };
        let line = format!("fullbore sign{form} {path} --key {key} --expires 6h --base {base}");
        Some(SignCommand { line, is_complete: self.key.is_some() })
    }
}

/// `word` as a shell argument: quoted if it has any special characters.
fn for_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:@".contains(&byte);
    match word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(required: &[&str], key: Option<&str>) -> Tokens {
        let required = required.iter().map(|path| (*path).to_owned()).collect();
        let signing = Signing { required, ..Signing::default() };
        Tokens { signing, key: key.map(PathBuf::from), are_cats: false }
    }

    #[test]
    fn only_what_needs_a_token_has_a_command() {
        let some = tokens(&["films"], Some("/etc/url.key"));
        let of = |path: &str| some.command(path, "https://h").map(|command| command.line);
        let line = "fullbore sign /films/a.mp4 --key /etc/url.key --expires 6h --base https://h";
        assert_eq!(of("films/a.mp4").as_deref(), Some(line));
        assert_eq!((of("a.mp4"), of("filmsb.mp4")), (None, None));
    }

    #[test]
    fn a_server_that_only_checks_names_no_key() {
        let command = tokens(&["/"], None).command("a.mp4", "https://h").unwrap();
        assert!(command.line.contains(" --key FILE ") && !command.is_complete, "{}", command.line);
    }

    #[test]
    fn names_are_written_for_a_shell() {
        assert_eq!(for_shell("/a/b-1.mp4"), "/a/b-1.mp4");
        assert_eq!(for_shell("/o'clock; $x"), r"'/o'\''clock; $x'");
    }
}
