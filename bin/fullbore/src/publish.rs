//! `fullbore publish`: puts a title into a bucket.

use crate::folders::Folders;
use crate::load::Time;
use crate::{say, say_line, tell};
use ::publish::{Progress, PublishError, Published, Publishing, S3Bucket, publish};
use catalog::TitlePath;
use clap::Args;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Put a title into an S3 bucket, for a fleet's nodes and for caching edges
///
/// The title becomes visible only when it is complete: files are sent first, the record last. After a failure, run the same command again to
/// continue; files that have arrived are not sent again. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or from
/// ~/.aws/credentials (AWS_PROFILE). A bucket outside Amazon needs AWS_ENDPOINT_URL=https://HOST.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore publish films/a --library /srv/video --to s3://films/hd\n  \
    fullbore publish films/a --library /srv/video --to 's3://films/hd?endpoint=https://s3.example&region=eu-west-3'\n\n\
    Next, have a fleet hold it: fullbore control publish films/a --origin s3://films/hd\n\
    Or serve it from one box: fullbore serve --origin s3://films/hd --cache DIR"
)]
pub(crate) struct Publish {
    /// Path of the title in the library
    title: String,
    /// The library; repeat it if the library has several folders
    #[arg(long, value_name = "DIR", required = true)]
    library: Vec<PathBuf>,
    /// The bucket, and the folder in it for the library
    #[arg(long, value_name = "s3://BUCKET/PREFIX")]
    to: String,
    /// How long to keep retrying while the store is unreachable or asks to slow down, such as 30s
    #[arg(long, value_name = "TIME", default_value = "2m")]
    patience: Time,
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
}

/// The error message, and its exit code.
struct Failed(u8, String);

impl Publish {
    /// Runs the command.
    pub(crate) fn run(self) -> ExitCode {
        match self.publish() {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failed(code, what)) => {
                tell(&what);
                ExitCode::from(code)
            }
        }
    }

    fn publish(self) -> Result<(), Failed> {
        let misused = |why: String| Failed(2, why);
        let title = TitlePath::new(&self.title).map_err(|error| misused(error.to_string()))?;
        let folders = Folders::open(self.library).map_err(|error| misused(error.to_string()))?;
        let to = S3Bucket::open(&self.to).map_err(|error| misused(error.to_string()))?;
        let (library, title) = folders.locate(&title);
        let (library, patience) = (library.to_owned(), self.patience.0);
        let publishing = Publishing { library, title, to, patience };
        let shown = Mutex::new(Shown::new(&self.title));
        let tell = move |progress| {
            shown.lock().unwrap_or_else(PoisonError::into_inner).show(&progress);
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failed(1, error.to_string()))?;
        let done = runtime.block_on(publish(publishing, tell));
        let done = done.map_err(|error: PublishError| Failed(1, error.to_string()))?;
        match self.json {
            true => say(&format!("{:#}\n", as_json(&self.title, &self.to, &done))),
            false => say_line(&in_words(&self.title, &self.to, &done)),
        }
        Ok(())
    }
}

fn as_json(title: &str, to: &str, done: &Published) -> serde_json::Value {
    json!({
        "version": 1, "kind": "publish", "title": title, "to": to, "digest": done.version, "objects": done.objects,
        "bytes": done.bytes, "kept_bytes": done.kept_bytes
    })
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn in_words(title: &str, to: &str, done: &Published) -> String {
    let (all, kept) = (megabytes(done.bytes), megabytes(done.kept_bytes));
    let there = match done.kept_bytes {
        0 => String::new(),
        kept_bytes if kept_bytes == done.bytes => ", all of which were there".to_owned(),
        _ => format!(", of which {kept:.1} MB were there"),
    };
    format!("published: {title} at {to} ({all:.1} MB in {} files{there})", done.objects)
}

/// Shows the progress on standard error: on a terminal, a line that is rewritten; elsewhere, only the reasons for waiting.
struct Shown {
    title: String,
    is_terminal: bool,
    began: Instant,
    /// Bytes that were already in the bucket when sending started.
    first_bytes: Option<u64>,
    width: usize,
    waited_for: Option<String>,
}

impl Shown {
    fn new(title: &str) -> Self {
        let (title, is_terminal) = (title.to_owned(), std::io::stderr().is_terminal());
        let began = Instant::now();
        Self { title, is_terminal, began, first_bytes: None, width: 0, waited_for: None }
    }

    fn show(&mut self, progress: &Progress) {
        match progress {
            Progress::Done { done_bytes, all_bytes } => {
                self.waited_for = None;
                if self.is_terminal {
                    let line = self.line(*done_bytes, *all_bytes);
                    self.rewrite(&line);
                }
            }
            // Four files wait for the same thing: report it once.
            Progress::Waiting { why, .. } if self.waited_for.as_ref() == Some(why) => {}
            Progress::Waiting { why, pause } => {
                self.end_line();
                tell(&format!("{why}; next try in {:.0} s", pause.as_secs_f64().ceil()));
                self.waited_for = Some(why.clone());
            }
        }
    }

    fn line(&mut self, done_bytes: u64, all_bytes: u64) -> String {
        let first = *self.first_bytes.get_or_insert(done_bytes);
        let rate = (done_bytes - first.min(done_bytes)) as f64 / self.began.elapsed().as_secs_f64();
        let percent = done_bytes as f64 * 100.0 / all_bytes.max(1) as f64;
        let (done, all) = (megabytes(done_bytes), megabytes(all_bytes));
        format!("{}: {percent:3.0}%, {done:.1} of {all:.1} MB, {:.1} MB/s", self.title, rate / 1e6)
    }

    fn rewrite(&mut self, line: &str) {
        let line = ::ingest::shown(line);
        let width = line.chars().count();
        let blank = " ".repeat(self.width.saturating_sub(width));
        self.width = width;
        // If the terminal was closed, only the progress is lost.
        let _ = write!(std::io::stderr(), "\r{line}{blank}");
    }

    fn end_line(&mut self) {
        if self.width > 0 {
            self.width = 0;
            let _ = writeln!(std::io::stderr());
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end_line();
    }
}
