//! `fullbore load`: runs viewers against a server, and reports what they received.

use crate::bad_value::BadValue;
use ::load::{
    Against, ClientOptions, Options, OptionsError, Pace, Pattern, Popularity, Trust, Url, UrlError,
    Verify, console,
};
use clap::{Args, ValueEnum};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

/// Put load on a server and measure it
///
/// Viewers request the URLs over HTTPS or HTTP and discard the responses; --verify compares some of them byte for byte.
/// Errors count from the start, all other figures from the end of the ramp. The exit code is 1 if anything failed, and 130
/// after Ctrl-C.
#[derive(Args)]
#[command(after_help = "Examples:\n  fullbore load --insecure https://localhost:8443/film.mp4\n  \
    fullbore load --ca ca.pem https://host/film/master.m3u8 --connections 1000 --rate 5M --ramp 10s --duration 60s\n  \
    fullbore load --urls titles.txt --zipf 0.8 --arrivals 200/s --verify 100 --against /srv/videos\n  \
    fullbore load --insecure https://localhost:8443/film.mp4 --handshakes\n\n\
    docs/load.md says what each figure means and how to check it with curl.")]
pub(crate) struct Load {
    /// URLs to request
    urls: Vec<Url>,
    /// File with more URLs, one per line; empty lines and lines that begin with # are ignored
    #[arg(long = "urls", value_name = "FILE")]
    url_list: Option<PathBuf>,
    /// How a viewer requests a URL [default: title for .m3u8 and .mpd, else player]
    #[arg(long)]
    pattern: Option<PatternArg>,
    /// Size of the ranges of --pattern ranges, in bytes: 262144, 256Ki, 1M
    #[arg(long, value_name = "BYTES", default_value = "256Ki")]
    range_bytes: Quantity,
    /// Rendition of a title with a manifest, 1 being the lowest [default: the highest]
    #[arg(long, value_name = "N")]
    rung: Option<usize>,
    /// Only do handshakes, one after the other
    #[arg(long, conflicts_with_all = ["idle", "pattern"])]
    handshakes: bool,
    /// Only open connections, request one byte on each, and keep them open
    #[arg(long, conflicts_with = "pattern")]
    idle: bool,
    /// Resume TLS sessions if the server offers it
    #[arg(long)]
    resume: bool,
    /// Number of viewers, each with one connection
    #[arg(long, short, value_name = "N", default_value_t = 8)]
    connections: usize,
    /// How long to measure: 30s, 500ms, 2m
    #[arg(long, short, value_name = "TIME", default_value = "10s")]
    duration: Time,
    /// Time over which the viewers start
    #[arg(long, value_name = "TIME", default_value = "1s")]
    ramp: Time,
    /// Paced viewers: playback bit rate of each, such as 5M
    #[arg(long, value_name = "RATE", conflicts_with = "arrivals")]
    rate: Option<Quantity>,
    /// Open loop: requests (or handshakes) per second over all viewers, such as 200/s
    #[arg(long, value_name = "RATE")]
    arrivals: Option<PerSecond>,
    /// Slow readers: bits per second that each one reads from its socket
    #[arg(long, value_name = "RATE")]
    read_rate: Option<Quantity>,
    /// Small reads: the most bytes that each viewer reads from its socket at once, such as 64Ki [default: 256 KiB, when they have arrived]
    #[arg(long, value_name = "BYTES")]
    read_bytes: Option<Quantity>,
    /// Choose URLs by Zipf's law with this exponent, the first URL being the most popular
    #[arg(long, value_name = "S", conflicts_with = "hit_ratio")]
    zipf: Option<f64>,
    /// Percentage of requests that go to the first URLs (--hot); the others go through the rest in sequence
    #[arg(long, value_name = "PERCENT", requires = "hot")]
    hit_ratio: Option<Percent>,
    /// Number of hot URLs
    #[arg(long, value_name = "N", requires = "hit_ratio")]
    hot: Option<usize>,
    /// Percentage of responses that viewers abort in the middle; they reconnect
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    aborts: Percent,
    /// Percentage of responses after which viewers seek to another position
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    seeks: Percent,
    /// Decrypt one response in N and compare its SHA-256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    verify: Option<u64>,
    /// Compare with the files in this directory, the server's library, instead of the first response
    #[arg(long, value_name = "DIR", requires = "verify")]
    against: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Time without progress after which a connection counts as an error
    #[arg(long, value_name = "TIME", default_value = "10s")]
    patience: Time,
    /// Number of threads [default: one per CPU]
    #[arg(long, value_name = "N", conflicts_with = "cpus")]
    threads: Option<usize>,
    /// Pin one thread to each of these CPUs, such as 1,3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<u32>,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with 0 even if something failed
    #[arg(long)]
    allow_errors: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PatternArg {
    /// The whole file in one response
    Whole,
    /// The first 45 KB, then ranges of 262 KB and 1.07 MB, as players do
    Player,
    /// Ranges of one size (--range-bytes), starting at a random place
    Ranges,
    /// The segments of an HLS or DASH manifest
    Title,
}

impl Load {
    /// Runs the load and prints the results.
    pub(crate) fn run(self) -> ExitCode {
        let (json, allow_errors) = (self.json.clone(), self.allow_errors);
        let options = match self.options() {
            Ok(options) => options,
            Err(what) => return fail(2, &what.to_string()),
        };
        let outcome = match console::run(options) {
            Ok(outcome) => outcome,
            Err(error) => return fail(1, &error.to_string()),
        };
        if let Some(path) = json {
            if let Err(error) = std::fs::write(&path, format!("{:#}\n", outcome.to_json())) {
                return fail(1, &format!("cannot write {}: {error}", path.display()));
            }
        }
        if outcome.gave_up {
            let error = outcome.errors.values().max_by_key(|error| error.count);
            let what = error.map_or("no request could be sent", |error| &error.example);
            return fail(1, &format!("every connection failed, stopped: {what}"));
        }
        if let Some(wrong) = outcome.errors.get("wrong_bytes") {
            crate::tell(&format!(
                "THE SERVER SENT WRONG BYTES, {} times: {}",
                wrong.count, wrong.example
            ));
        }
        crate::say(&outcome.describe());
        match (outcome.interrupted, outcome.is_clean() || allow_errors) {
            (true, _) => ExitCode::from(::load::interrupt::EXIT_CODE),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
        }
    }

