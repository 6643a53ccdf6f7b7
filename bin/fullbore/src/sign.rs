//! `fullbore sign`: signs a URL that works until a given time, and makes keys for signing.

use crate::bad_value::{self, BadValue};
use catalog::{encode_path, is_manifest};
use clap::{ArgGroup, Args};
use fullbore_http::LibraryPath;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use token::{CatGrant, CatNetwork, CatScope, CatSettings, Grant, KeyRing, PairFiles};

/// Sign a URL that works until a given time; or make a signing key
///
/// PATH is a path in the library: a file, or a folder with everything in it. Signing a playlist or manifest (.m3u8, .mpd)
/// signs its title, which is its folder, because players request the files in there.
#[derive(Args)]
#[command(
    group = ArgGroup::new("task").required(true).args(["path", "new_key"]),
    after_help = "Examples:\n  fullbore sign --new-key url.key\n  \
    fullbore sign --new-key sign.key --public check.pub\n  \
    fullbore sign films/a/master.m3u8 --key url.key --expires 6h --base https://tv.example:8443\n  \
    fullbore sign films/a.mp4 --key url.key --expires 2030-01-31T20:15:00Z --client 192.0.2.7\n  \
    fullbore sign --cat films/a/master.m3u8 --key cat.key --expires 6h --network 192.0.2.0/24 --json"
)]
pub(crate) struct Sign {
    /// File or folder in the library to sign; / is the whole library
    path: Option<PathBuf>,
    /// When the URL stops working: after 90s, 15m, 6h or 7d, or at a time such as 2030-01-31T20:15:00Z
    #[arg(long, value_name = "TIME", required_unless_present = "new_key")]
    expires: Option<Expiry>,
    /// File with the key; if it holds several keys, the first one signs
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    key: Option<PathBuf>,
    /// Allow only a viewer with this address
    #[arg(long, value_name = "ADDRESS", value_parser = bad_value::viewer_address)]
    client: Option<IpAddr>,
    /// Allow all of the folder DIR, which contains PATH, instead of PATH alone
    #[arg(long, value_name = "DIR")]
    scope: Option<PathBuf>,
    /// URL of the server, to print a whole URL [default: print the path alone]
    #[arg(long, value_name = "https://HOST:PORT", value_parser = bad_value::base_url)]
    base: Option<String>,
    /// Put the token into the query; for single files only, because the files of a playlist would not inherit it
    #[arg(long)]
    query: bool,
    /// Print the URL of the page that plays it, instead of the file's
    #[arg(long, conflicts_with = "query")]
    page: bool,
    /// Issue a Common Access Token (CTA-5007-B), which other CDNs understand, too; a folder ends with a slash, or is named by --scope
    #[arg(long)]
    cat: bool,
    /// When the token begins to work [default: at once]
    #[arg(long, value_name = "TIME", requires = "cat")]
    not_before: Option<Expiry>,
    /// Allow viewers of this network; may be repeated
    #[arg(long, value_name = "PREFIX", requires = "cat", value_parser = network)]
    network: Vec<CatNetwork>,
    /// Allow this method, such as GET; may be repeated [default: all that the server answers]
    #[arg(long, value_name = "METHOD", requires = "cat", value_parser = method)]
    method: Vec<String>,
    /// Name the token's issuer
    #[arg(long, value_name = "NAME", requires = "cat")]
    issuer: Option<String>,
    /// Print the token, its key's id and the URL as JSON
    #[arg(long, requires = "cat")]
    json: bool,
    /// Write a new key to this file, which only you can read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["expires", "key", "client", "scope", "base", "query", "page", "cat"])]
    new_key: Option<PathBuf>,
    /// Make the new key an Ed25519 pair: --new-key gets the signing half, this file the half that servers verify with; if only the
    /// signing half is there, because an earlier run was interrupted, this file is added
    #[arg(long, value_name = "FILE", requires = "new_key")]
    public: Option<PathBuf>,
}

