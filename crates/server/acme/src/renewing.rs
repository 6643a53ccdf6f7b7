//! The helper's main loop: obtains the certificate, and renews it, until the server is gone.

use crate::challenges::{self, Answers, Challenges};
use crate::files::{self, HeldCertificate};
use crate::http_client::AcmeHttp;
use crate::obtain::{NotObtained, Obtained, obtain};
use crate::proving::AtServer;
use crate::schedule::{Lifetime, NextStep, Schedule};
use crate::{
    AcmeExternalAccount, AcmeKeyType, AcmeNews, AcmePacket, AcmeProving, AcmeTold, AcmeTrouble,
    account,
};
use helper_process::sandbox::{self, Confined, HelperNeeds};
use helper_process::{keeper, packets};
use instant_acme::{Account, CertificateIdentifier, Error, ExternalAccountKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The time limit of a whole order: two slow hook calls for each of several names, and a slow authority.
const ORDER_MAX: Duration = Duration::from_secs(3600);

/// How long the helper sleeps at most. The schedule's clock may be set, and a machine may be suspended for longer than its timers notice.
const SLEEP_MAX_SECONDS: u64 = 60;

/// How long the last answers may take after the server is gone.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);

/// The most names in a line for the operator.
const NAMES_TOLD_MAX: usize = 5;

/// The helper's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeOptions {
    /// The names to be certified, in lower case.
    pub domains: Vec<String>,
    /// A mail address for the authority.
    pub contact: Option<String>,
    /// The authority's directory.
    pub directory: String,
    /// The CA certificates to trust for the authority, PEM; by default, the system's.
    pub roots: Option<PathBuf>,
    /// The external account that a new account is bound to.
    #[serde(default)]
    pub external_account: Option<AcmeExternalAccount>,
    /// The kind of the certificate's key.
    #[serde(default)]
    pub key_type: AcmeKeyType,
    /// The common name of the root at which the chain should end, if the authority offers several.
    #[serde(default)]
    pub preferred_chain: Option<String>,
    /// The address on which the authority checks answers over HTTP.
    pub listen: SocketAddr,
    /// Whether the helper's standard output is a listener there. Then no connection is refused while one helper replaces another.
    #[serde(default)]
    pub has_listener: bool,
    /// Where to redirect all other requests: the HTTPS port.
    pub https_port: Option<u16>,
    /// Whether the server answers the authority, over TLS.
    #[serde(default)]
    pub by_tls: bool,
    /// The program that adds records to DNS, if names are proved that way.
    pub dns_hook: Option<PathBuf>,
    /// The server's state folder.
    pub state: PathBuf,
    /// Whether to drop privileges that the helper does not need. Not possible with a hook, which may need anything.
    pub is_confined: bool,
}

impl AcmeOptions {
    /// Whether there are answers to serve over HTTP.
    pub fn needs_port(&self) -> bool {
        (self.dns_hook.is_none() && !self.by_tls) || self.https_port.is_some()
    }

    /// Whether the helper has to open the listener itself.
    fn opens_port(&self) -> bool {
        self.needs_port() && !self.has_listener
    }

    /// The names for use in a sentence.
    fn names(&self) -> String {
        in_a_sentence(self.domains.iter())
    }
}

struct Helper {
    options: AcmeOptions,
    socket: OwnedFd,
    schedule: Schedule,
    held: Option<HeldCertificate>,
    /// A message for the operator at the start.
    at_first: String,
    http: AcmeHttp,
    challenges: Challenges,
    account: Option<Account>,
    /// The external account for a new account.
    binding: Option<ExternalAccountKey>,
    /// Whether the authority wants to know which certificate is replaced.
    is_replaceable: bool,
    is_listening: bool,
    /// Becomes true when the server is gone.
    is_gone: watch::Receiver<bool>,
    confined: Confined,
}