    fn options(self) -> Result<Options, UsageError> {
        let mut targets = self.urls.clone();
        if let Some(path) = &self.url_list {
            targets.extend(read_urls(path)?);
        }
        let options = Options {
            pattern: self.pattern(&targets),
            targets,
            popularity: self.popularity(),
            pace: self.pace(),
            connections: self.connections,
            threads: self.threads.unwrap_or_else(cpus_allowed),
            duration: self.duration.0,
            ramp: self.ramp.0,
            read_rate_bits_per_second: self.read_rate.map(|rate| rate.0),
            read_bytes_max: self.read_bytes.map(|bytes| bytes.0),
            abort_share: self.aborts.0,
            seek_share: self.seeks.0,
            verify: self.verify(),
            tls: ClientOptions { trust: self.trust(), ..ClientOptions::default() },
            resume: self.resume,
            rung: self.rung,
            patience: self.patience.0,
            seed: self.seed,
            cpus: self.cpus,
        };
        options.check().map_err(UsageError::Options)?;
        Ok(options)
    }

    fn pattern(&self, targets: &[Url]) -> Pattern {
        let is_manifest = |url: &Url| catalog::is_manifest(url.path().as_bytes());
        match self.pattern {
            _ if self.handshakes => Pattern::Handshakes,
            _ if self.idle => Pattern::Idle,
            Some(PatternArg::Whole) => Pattern::Whole,
            Some(PatternArg::Player) => Pattern::Player,
            Some(PatternArg::Ranges) => Pattern::Ranges { bytes: self.range_bytes.0 },
            Some(PatternArg::Title) => Pattern::Title,
            None if !targets.is_empty() && targets.iter().all(is_manifest) => Pattern::Title,
            None => Pattern::Player,
        }
    }

    fn popularity(&self) -> Popularity {
        match (self.zipf, &self.hit_ratio, self.hot) {
            (Some(exponent), ..) => Popularity::Zipf { exponent },
            (_, Some(share), Some(hot)) => Popularity::HitRatio { hit_share: share.0, hot },
            _ => Popularity::InTurn,
        }
    }

    fn pace(&self) -> Pace {
        match (self.rate, self.arrivals) {
            (Some(rate), _) => Pace::Viewers { bits_per_second: rate.0 },
            (_, Some(PerSecond(per_second))) => Pace::Open { per_second },
            _ => Pace::Closed,
        }
    }

    fn verify(&self) -> Verify {
        let against = self.against.clone().map_or(Against::FirstSeen, Against::Directory);
        self.verify.map_or(Verify::Nothing, |n| Verify::OneIn { n, against })
    }

