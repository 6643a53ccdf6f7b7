//! Errors in a configuration. Each is one line for people that names the setting and its allowed values.

use super::{HeaderFault, SiloError, SitesError};
use catalog::FoldersError;
use edge::rules::{EdgeRuleFault, RULES_BYTES_MAX};
use files::in_plain_words;
use std::io;
use std::path::{Path, PathBuf};

/// An error in a configuration, and its place.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(
        "cannot read the configuration {file}: {why}; check the path, and that this user may read it"
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        #[source]
        why: io::Error,
    },
    /// The file is not TOML, or has a setting that does not exist or has the wrong type.
    #[error("in {file}: {}", in_plain_words(&.why.to_string()))]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The place and the fault.
        #[source]
        why: Box<toml::de::Error>,
    },
    /// As [`Self::Malformed`], but no text of the file is shown: headers for an origin may be secrets, and others read logs.
    #[error("in {file}: line {line}: {}", in_plain_words(.fault))]
    MalformedNearSecrets {
        /// The file.
        file: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The fault.
        fault: String,
    },
    /// A number is out of bounds.
    #[error("{setting} is {value}; it may be {allowed}")]
    OutOfBounds {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A text is not of the required kind.
    #[error("{setting} has {value:?}; write {wanted}")]
    NotOfKind {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// A description of valid values.
        wanted: &'static str,
    },
    /// A prefix has bits after its length.
    #[error("{setting} has {text:?}, whose address has bits behind the prefix: write {meant:?}")]
    PrefixGoesOn {
        /// The setting.
        setting: &'static str,
        /// The prefix as written.
        text: String,
        /// The prefix that was probably meant.
        meant: String,
    },
    /// A rule about headers is invalid.
    #[error("http.headers, rule {number}, for {path:?}: {fault}")]
    Headers {
        /// The rule's number, counted from 1.
        number: usize,
        /// Its path.
        path: String,
        /// Its fault.
        fault: HeaderFault,
    },
    /// A rule for some paths of an edge is invalid.
    #[error("edge.rules, rule {number}, for {path:?}: {fault}")]
    EdgeRules {
        /// The rule's number, counted from 1.
        number: usize,
        /// Its path.
        path: String,
        /// Its fault.
        fault: EdgeRuleFault,
    },
    /// The rules of an edge are too long for its helper.
    #[error(
        "edge.rules have {0} bytes in all, and may have {RULES_BYTES_MAX}; write fewer or shorter names, such as \"utm_*\""
    )]
    EdgeRulesLong(usize),
    /// The library's folders cannot be served together.
    #[error("{0}")]
    Folders(#[source] FoldersError),
    /// The sites are invalid.
    #[error("{0}")]
    Sites(SitesError),
    /// `signing.required` without `signing.keys`.
    #[error(
        "signing.required is set without signing.keys, so nothing would need a token; make a key with `fullbore sign --new-key FILE`"
    )]
    RequiredWithoutKeys,
    /// Issuers or audiences of Common Access Tokens without `signing.cat_keys`.
    #[error(
        "signing.cat_issuers and signing.cat_audiences need signing.cat_keys: name a file with keys of Common Access Tokens there"
    )]
    CatsWithoutKeys,
    /// `signing.keys` with an empty `signing.required`.
    #[error(
        "signing.required is empty, so nothing would need a token; leave it out to require one for everything"
    )]
    NothingRequired,
    /// Certificates without TLS.
    #[error("TLS is off, but certificates are given: remove one of these settings")]
    CertificatesWithoutTls,
    /// A certificate by ACME without TLS.
    #[error(
        "TLS is off, but [tls.acme] asks for a certificate: remove that section, or leave TLS on"
    )]
    AcmeWithoutTls,
    /// A certificate by ACME in addition to a given one.
    #[error(
        "[tls.acme] asks for a certificate, but one is given: remove that section, or --cert and --key ([[tls.certificates]])"
    )]
    AcmeWithCertificates,
    /// `tls.nic = "on"` on a route where the kernel gets no keys.
    #[error(
        "tls.nic = \"on\" needs the kernel, which passes keys to network cards: choose --route kernel or auto, or set tls.nic = \"off\""
    )]
    NicWithoutKernel,
    /// The bypass route needs the keys that `--off handout` leaves in rustls.
    #[error(
        "--off handout leaves the TLS keys in rustls, and the bypass route needs them: choose --route userspace"
    )]
    BypassWithoutKeys,
    /// The bypass route cannot use port 0, because no kernel chooses its port.
    #[error("the bypass route needs a port: give one with --listen ADDR:PORT")]
    BypassWithoutPort,
    /// The bypass route has no address of its own.
    #[error(
        "bypass.addresses is empty: give the server an address that nothing else uses, in the configuration file: \
         [bypass] addresses = [\"192.0.2.2\"]"
    )]
    BypassWithoutAddress,
    /// The bypass route has no network card.
    #[error("bypass.interface is missing: name the network card (`ip link` lists them)")]
    BypassWithoutNic,
    /// A method that is not sent on to an origin.
    #[error(
        "edge.methods contains {0:?}, which can't be forwarded: use a method such as \"POST\", in upper case"
    )]
    EdgeMethod(String),
    /// Methods for an origin that takes only GET.
    #[error(
        "edge.methods works only with web servers, and this origin is a bucket: remove the setting"
    )]
    EdgeMethodsOfBucket,
    /// The edge's own URL is not one.
    #[error(
        "edge.public_url is {0:?}: write the scheme and the host that viewers use, such as \"https://edge.example\""
    )]
    EdgePublicUrl(String),
    /// Headers for an origin that gets none.
    #[error(
        "edge.cookies, edge.forwarded_for and edge.public_url work only with web servers, and this origin is a bucket: remove these settings"
    )]
    EdgeForwardedToBucket,
    /// A caching edge without a cache folder.
    #[error("an origin is set, but no cache: name a folder for it with --cache DIR")]
    OriginWithoutCache,
    /// A cache folder without an origin.
    #[error("a cache is set, but no origin: name one with --origin URL, or leave the cache out")]
    CacheWithoutOrigin,
    /// The origin's address is invalid; the text says why.
    #[error("{0}")]
    Origin(String),
    /// The same origin twice.
    #[error("edge.origin contains {0} twice: name each origin once, in order of preference")]
    OriginTwice(String),
    /// Too many origins.
    #[error("edge.origin has {0} origins: name at most {1}")]
    Origins(usize, usize),
    /// Origins of different kinds.
    #[error(
        "edge.origin has both web servers and buckets: one edge has origins of one kind; start a second edge for the others"
    )]
    OriginsMixed,
    /// The bypass route cannot wait for an origin.
    #[error("the bypass route cannot wait for an origin: choose --route auto for a caching edge")]
    BypassWithOrigin,
    /// The silos are invalid.
    #[error("{0}")]
    Silos(SiloError),
    /// One of the server's own files would be served.
    #[error(
        "{file}{} is {what}, and it is in the library {library}, where any viewer could fetch it: {advice}",
        in_parentheses(.real.as_deref())
    )]
    OwnFileServed {
        /// The file.
        file: PathBuf,
        /// The file that its links lead to, if there are links.
        real: Option<PathBuf>,
        /// The kind of file.
        what: &'static str,
        /// The library that contains it.
        library: PathBuf,
        /// A better place for it.
        advice: &'static str,
    },
}

impl ConfigError {
    pub(crate) fn out_of_bounds(
        setting: &'static str,
        value: impl ToString,
        allowed: &'static str,
    ) -> Self {
        Self::OutOfBounds { setting, value: value.to_string(), allowed }
    }

    /// The fault of a file with this text.
    pub(crate) fn malformed(file: PathBuf, text: &str, why: toml::de::Error) -> Self {
        if !(text.contains("edge") && text.contains("headers")) {
            return Self::Malformed { file, why: Box::new(why) };
        }
        let before = why.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let fault = match (why.message().find('"'), why.message().rfind('"')) {
            (Some(first), Some(last)) if first < last => {
                format!("{}...{}", &why.message()[..=first], &why.message()[last..])
            }
            _ => why.message().to_owned(),
        };
        Self::MalformedNearSecrets { file, line: 1 + before.matches('\n').count(), fault }
    }

    pub(crate) fn not_of_kind(
        setting: &'static str,
        value: impl ToString,
        wanted: &'static str,
    ) -> Self {
        Self::NotOfKind { setting, value: value.to_string(), wanted }
    }
}

fn in_parentheses(file: Option<&Path>) -> String {
    file.map_or_else(String::new, |file| format!(" ({})", file.display()))
}