impl Sign {
    /// Prints the URL, or makes the key.
    pub(crate) fn run(self) -> ExitCode {
        if let Some(file) = &self.new_key {
            return make_key(file, self.public.as_deref());
        }
        // clap requires these three.
        let (Some(path), Some(expires), Some(key)) = (&self.path, self.expires, &self.key) else {
            return fail(2, "PATH, --expires and --key are required; see fullbore sign --help");
        };
        let what = match Signed::of(path, self.scope.as_deref(), self.query) {
            Ok(what) => what,
            Err(wrong) => return fail(2, &wrong.to_string()),
        };
        let expires_unix_seconds = match expires.unix_seconds(now_unix_seconds()) {
            Ok(seconds) => seconds,
            Err(wrong) => return fail(2, &wrong.to_string()),
        };
        if self.cat {
            return self.issue_cat(path, &what, expires_unix_seconds);
        }
        let keys = match KeyRing::read(&[key]) {
            Ok(keys) => keys,
            Err(error) => return fail(1, &error.to_string()),
        };
        let prefix = what.scope.as_os_str().as_bytes();
        let grant = Grant { prefix, expires_unix_seconds, client: self.client };
        let Some(token) = keys.sign(&grant) else {
            return fail(1, &only_checks(&key.display()));
        };
        say(&self.url(&token, &what))
    }

    /// The URL with `token`.
    fn url(&self, token: &str, what: &Signed) -> String {
        let base = self.base.as_deref().unwrap_or_default();
        let path = encode_path(&what.path);
        base.to_owned()
            + &if self.query && self.cat {
                format!("/{path}?{}={token}", token::CAT_ARGUMENT)
            } else if self.query {
                token::url_query(token, &path)
            } else if self.page {
                let page = format!("-/watch/{}", encode_path(title_of(&what.path)));
                token::url_path(token, &page)
            } else {
                token::url_path(token, &path)
            }
    }

    /// Prints a Common Access Token, or the URL with it.
    fn issue_cat(&self, path: &Path, what: &Signed, expires_unix_seconds: u64) -> ExitCode {
        let now = now_unix_seconds();
        let not_before = self.not_before.map(|begins| begins.or_past(now));
        if not_before.is_some_and(|begins| begins >= expires_unix_seconds) {
            return fail(2, "--not-before is not before --expires: the token would never work");
        }
        let key = self.key.as_slice();
        let keys = match KeyRing::none().with_cats(&CatSettings { keys: key, ..Default::default() })
        {
            Ok(keys) => keys,
            Err(error) => return fail(1, &error.to_string()),
        };
        let is_folder = self.scope.is_some()
            || path.as_os_str().as_bytes().ends_with(b"/")
            || !self.query && is_manifest(path.as_os_str().as_bytes());
        let scope = encode_path(&what.scope);
        let of_client = self.client.map(CatNetwork::of_address);
        let networks: Vec<_> = self.network.iter().copied().chain(of_client).collect();
        let grant = CatGrant {
            scope: match is_folder {
                _ if scope.is_empty() => CatScope::All,
                true => CatScope::Folder(&scope),
                false => CatScope::File(&scope),
            },
            issued_unix_seconds: now,
            expires_unix_seconds,
            not_before_unix_seconds: not_before,
            networks: &networks,
            methods: &self.method,
            issuer: self.issuer.as_deref(),
        };
        let Some((token, key_id)) = keys.sign_cat(&grant) else {
            let key = self.key.as_deref().unwrap_or(Path::new("the file"));
            return fail(1, &only_checks(&key.display()));
        };
        if !token::has_cat_form(token.as_bytes()) {
            return fail(2, "the token has more than 4096 bytes: name fewer networks or methods");
        }
        let url = self.url(&token, what);
        if !self.json {
            return say(&url);
        }
        say(&serde_json::json!({
            "token": token,
            "key": key_id,
            "expires": expires_unix_seconds,
            "url": url,
        })
        .to_string())
    }
}

fn only_checks(key: &dyn std::fmt::Display) -> String {
    format!("{key} holds public keys, which only check; sign with the file that --new-key made")
}

fn network(text: &str) -> Result<CatNetwork, BadValue> {
    let wanted =
        "a network: write one such as 192.0.2.0/24 or 2001:db8::/32, without bits after the prefix";
    text.parse().map_err(|()| BadValue::new(text, wanted))
}

fn method(text: &str) -> Result<String, BadValue> {
    let is_method = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase());
    match is_method {
        true => Ok(text.to_owned()),
        false => Err(BadValue::new(text, "a method: write one such as GET or HEAD")),
    }
}

/// Writes a new key to a file; with a file for the public half, an Ed25519 pair.
fn make_key(file: &Path, public: Option<&Path>) -> ExitCode {
    let made = match public {
        None => token::make_key_file(file).map(|id| format!("key {id} in {}", file.display())),
        Some(public) => {
            token::make_key_pair_files(file, public).map(|pair| pair_line(&pair, file, public))
        }
    };
    match made {
        Ok(line) => say(&line),
        Err(error) => fail(1, &error.to_string()),
    }
}

