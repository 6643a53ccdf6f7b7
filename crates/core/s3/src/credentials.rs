//! Finds credentials: in the `AWS_*` variables, or else in a profile in the file that other S3 clients read as well.

use std::path::{Path, PathBuf};

use rusty_s3::Credentials;

/// The variables with credentials. A program that makes no requests is better off without them.
pub const CREDENTIALS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    // With it, a container gets its role's.
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
];

/// Files of credentials have a few hundred bytes for each profile.
const FILE_BYTES_MAX: u32 = 1 << 20;

/// Finds the credentials. `None` means anonymous requests, which public buckets answer.
///
/// # Errors
/// If only half of them is there, or a configured file or profile is missing. The text does not contain a secret.
pub(crate) fn credentials(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Credentials>, String> {
    let (key, secret) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
    match (key, secret) {
        (Some(key), Some(secret)) => {
            return Ok(Some(of_parts(key, secret, variable("AWS_SESSION_TOKEN"))));
        }
        (None, None) => {}
        (Some(_), None) => {
            return Err("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not".to_owned());
        }
        (None, Some(_)) => {
            return Err("AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not".to_owned());
        }
    }
    let (named, profile) = (variable("AWS_SHARED_CREDENTIALS_FILE"), variable("AWS_PROFILE"));
    let is_asked_for = named.is_some() || profile.is_some();
    let usual = || variable("HOME").map(|home| PathBuf::from(home).join(".aws/credentials"));
    let Some(path) = named.map(PathBuf::from).or_else(usual) else { return Ok(None) };
    let profile = profile.unwrap_or_else(|| "default".to_owned());
    match of_file(&path, &profile) {
        Err(_) if !is_asked_for => Ok(None),
        read => read.map(Some),
    }
}

fn of_file(path: &Path, profile: &str) -> Result<Credentials, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let bytes = files::read(path, FILE_BYTES_MAX).map_err(|error| failed(&error))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| failed(&error))?;
    of_profile(text, profile).ok_or_else(|| {
        failed(&format!(
            "the profile {profile:?} has no aws_access_key_id with an aws_secret_access_key"
        ))
    })
}

fn of_profile(text: &str, profile: &str) -> Option<Credentials> {
    let (mut is_in, mut found) = (false, [None, None, None]);
    for line in text.lines().map(str::trim) {
        let section = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(name) = section {
            is_in = name.trim() == profile;
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| is_in) else { continue };
        let at = match name.trim() {
            "aws_access_key_id" => 0,
            "aws_secret_access_key" => 1,
            "aws_session_token" => 2,
            _ => continue,
        };
        found[at] = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
    }
    let [key, secret, token] = found;
    Some(of_parts(key?, secret?, token))
}

fn of_parts(key: String, secret: String, token: Option<String>) -> Credentials {
    match token {
        Some(token) => Credentials::new_with_token(key, secret, token),
        None => Credentials::new(key, secret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# ours\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n\n[other]\naws_access_key_id=C\n\
        aws_secret_access_key = D=\naws_session_token = E\n[half]\naws_access_key_id=F\n";

    fn of(variables: &[(&str, &str)]) -> Result<Option<(String, String, Option<String>)>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let parts = |one: Credentials| {
            (one.key().to_owned(), one.secret().to_owned(), one.token().map(str::to_owned))
        };
        credentials(variable).map(|found| found.map(parts))
    }

    #[test]
    fn variables_come_before_files_and_both_halves_are_needed() {
        let both = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        assert_eq!(of(&both), Ok(Some(("a".into(), "b".into(), None))));
        assert!(of(&both[..1]).unwrap_err().contains("AWS_SECRET_ACCESS_KEY is not"));
        assert!(of(&both[1..]).unwrap_err().contains("AWS_ACCESS_KEY_ID is not"));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("HOME", "/nowhere")]), Ok(None));
    }

    #[test]
    fn a_profile_of_the_file_is_read() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/credentials"), FILE).unwrap();
        let home = ("HOME", home.path().to_str().unwrap());
        assert_eq!(of(&[home]), Ok(Some(("A".into(), "B".into(), None))));
        let other = of(&[home, ("AWS_PROFILE", "other")]);
        assert_eq!(other, Ok(Some(("C".into(), "D=".into(), Some("E".into())))));
        for profile in ["half", "none"] {
            let refused = of(&[home, ("AWS_PROFILE", profile)]).unwrap_err();
            assert!(refused.contains(profile), "{refused}");
        }
        assert!(of(&[("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/x")]).is_err());
    }
}