    fn trust(&self) -> Trust {
        match &self.ca {
            _ if self.insecure => Trust::AnyCertificate,
            Some(path) => Trust::File(path.clone()),
            None => Trust::System,
        }
    }
}

fn fail(code: u8, what: &str) -> ExitCode {
    crate::tell(what);
    ExitCode::from(code)
}

pub(crate) fn cpus_allowed() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Options that are invalid.
#[derive(Debug, thiserror::Error)]
enum UsageError {
    /// The list of URLs cannot be read.
    #[error("cannot read {file}: {why}")]
    List { file: PathBuf, why: io::Error },
    /// One of its lines is not a URL.
    #[error("{file}, line {number}, {line:?}: {why}")]
    Line { file: PathBuf, number: usize, line: String, why: UrlError },
    /// The options contradict each other.
    #[error(transparent)]
    Options(OptionsError),
}

fn read_urls(file: &Path) -> Result<Vec<Url>, UsageError> {
    let unreadable = |why| UsageError::List { file: file.to_owned(), why };
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let wrong = |number, line: &str, why| UsageError::Line {
        file: file.to_owned(),
        number,
        line: line.to_owned(),
        why,
    };
    lines.map(|(number, line)| line.parse().map_err(|why| wrong(number, line, why))).collect()
}

/// A whole number above zero with a unit: k, M, G and T are powers of 1000; Ki, Mi, Gi and Ti are powers of 1024.
#[derive(Clone, Copy)]
pub(crate) struct Quantity(pub(crate) u64);

impl FromStr for Quantity {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let wrong = || BadValue::new(text, "a number above zero such as 500K, 5M or 256Ki");
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
        let unit = match &text[end..] {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            "Ki" => 1024.0,
            "Mi" => 1_048_576.0,
            "Gi" => 1_073_741_824.0,
            "Ti" => 1_099_511_627_776.0,
            _ => return Err(wrong()),
        };
        let number: f64 = text[..end].parse().map_err(|_| wrong())?;
        let quantity = (number * unit) as u64;
        if quantity > 0 { Ok(Self(quantity)) } else { Err(wrong()) }
    }
}

/// A percentage.
#[derive(Clone, Copy)]
struct Percent(f64);

impl FromStr for Percent {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
        let number = number.filter(|number| (0.0..=100.0).contains(number));
        let share = number.map(|number: f64| Self(number / 100.0));
        share.ok_or_else(|| BadValue::new(text, "a percentage from 0% to 100%"))
    }
}

/// A rate per second: 200/s, or just 200.
#[derive(Clone, Copy)]
struct PerSecond(f64);

impl FromStr for PerSecond {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let number = text.strip_suffix("/s").unwrap_or(text).parse().ok();
        let number = number.filter(|number: &f64| number.is_finite() && *number > 0.0);
        number.map(Self).ok_or_else(|| BadValue::new(text, "a rate above zero such as 200/s"))
    }
}

/// A time with its unit: 500ms, 30s, 2m, 6h, 7d. A bare number is an error, because a user who writes 6 for six hours would get six seconds; only 0
/// is the same in every unit.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub(crate) Duration);

impl FromStr for Time {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let wanted = "a time with its unit: write one such as 500ms, 30s, 2m, 6h or 7d";
        let wrong = || BadValue::new(text, wanted);
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
        let unit = match &text[end..] {
            "" if text == "0" => 1.0,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        let number: f64 = text[..end].parse().map_err(|_| wrong())?;
        Duration::try_from_secs_f64(number * unit).map(Self).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_decimal_and_binary_units() {
        let parse = |text: &str| text.parse::<Quantity>().map(|quantity| quantity.0).ok();
        assert_eq!(parse("5M"), Some(5_000_000));
        assert_eq!(parse("500k"), Some(500_000));
        assert_eq!(parse("256Ki"), Some(262_144));
        assert_eq!(parse("1.5G"), Some(1_500_000_000));
        for text in ["", "M", "0", "-1", "5X", "1e3", "0.1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        let time = |text: &str| text.parse::<Time>().map(|time| time.0.as_millis()).ok();
        assert_eq!(time("30s"), Some(30_000));
        assert_eq!(time("1.5s"), Some(1_500));
        assert_eq!(time("250ms"), Some(250));
        assert_eq!(time("2m"), Some(120_000));
        assert_eq!(time("7d"), Some(604_800_000));
        assert_eq!(time("0"), Some(0), "the same in every unit");
        for text in ["", "s", "6", "1.5", "2w", "-1s"] {
            assert_eq!(time(text), None, "{text}");
        }
        let said = "6".parse::<Time>().err().map(|error| error.to_string());
        assert!(said.is_some_and(|said| said.contains("\"6\" is not a time with its unit")));
    }

    #[test]
    fn percentages_and_rates_are_read_with_and_without_unit() {
        assert_eq!("5%".parse::<Percent>().map(|percent| percent.0), Ok(0.05));
        assert!("101%".parse::<Percent>().is_err() && "-1".parse::<Percent>().is_err());
        assert_eq!("200/s".parse::<PerSecond>().map(|rate| rate.0), Ok(200.0));
        assert!("0/s".parse::<PerSecond>().is_err() && "inf".parse::<PerSecond>().is_err());
    }

    #[test]
    fn a_list_of_urls_may_have_comments_and_names_the_line_that_is_wrong() {
        use std::io::Write;
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        write!(file, "# titles\n\nhttps://h/a\n  http://h/b  \n").expect("written");
        let urls = read_urls(file.path()).expect("they are right");
        assert_eq!(urls.len(), 2);
        writeln!(file, "nonsense").expect("written");
        assert!(read_urls(file.path()).is_err_and(|what| what.to_string().contains("line 5")));
    }
}