fn pair_line(pair: &PairFiles, file: &Path, public: &Path) -> String {
    let (id, file, public) = (&pair.id, file.display(), public.display());
    let line = format!("key {id}: {file} signs, {public} checks");
    match pair.was_half_made {
        true => line + &format!(" ({file} was already there, and {public} was missing)"),
        false => line,
    }
}

/// The signed scope, and the path in it that the URL points to.
#[derive(Debug, PartialEq, Eq)]
struct Signed {
    path: PathBuf,
    scope: PathBuf,
}

impl Signed {
    fn of(path: &Path, scope: Option<&Path>, in_query: bool) -> Result<Self, UsageError> {
        let path = library_path(path)?;
        let scope = match scope {
            Some(scope) => library_path(scope)?,
            None if in_query => path.clone(),
            None => title_of(&path).to_owned(),
        };
        // Compares whole segments.
        if !path.starts_with(&scope) {
            return Err(UsageError::OutOfScope { path, scope });
        }
        Ok(Self { path, scope })
    }
}

/// Rejects paths that the server would never open, because signing them would be useless.
fn library_path(path: &Path) -> Result<PathBuf, UsageError> {
    match LibraryPath::as_written(path.as_os_str().as_bytes()) {
        Some(path) => Ok(path.as_path().to_owned()),
        None => Err(UsageError::NotInLibraries(path.to_owned())),
    }
}

/// Why a URL cannot be signed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum UsageError {
    /// The path is outside the scope.
    #[error("{path} is not in {scope}")]
    OutOfScope { path: PathBuf, scope: PathBuf },
    /// No library can have such a path.
    #[error("{:?} is not a path in a library: write it as it is in the library, such as films/a.mp4", .0.display().to_string())]
    NotInLibraries(PathBuf),
    /// The URL would have expired before it is used.
    #[error("--expires is in the past: the URL would never work")]
    InThePast,
    /// A token cannot express the time.
    #[error("--expires is too far in the future")]
    TooFar,
}

/// The scope of `path`. For a manifest it is the title, as far as the path alone shows it ([`catalog::title_of`]), because the library may
/// be on another machine. Any other path is its own scope.
fn title_of(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    if !is_manifest(bytes) {
        return path;
    }
    Path::new(OsStr::from_bytes(catalog::title_of(bytes, |_| false)))
}

/// When a URL expires: a number of seconds from now, or at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    InSeconds(u64),
    AtUnixSeconds(i64),
}

/// The latest time that a token can express, in the year 33658.
const EXPIRES_UNIX_SECONDS_MAX: u64 = 999_999_999_999;

impl Expiry {
    /// As [`unix_seconds`](Self::unix_seconds), which may have passed.
    fn or_past(self, now: u64) -> u64 {
        match self {
            Self::InSeconds(seconds) => now.saturating_add(seconds),
            // A time before 1970 counts as 1970, which is also in the past.
            Self::AtUnixSeconds(seconds) => u64::try_from(seconds).unwrap_or(0),
        }
    }

    fn unix_seconds(self, now: u64) -> Result<u64, UsageError> {
        let seconds = self.or_past(now);
        if seconds <= now {
            return Err(UsageError::InThePast);
        }
        if seconds > EXPIRES_UNIX_SECONDS_MAX {
            return Err(UsageError::TooFar);
        }
        Ok(seconds)
    }
}

impl FromStr for Expiry {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if let Ok(moment) = OffsetDateTime::parse(text, &Rfc3339) {
            return Ok(Self::AtUnixSeconds(moment.unix_timestamp()));
        }
        let wanted = "a time: write one such as 15m, 6h, 7d or 2030-01-31T20:15:00Z";
        let wrong = || BadValue::new(text, wanted);
        let unit = text.chars().last().ok_or_else(wrong)?;
        let seconds_each: u64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let number = text.strip_suffix(unit).unwrap_or_default();
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(seconds_each).map(Self::InSeconds).ok_or_else(wrong)
    }
}

/// A clock before 1970 counts as 1970.
fn now_unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn say(line: &str) -> ExitCode {
    crate::say_line(line);
    ExitCode::SUCCESS
}

