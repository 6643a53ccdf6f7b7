//! Errors in a configuration. Each is one line for people that names the setting and its allowed values.

use super::{HeaderFault, SiloError, SitesError};
use catalog::FoldersError;
use files::in_plain_words;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error in a configuration, and its place.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The file is not TOML, or has a setting that does not exist or has the wrong type.
    Malformed {
        /// The file.
        file: PathBuf,
        /// The place and the fault.
        why: Box<toml::de::Error>,
    },
    /// A number is out of bounds.
    OutOfBounds {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A text is not of the required kind.
    NotOfKind {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// A description of valid values.
        wanted: &'static str,
    },
    /// A prefix in `proxy_protocol.from` has bits after its length.
    PrefixGoesOn {
        /// The prefix as written.
        text: String,
        /// The prefix that was probably meant.
        meant: String,
    },
    /// A rule about headers is invalid.
    Headers {
        /// The rule's number, counted from 1.
        number: usize,
        /// Its path.
        path: String,
        /// Its fault.
        fault: HeaderFault,
    },
    /// The library's folders cannot be served together.
    Folders(FoldersError),
    /// The sites are invalid.
    Sites(SitesError),
    /// `signing.required` without `signing.keys`.
    RequiredWithoutKeys,
    /// `signing.keys` with an empty `signing.required`.
    NothingRequired,
    /// Certificates without TLS.
    CertificatesWithoutTls,
    /// A certificate by ACME without TLS.
    AcmeWithoutTls,
    /// A certificate by ACME in addition to a given one.
    AcmeWithCertificates,
    /// `tls.nic = "on"` on a route where the kernel gets no keys.
    NicWithoutKernel,
    /// The bypass route needs the keys that `--off handout` leaves in rustls.
    BypassWithoutKeys,
    /// The bypass route cannot use port 0, because no kernel chooses its port.
    BypassWithoutPort,
    /// The bypass route has no address of its own.
    BypassWithoutAddress,
    /// The bypass route has no network card.
    BypassWithoutNic,
    /// A caching edge without a cache folder.
    OriginWithoutCache,
    /// A cache folder without an origin.
    CacheWithoutOrigin,
    /// The origin's address is invalid; the text says why.
    Origin(String),
    /// The bypass route cannot wait for an origin.
    BypassWithOrigin,
    /// The silos are invalid.
    Silos(SiloError),
    /// One of the server's own files would be served.
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
            Self::BypassWithoutNic => f.write_str(
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