/// Keeps a valid certificate for the server at the other end of `socket`, until it is gone. Then the process exits.
///
/// # Errors
/// If the state folder cannot be used, or the system has no threads or descriptors left.
pub fn run(options: AcmeOptions, socket: OwnedFd) -> io::Result<()> {
    keeper::ignore_signals()?;
    let heard = socket.try_clone()?;
    let (gone, is_gone) = watch::channel(false);
    let (answer, answered) = watch::channel(0);
    let watch = move || end_with_server(&heard, &gone, &answer);
    std::thread::Builder::new().name("watch".into()).spawn(watch)?;
    files::make_folders(&options.state)?;
    // The next server's helper waits here for the previous one.
    let _lock = files::lock(&options.state)?;
    let http = AcmeHttp::new(&options.directory, options.roots.as_deref());
    let http = http.map_err(io::Error::other)?;
    let binding = options.external_account.as_ref().map(AcmeExternalAccount::key).transpose()?;
    // Everything that is needed only once is open, and the only other thread just waits.
    let confined = confine(&options);
    if let Some(lacks) = &confined.lacks {
        eprintln!("fullbore: the helper for certificates: {lacks}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let at_server = match options.by_tls {
        true => Some(AtServer::new(socket.try_clone()?, answered)),
        false => None,
    };
    let helper = Helper::new(options, socket, http, confined, is_gone, at_server);
    runtime.block_on(Helper { binding, ..helper }.live())
}

fn confine(options: &AcmeOptions) -> Confined {
    let directory = reqwest::Url::parse(&options.directory).ok().filter(|_| options.is_confined);
    let port = directory.as_ref().and_then(reqwest::Url::port_or_known_default);
    let (Some(directory), Some(port)) = (directory, port) else { return Confined::not() };
    let host = directory.host_str().unwrap_or_default().trim_matches(['[', ']']);
    sandbox::confine(&HelperNeeds {
        folders: &[
            &files::certificate_folder(&options.state),
            &files::account_folder(&options.state),
        ],
        ports: &[port],
        resolves: host.parse::<IpAddr>().is_err(),
        listens: options.opens_port().then_some(options.listen.port()),
    })
}

/// The server only reports the names that it proves, and its end of the socket closes with it.
fn end_with_server(socket: &OwnedFd, gone: &watch::Sender<bool>, answer: &watch::Sender<u64>) {
    let mut buffer = Vec::new();
    while let Ok(Some((AcmeProving { number }, _))) = packets::receive(socket, &mut buffer) {
        answer.send_replace(number);
    }
    // Open connections are served, and then the process exits ([`challenges::serve`]).
    if gone.send(true).is_ok() {
        std::thread::sleep(LAST_ANSWERS_MAX);
    }
    // Work in progress is of no use any more: files are replaced whole.
    std::process::exit(0);
}

/// The listener that this process has as its standard output, to which it writes nothing.
fn listener_given() -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(io::stdout().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Helper {
    fn new(
        options: AcmeOptions,
        socket: OwnedFd,
        http: AcmeHttp,
        confined: Confined,
        is_gone: watch::Receiver<bool>,
        at_server: Option<AtServer>,
    ) -> Self {
        let asking =
            format!("asking {} for a certificate for {}", options.directory, options.names());
        let takes = match options.dns_hook {
            None => "within a minute",
            Some(_) => "a minute after the hook is done",
        };
        let meanwhile =
            format!("it should be there {takes}; until then, viewers get a self-signed one");
        let (held, at_first) = match files::read_certificate(&options.state) {
            Ok(Some(held))
                if covers(&held.names, &options.domains)
                    && held.key_type.is_none_or(|kind| kind == options.key_type) =>
            {
                (Some(held), String::new())
            }
            Ok(Some(held)) if covers(&held.names, &options.domains) => {
                (None, format!("{asking}; the one in use has another kind of key"))
            }
            Ok(Some(held)) => {
                let names = in_a_sentence(held.names.iter());
                (None, format!("{asking}; the one in use is for {names}"))
            }
            Ok(None) => (None, format!("{asking}; {meanwhile}")),
            Err(error) => {
                let file = files::certificate_file(&options.state);
                (None, format!("{asking}, because {} cannot be used: {error}", file.display()))
            }
        };
        let lifetime = held.as_ref().map(|held| held.lifetime);
        let (answers, hook) = (Answers::default(), options.dns_hook.clone());
        let challenges = Challenges { answers, hook, at_server };
        Self {
            schedule: Schedule::new(lifetime, now(), fastrand::f64()),
            options,
            socket,
            held,
            at_first,
            http,
            challenges,
            account: None,
            binding: None,
            is_replaceable: false,
            is_listening: false,
            is_gone,
            confined,
        }
    }

    async fn live(mut self) -> io::Result<()> {
        let at_first = std::mem::take(&mut self.at_first);
        self.tell(AcmeNews::Planned, &at_first)?;
        if let Some(at_server) = &self.challenges.at_server {
            // A server that does not answer now will not answer during an order either, which reports the reason.
            let _ = at_server.bring_up_to_date().await;
        }
        loop {
            let at = now();
            match self.schedule.next(at) {
                NextStep::Order => self.order().await?,
                NextStep::AskWindow => self.ask_window().await?,
                NextStep::WaitUntil(then) => {
                    // For requests that are redirected to HTTPS. An order reports problems with the address.
                    let _ = self.listen().await;
                    let seconds = then.saturating_sub(at).clamp(1, SLEEP_MAX_SECONDS);
                    sleep(Duration::from_secs(seconds)).await;
                }
            }
        }
    }

    fn tell(&self, news: AcmeNews, said: &str) -> io::Result<()> {
        let (ends, due) = (self.schedule.ends(), self.schedule.due());
        let told = AcmeTold { news, ends, due, said: said.to_owned() };
        packets::send(&self.socket, &AcmePacket::Told(told), None)
    }

    /// Opens the listener for the authority, if that is needed and not done yet.
    async fn listen(&mut self) -> Result<(), NotObtained> {
        if self.is_listening || !self.options.needs_port() {
            return Ok(());
        }
        let address = self.options.listen;
        let listener = match self.options.has_listener {
            true => listener_given(),
            false => TcpListener::bind(address).await,
        };
        let listener = listener.map_err(|error| {
            let said =
                format!("cannot listen on {address} for the authority's challenges: {error}");
            NotObtained::Told(AcmeTrouble::Listen, said)
        })?;
        let answers = self.challenges.answers.clone();
        let is_gone = self.is_gone.clone();
        tokio::spawn(challenges::serve(listener, answers, self.options.https_port, is_gone));
        self.is_listening = true;
        Ok(())
    }

    /// The account: the one in memory, or the saved one, or a new one.
    async fn account(&mut self) -> Result<Account, NotObtained> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let account = account::open(&self.options, self.binding.as_ref(), &self.http).await?;
        self.account = Some(account.clone());
        Ok(account)
    }

    async fn order(&mut self) -> io::Result<()> {
        let late = || {
            let said = "an order took longer than an hour".to_owned();
            Err(NotObtained::Told(AcmeTrouble::Unreachable, said))
        };
        let done = timeout(ORDER_MAX, self.try_order()).await.unwrap_or_else(|_| late());
        match done {
            Ok(held) => self.note_obtained(held),
            Err(error) => {
                let last = self.http.take_last();
                let (why, said) = error.judge(last);
                if why == AcmeTrouble::Account {
                    account::forget(&self.options);
                }
                // The next order starts without state that may be the cause.
                (self.account, self.is_replaceable) = (None, false);
                let retry_after = last.retry_after.filter(|_| last.status >= 400);
                self.note_failed(why, &said, retry_after)?;
                match why == AcmeTrouble::Unreachable && self.confined.is_outdated() {
                    // The next helper may read the new file.
                    true => Err(io::Error::other("a file needed to resolve names was replaced")),
                    false => Ok(()),
                }
            }
        }
    }

    async fn try_order(&mut self) -> Result<HeldCertificate, NotObtained> {
        self.listen().await?;
        let account = self.account().await?;
        let replaced = self.held.as_ref().filter(|_| self.is_replaceable);
        let replaced = replaced.and_then(|held| CertificateIdentifier::try_from(&held.der).ok());
        let replaced = replaced.map(CertificateIdentifier::into_owned);
        let (options, http) = (&self.options, &self.http);
        let obtained = obtain(&account, options, http, &self.challenges, replaced).await?;
        let Obtained { chain, key, left, said } = obtained;
        let held = files::keep_certificate(&self.options.state, &chain, &key).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::InvalidData => AcmeTrouble::Malformed,
                _ => AcmeTrouble::Disk,
            };
            NotObtained::Told(why, format!("cannot save the new certificate: {error}"))
        })?;
        if let Some(said) = said {
            // If the server is gone, this process exits anyway.
            let _ = self.tell(AcmeNews::Planned, &AcmeTold::shortened(&said));
        }
        if let Some(NotObtained::Told(_, said)) = left {
            let said = format!("a record is left in DNS: {}", AcmeTold::shortened(&said));
            // If the server is gone, this process exits anyway.
            let _ = self.tell(AcmeNews::Planned, &said);
        }
        Ok(held)
    }

    fn note_obtained(&mut self, held: HeldCertificate) -> io::Result<()> {
        let (at, lifetime) = (now(), held.lifetime);
        self.schedule.on_obtained(at, lifetime);
        self.is_replaceable = false;
        self.held = Some(held);
        let names = self.options.names();
        let (until, due) = (date(lifetime.ends), date(self.schedule.due()));
        let said = format!(
            "there is a new certificate for {names}, until {until}; the next one is due on {due}"
        );
        self.tell(AcmeNews::Obtained, &said)?;
        match doubt_clock(at, lifetime) {
            Some(said) => self.note_failed(AcmeTrouble::Clock, &said, None),
            None => Ok(()),
        }
    }

    fn note_failed(
        &mut self,
        why: AcmeTrouble,
        said: &str,
        retry_after: Option<u64>,
    ) -> io::Result<()> {
        let at = now();
        self.schedule.on_failed(at, why, retry_after);
        let again = in_words(self.schedule.ordered_at().saturating_sub(at));
        let meanwhile = match self.schedule.ends() {
            Some(ends) => format!("the certificate in use ends on {}", date(ends)),
            None => "viewers get the one from before, or a self-signed one".to_owned(),
        };
        let (names, said) = (self.options.names(), AcmeTold::shortened(said));
        let said =
            format!("no new certificate for {names}: {said}; next try in {again}; {meanwhile}");
        self.tell(AcmeNews::Failed(why), &said)
    }

    /// Asks the authority when to renew. Without an answer, the usual time stays.
    async fn ask_window(&mut self) -> io::Result<()> {
        let asked = self.try_ask_window().await;
        let at = now();
        match asked {
            Ok((window, again_in, reason)) => {
                self.is_replaceable = true;
                self.schedule.on_window(at, Some(window), Some(again_in));
                let said = match self.schedule.due() <= at {
                    true => format!("the authority wants the certificate replaced now {reason}"),
                    false => String::new(),
                };
                self.tell(AcmeNews::Planned, said.trim_end())
            }
            Err(NotObtained::Authority(Error::Unsupported(_))) => {
                self.schedule.on_window(at, None, Some(24 * 3600));
                Ok(())
            }
            Err(_) => {
                self.account = None;
                self.schedule.on_window(at, None, None);
                Ok(())
            }
        }
    }

    /// The window, in how many seconds to ask again, and the URL that explains the reason.
    async fn try_ask_window(&mut self) -> Result<((u64, u64), u64, String), NotObtained> {
        let account = self.account().await?;
        let unnamed = || Error::Unsupported("a certificate without an authority's key");
        let held = self.held.as_ref().ok_or_else(unnamed)?;
        let name = CertificateIdentifier::try_from(&held.der).map_err(|_| unnamed())?;
        let (info, again_in) = account.renewal_info(&name).await?;
        let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
        let window = &info.suggested_window;
        let window = (seconds(window.start.unix_timestamp()), seconds(window.end.unix_timestamp()));
        let reason = info.explanation_url.map(|url| format!("({})", AcmeTold::shortened(&url)));
        Ok((window, again_in.as_secs(), reason.unwrap_or_default()))
    }
}