fn fail(code: u8, what: &str) -> ExitCode {
    crate::tell(what);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(
        path: &str,
        scope: Option<&str>,
        in_query: bool,
    ) -> Result<(String, String), UsageError> {
        let text = |part: PathBuf| part.to_str().unwrap().to_owned();
        Signed::of(Path::new(path), scope.map(Path::new), in_query)
            .map(|what| (text(what.path), text(what.scope)))
    }

    #[test]
    fn a_playlist_is_signed_with_its_folder() {
        let both = |path: &str, scope: &str| Ok((path.to_owned(), scope.to_owned()));
        assert_eq!(
            signed("films/a/master.m3u8", None, false),
            both("films/a/master.m3u8", "films/a")
        );
        assert_eq!(signed("a/X.MPD", None, false), both("a/X.MPD", "a"));
        assert_eq!(signed("master.m3u8", None, false), both("master.m3u8", ""));
        assert_eq!(signed("a/master.m3u8", None, true), both("a/master.m3u8", "a/master.m3u8"));
        assert_eq!(signed("/films/a.mp4", None, false), both("films/a.mp4", "films/a.mp4"));
        assert_eq!(signed("films/a/", None, false), both("films/a", "films/a"));
        assert_eq!(signed("/", None, false), both("", ""));
        assert_eq!(
            signed("films/a/b/c.mp4", Some("films/a"), false),
            both("films/a/b/c.mp4", "films/a")
        );
        assert_eq!(signed("films/a", Some("/"), true), both("films/a", ""));
    }

    #[test]
    fn manifests_of_the_examples_are_signed_with_their_titles() {
        for (path, title) in
            catalog::EXAMPLES.into_iter().filter(|(path, _)| is_manifest(path.as_bytes()))
        {
            // If the path alone does not show the title, only a part of the title is signed.
            let expected = if path.starts_with("apple/1080p/") { "apple/1080p" } else { title };
            assert_eq!(signed(path, None, false), Ok((path.to_owned(), expected.to_owned())));
        }
    }

    #[test]
    fn a_page_is_that_of_a_manifests_folder_or_of_a_file() {
        for (path, title) in
            [("films/a/master.m3u8", "films/a"), ("films/a", "films/a"), ("a.mp4", "a.mp4")]
        {
            assert_eq!(title_of(Path::new(path)), Path::new(title));
        }
    }

    #[test]
    fn what_could_never_be_asked_for_is_refused() {
        for path in ["", "//", "../a", "a/../b", "a//b", "./a", "a\nb"] {
            assert!(signed(path, None, false).is_err(), "{path}");
        }
        for scope in ["films/b", "film", "films/a/b/c/d", "films/a/b/c.mp"] {
            assert!(signed("films/a/b/c.mp4", Some(scope), false).is_err(), "{scope}");
        }
    }

    #[test]
    fn times_are_spans_or_moments() {
        let expiry = |text: &str| text.parse::<Expiry>().ok();
        assert_eq!(expiry("90s"), Some(Expiry::InSeconds(90)));
        assert_eq!(expiry("15m"), Some(Expiry::InSeconds(900)));
        assert_eq!(expiry("6h"), Some(Expiry::InSeconds(21_600)));
        assert_eq!(expiry("7d"), Some(Expiry::InSeconds(604_800)));
        let moment = Some(Expiry::AtUnixSeconds(1_896_120_900));
        assert_eq!(expiry("2030-01-31T20:15:00Z"), moment);
        assert_eq!(expiry("2030-01-31T22:15:00.7+02:00"), moment);
        for text in [
            "",
            "h",
            "6",
            "-1h",
            "+1h",
            "1.5h",
            "6w",
            "2030-01-31",
            "99999999999999999999d",
            "6\u{e9}",
        ] {
            assert_eq!(expiry(text), None, "{text}");
        }
    }

    #[test]
    fn a_moment_that_has_passed_is_refused() {
        let at = |expiry: Expiry| expiry.unix_seconds(1000);
        assert_eq!(at(Expiry::InSeconds(5)), Ok(1005));
        assert_eq!(at(Expiry::AtUnixSeconds(1001)), Ok(1001));
        for past in [Expiry::InSeconds(0), Expiry::AtUnixSeconds(1000), Expiry::AtUnixSeconds(-5)] {
            assert_eq!(at(past), Err(UsageError::InThePast));
        }
        assert_eq!(at(Expiry::InSeconds(u64::MAX)), Err(UsageError::TooFar));
        let too_far = Expiry::InSeconds(EXPIRES_UNIX_SECONDS_MAX);
        assert_eq!(at(too_far), Err(UsageError::TooFar));
    }
}
