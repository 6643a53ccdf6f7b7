//! The titles of the start lines, and how to play one of them.

use super::tokens::Tokens;
use catalog::{Form, Title};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The most titles listed at startup; more would scroll the other lines away.
const TITLES_SHOWN: usize = 20;

/// How long startup waits for the list of titles. A hanging disk must not keep the server from reporting that it is ready.
const LISTING_MAX: Duration = Duration::from_secs(5);

/// The beginning of all links.
pub(super) struct Links {
    /// The server's URL, without a slash at its end.
    pub(super) base: String,
    /// Set if viewers use it: a proxy in front has a certificate for it.
    pub(super) are_public: bool,
}

impl Links {
    /// Links to the server at its own URL, or at `page_url`.
    pub(super) fn of(own_url: &str, page_url: Option<&str>) -> Self {
        Self { base: page_url.unwrap_or(own_url).to_owned(), are_public: page_url.is_some() }
    }
}

/// The lines about the titles that `list` finds, each with its folder.
pub(super) fn describe(
    list: impl FnOnce() -> Vec<(PathBuf, Title)> + Send + 'static,
    links: Links,
    tokens: Option<Tokens>,
) -> Vec<String> {
    let described = within(LISTING_MAX, move || lines(&list(), &links, tokens.as_ref()));
    let late = "not listed here, because a disk takes long to list them; they are served";
    described.unwrap_or_else(|| vec![format!("titles    {late}")])
}

/// The result of `work`, if it arrives in time. Otherwise its thread continues until it ends by itself.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = channel();
    // A send after the timeout fails, and the result is dropped.
    thread::Builder::new().name("titles".into()).spawn(move || drop(done.send(work()))).ok()?;
    result.recv_timeout(limit).ok()
}

fn lines(titles: &[(PathBuf, Title)], links: &Links, tokens: Option<&Tokens>) -> Vec<String> {
    let base = &links.base;
    let mut lines = Vec::new();
    if titles.is_empty() {
        let advice = "none yet: put video files or HLS/DASH folders into the library";
        lines.push(format!("titles    {advice}"));
    }
    for (_, title) in titles.iter().take(TITLES_SHOWN) {
        lines.push(format!("title     {}", title.name));
        for stream in &title.streams {
            let form = match stream.form {
                Form::Hls => "HLS ",
                Form::Dash => "DASH",
                Form::File => "file",
            };
            lines.push(format!("          {form}  {base}/{}", stream.url_path));
        }
    }
    if titles.len() > TITLES_SHOWN {
        lines.push(format!("          and {} more", titles.len() - TITLES_SHOWN));
    }
    // A file that is still being copied may be empty: it is a title, but useless for trying out the server.
    let is_empty = |folder: &Path, title: &Title| {
        let found = std::fs::metadata(folder.join(&title.location));
        found.is_ok_and(|found| found.is_file() && found.len() == 0)
    };
    let suggested = titles.iter().find(|(folder, title)| !is_empty(folder, title));
    let Some(stream) = suggested.and_then(|(_, title)| title.streams.first()) else { return lines };
    lines.extend(how_to_play(&stream.url_path, links, tokens));
    lines
}

/// Commands to paste. Where the bare URL would be refused, they sign it first.
fn how_to_play(url_path: &str, links: &Links, tokens: Option<&Tokens>) -> Vec<String> {
    let base = &links.base;
    let url = match tokens.and_then(|tokens| tokens.command(url_path, base)) {
        None => format!("{base}/{url_path}"),
        Some(command) if command.is_complete => format!("\"$({})\"", command.line),
        Some(command) => {
            let why = "by a signed URL, and this server only checks them: sign with the FILE of the key that signs";
            return vec![format!("play      {why}, {}", command.line)];
        }
    };
    let may_be_self_signed = base.starts_with("https") && !links.are_public;
    let (ffplay, curl) = if may_be_self_signed { ("-tls_verify 0 ", "-k ") } else { ("", "") };
    vec![format!("play      ffplay {ffplay}{url}"), format!("fetch     curl {curl}-O {url}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_not_waited_for() {
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let (let_go, hang) = channel::<()>();
        assert_eq!(within(Duration::from_millis(10), move || hang.recv().is_ok()), None);
        drop(let_go);
    }
}