/// The message about this machine's clock, if a certificate that was just issued is not valid `at` its time.
fn doubt_clock(at: u64, issued: Lifetime) -> Option<String> {
    let said = || {
        let [at, begins, ends] = [at, issued.begins, issued.ends].map(date);
        format!(
            "it is {at} by this machine's clock, but the new certificate is valid from {begins} to {ends}: set the clock"
        )
    };
    (!issued.contains(at)).then(said)
}

/// The first few of many names, and the number of the others.
fn in_a_sentence<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let more = names.len().saturating_sub(NAMES_TOLD_MAX);
    let told: Vec<_> = names.take(NAMES_TOLD_MAX).map(String::as_str).collect();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    told.join(", ") + &more
}

fn covers(names: &BTreeSet<String>, domains: &[String]) -> bool {
    domains.iter().all(|domain| names.contains(domain))
}

fn date(seconds: u64) -> String {
    // The last second of the year 9999: no date of HTTP is later.
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799)))
}

fn in_words(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        let said = [59, 60, 300, 7200, 100_000, 200_000].map(in_words);
        assert_eq!(said, ["59 s", "60 s", "5 min", "2 h", "27 h", "2 days"]);
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        date(u64::MAX);
    }

    #[test]
    fn a_clock_is_doubted_if_what_was_issued_just_now_is_not_valid() {
        let day = 86_400;
        let issued = Lifetime { begins: 20_000 * day - 3600, ends: 20_090 * day };
        for right in [issued.begins, 20_000 * day, issued.ends - 1] {
            assert_eq!(doubt_clock(right, issued), None, "{right}");
        }
        for (wrong, said) in [
            (0, "it is Thu, 01 Jan 1970 00:00:00 GMT by this machine's clock"),
            (issued.begins - 1, "valid from Thu, 03 Oct 2024 23:00:00 GMT"),
            (issued.ends, "to Thu, 02 Jan 2025 00:00:00 GMT: set the clock"),
            (u64::MAX, "it is Fri, 31 Dec 9999"),
        ] {
            let doubt = doubt_clock(wrong, issued).unwrap();
            assert!(doubt.contains(said), "{doubt}");
        }
    }

    #[test]
    fn many_names_are_told_by_the_first_ones() {
        let names = |count: usize| (0..count).map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(in_a_sentence(names(2).iter()), "0, 1");
        assert_eq!(in_a_sentence(names(5).iter()), "0, 1, 2, 3, 4");
        assert_eq!(in_a_sentence(names(100).iter()), "0, 1, 2, 3, 4 and 95 more");
    }

    #[test]
    fn a_certificate_will_do_if_it_has_every_name() {
        let names = ["a.example", "*.b.example"].map(str::to_owned);
        let held: BTreeSet<_> = names.iter().cloned().collect();
        assert!(covers(&held, &names) && covers(&held, &names[..1]));
        assert!(!covers(&held, &["c.example".to_owned()]));
        assert!(!covers(&held, &["x.b.example".to_owned()]));
    }
}
