//! What can be wrong with a configuration. Each error is one line for people that names the setting and says what it may be.

use super::{HeaderFault, SiloError, SitesError};
use catalog::FoldersError;
use smallfile::in_plain_words;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with a configuration, and where.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// The file is not TOML, or has a setting that does not exist or has the wrong type.
    Malformed {
        /// Which file.
        file: PathBuf,
        /// Where, and what.
        why: Box<toml::de::Error>,
    },
    /// A number is out of bounds.
    OutOfBounds {
        /// Which setting.
        setting: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A text is not of the required kind.
    NotOfKind {
        /// Which setting.
        setting: &'static str,
        /// What it is.
        value: String,
        /// What to write.
        wanted: &'static str,
    },
    /// A prefix in `proxy_protocol.from` goes on behind its length.
    PrefixGoesOn {
        /// As it is written.
        text: String,
        /// What it may have been meant to be.
        meant: String,
    },
    /// A rule about headers cannot be followed.
    Headers {
        /// Which of them, counted from 1.
        number: usize,
        /// Its path.
        path: String,
        /// What is wrong with it.
        fault: HeaderFault,
    },
    /// The library's folders cannot be served together.
    Folders(FoldersError),
    /// The sites cannot be as they are described.
    Sites(SitesError),
    /// `signing.required` without `signing.keys`.
    RequiredWithoutKeys,
    /// `signing.keys` with an empty `signing.required`.
    NothingRequired,
    /// Certificates without TLS.
    CertificatesWithoutTls,
    /// A certificate by ACME without TLS.
    AcmeWithoutTls,
    /// A certificate by ACME besides one that is given.
    AcmeWithCertificates,
    /// `tls.nic = "on"` on a route on which the kernel gets no keys.
    NicWithoutKernel,
    /// The bypass route needs the keys that `--off handout` leaves in rustls.
    BypassWithoutKeys,
    /// The bypass route cannot use port 0, because no kernel chooses its port.
    BypassWithoutPort,
    /// The bypass route has no address of its own.
    BypassWithoutAddress,
    /// The bypass route has no network card.
    BypassWithoutCard,
    /// A caching edge without a folder for what it fetches.
    OriginWithoutCache,
    /// A folder for a caching edge without an origin.
    CacheWithoutOrigin,
    /// The origin's address is none; the text says why.
    Origin(String),
    /// The bypass route cannot wait for an origin.
    BypassWithOrigin,
    /// The silos cannot be as they are described.
    Silos(SiloError),
    /// One of the server's own files would be served.
    OwnFileServed {
        /// Which file.
        file: PathBuf,
        /// Where links lead from there, if there are links.
        real: Option<PathBuf>,
        /// What it is.
        what: &'static str,
        /// The library that contains it.
        library: PathBuf,
        /// Where to keep it instead.
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

    pub(crate) fn not_of_kind(
        setting: &'static str,
        value: impl ToString,
        wanted: &'static str,
    ) -> Self {
        Self::NotOfKind { setting, value: value.to_string(), wanted }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, why } => cannot_read(f, file, why),
            Self::Malformed { file, why } => {
                write!(f, "in {}: {}", file.display(), in_plain_words(&why.to_string()))
            }
            Self::OutOfBounds { setting, value, allowed } => {
                write!(f, "{setting} is {value}; it may be {allowed}")
            }
            Self::NotOfKind { setting, value, wanted } => {
                write!(f, "{setting} has {value:?}; write {wanted}")
            }
            Self::PrefixGoesOn { text, meant } => write!(
                f,
                "proxy_protocol.from has {text:?}, whose address has bits behind the prefix: write {meant:?}"
            ),
            Self::Headers { number, path, fault } => {
                write!(f, "http.headers, rule {number}, for {path:?}: {fault}")
            }
            Self::Folders(error) => error.fmt(f),
            Self::Sites(error) => error.fmt(f),
            Self::RequiredWithoutKeys => f.write_str(
                "signing.required is set without signing.keys, so nothing would need a token; make a key with `fullbore sign --new-key FILE`",
            ),
            Self::NothingRequired => f.write_str(
                "signing.required is empty, so nothing would need a token; leave it out to require one for everything",
            ),
            Self::CertificatesWithoutTls => {
                f.write_str("TLS is off, but certificates are given: remove one of these settings")
            }
            Self::AcmeWithoutTls => f.write_str(
                "TLS is off, but [tls.acme] asks for a certificate: remove that section, or leave TLS on",
            ),
            Self::AcmeWithCertificates => f.write_str(
                "[tls.acme] asks for a certificate, but one is given: remove that section, or --cert and --key ([[tls.certificates]])",
            ),
            Self::NicWithoutKernel => f.write_str(
                "tls.nic = \"on\" needs the kernel, which passes keys to network cards: choose --route kernel or auto, or set tls.nic = \"off\"",
            ),
            Self::BypassWithoutKeys => f.write_str(
                "--off handout leaves the TLS keys in rustls, and the bypass route needs them: choose --route userspace",
            ),
            Self::BypassWithoutPort => {
                f.write_str("the bypass route needs a port: give one with --listen ADDR:PORT")
            }
            Self::BypassWithoutAddress => f.write_str(
                "bypass.addresses is empty: give the server an address that nothing else uses, in the configuration file: \
                 [bypass] addresses = [\"192.0.2.2\"]",
            ),
            Self::BypassWithoutCard => f.write_str(
                "bypass.interface is missing: name the network card (`ip link` lists them)",
            ),
            Self::OriginWithoutCache => {
                f.write_str("an origin is set, but no cache: name a folder for it with --cache DIR")
            }
            Self::CacheWithoutOrigin => f.write_str(
                "a cache is set, but no origin: name one with --origin URL, or leave the cache out",
            ),
            Self::Origin(why) => f.write_str(why),
            Self::BypassWithOrigin => f.write_str(
                "the bypass route cannot wait for an origin: choose --route auto for a caching edge",
            ),
            Self::Silos(error) => error.fmt(f),
            Self::OwnFileServed { file, real, what, library, advice } => {
                let by = real.as_ref().map(|real| format!(" ({})", real.display()));
                let (file, by, library) = (file.display(), by.unwrap_or_default(), library.display());
                write!(f, "{file}{by} is {what}, and it is in the library {library}, where any viewer could fetch it: {advice}")
            }
        }
    }
}

fn cannot_read(f: &mut fmt::Formatter<'_>, file: &Path, why: &io::Error) -> fmt::Result {
    write!(
        f,
        "cannot read the configuration {}: {why}; check the path, and that this user may read it",
        file.display()
    )
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { why, .. } => Some(why),
            Self::Malformed { why, .. } => Some(&**why),
            Self::Folders(error) => Some(error),
            _ => None,
        }
    }
}
