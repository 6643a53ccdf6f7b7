//! The settings of one origin: what the edge requests there, and what it adds to these requests.
//!
//! Values may be secrets. Those in files are read by the keeper only ([`crate::origin_files`]); those in the configuration are never printed.

use crate::http_cache::is_of_connection;
use crate::origin_address::OriginAddress;
use crate::rules::PathPattern;
use reqwest::header::{HeaderName, HeaderValue};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// More headers than an origin needs from an edge.
const HEADERS_MAX: usize = 20;

/// The longest value of a header. Servers such as nginx refuse a header line of more than 8 KiB.
pub(crate) const VALUE_BYTES_MAX: usize = 4 << 10;

/// The most bytes of the values in the configuration, for one origin: they reach the helper in a variable of its environment, of at most 128 KiB.
const VALUES_BYTES_MAX: usize = 8 << 10;

/// The most patterns of paths, for the same reason: each has at most 256 bytes.
const PATHS_MAX: usize = 16;

/// The longest name of a user.
const USER_BYTES_MAX: usize = 255;

/// A name has at most 253 bytes, and a port 6 with its colon.
const HOST_BYTES_MAX: usize = 259;

/// Headers that the edge makes itself, because they frame a message, name a part of a film, or are conditions. In lower case.
const OF_REQUESTS: [&str; 14] = [
    "accept-encoding",
    "cdn-loop",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "via",
];

/// One origin: its address, and what requests to it carry. In a configuration, an origin that has only an address may be a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct OriginSettings {
    /// Its address.
    pub url: String,
    /// The value of `Host`, in place of the host in the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The edge's name at the origin, for HTTP Basic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The file with the password of `user`, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// The file with the certificate by which the edge proves who it is, and those of the authorities between (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The file with the key of `cert` (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The file with the CA certificates that the origin's certificate has to be from, in place of the system's (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Headers that each request to it has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderText>,
    /// Patterns of the paths that are requested from it, and it alone gets those; by default all that no other origin's patterns match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

/// The value of a header: a text, or the file that contains it. It may be a secret, so it is not printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "the value of a header must be a text, or { file = \"/path\" }"
)]
pub enum HeaderText {
    /// The value itself.
    Text(String),
    /// The file with the value, in one line.
    File {
        /// Its path.
        file: PathBuf,
    },
}

impl fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("..."),
            Self::File { file } => file.fmt(f),
        }
    }
}

impl Serialize for OriginSettings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.is_address_only() {
            true => to.serialize_str(&self.url),
            false => Self::serialize(self, to),
        }
    }
}

impl<'de> Deserialize<'de> for OriginSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AddressOrTable;
        impl<'de> Visitor<'de> for AddressOrTable {
            type Value = OriginSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the address of an origin, or a table with its url and its settings")
            }

            fn visit_str<E: Error>(self, url: &str) -> Result<Self::Value, E> {
                Ok(OriginSettings::at(url))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
                OriginSettings::deserialize(MapAccessDeserializer::new(table))
            }
        }
        from.deserialize_any(AddressOrTable)
    }
}

impl OriginSettings {
    /// An origin of which only the address is known.
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }

    /// Whether it has no setting but its address.
    fn is_address_only(&self) -> bool {
        *self == Self::at(&self.url)
    }

    /// The files that its settings name, each with its description for errors, and with whether other users must not read it.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &'static str, bool)> {
        let headers = self.headers.values().filter_map(|text| match text {
            HeaderText::Text(_) => None,
            HeaderText::File { file } => Some((file.as_path(), "a header for an origin", true)),
        });
        let others = [
            (&self.password_file, "the edge's password at an origin", true),
            (&self.cert, "the edge's certificate for an origin", false),
            (&self.key, "the private key of the edge's certificate for an origin", true),
            (&self.ca, "the CA certificates for an origin", false),
        ];
        let others = others.into_iter();
        headers
            .chain(others.filter_map(|(file, what, secret)| Some((file.as_deref()?, what, secret))))
    }

    /// A warning if a secret of its settings travels unencrypted, to an origin that is not on this machine.
    pub fn unencrypted(&self) -> Option<String> {
        let address = OriginAddress::parse(&self.url).ok()?;
        let has_secrets = self.user.is_some() || !self.headers.is_empty();
        let is_here = self.url.split("//").nth(1).is_some_and(|rest| {
            ["127.", "localhost", "[::1]"].iter().any(|host| rest.starts_with(host))
        });
        let travels = has_secrets && !address.is_https() && !address.is_bucket() && !is_here;
        travels.then(|| {
            format!("edge.origin {address}: the edge's password and headers travel unencrypted there: use https://")
        })
    }

    /// The names of its headers, in lower case.
    pub fn header_names(&self) -> impl Iterator<Item = String> {
        self.headers.keys().map(|name| name.to_ascii_lowercase())
    }

    /// Checks everything but the files. Returns the address.
    ///
    /// # Errors
    /// The fault, and what to write.
    pub fn check(&self) -> Result<OriginAddress, String> {
        let address = OriginAddress::parse(&self.url)?;
        let wrong = |why: String| format!("edge.origin {address}: {why}");
        let other = Self { paths: Vec::new(), ..self.clone() };
        if address.is_bucket() && !other.is_address_only() {
            let why = "all settings of an origin but paths are for web servers, and this is a bucket: remove them";
            return Err(wrong(why.into()));
        }
        if let Some(host) = self.host.as_ref().filter(|host| !is_host(host)) {
            let why = format!("host is {host:?}: write a name such as \"films.example\"");
            return Err(wrong(why));
        }
        self.check_tls(&address).map_err(wrong)?;
        self.check_user().map_err(wrong)?;
        self.check_headers().map_err(wrong)?;
        self.patterns().map_err(wrong)?;
        Ok(address)
    }

    /// The patterns of its paths.
    ///
    /// # Errors
    /// Which one can't be used, and what to write.
    pub(crate) fn patterns(&self) -> Result<Vec<PathPattern>, String> {
        if self.paths.len() > PATHS_MAX {
            let count = self.paths.len();
            return Err(format!("it has {count} paths: write at most {PATHS_MAX} patterns"));
        }
        let of = |text: &String| {
            PathPattern::new(text).map_err(|fault| format!("its path {text:?}: {fault}"))
        };
        self.paths.iter().map(of).collect()
    }

    fn check_tls(&self, address: &OriginAddress) -> Result<(), String> {
        match (&self.cert, &self.key) {
            (Some(_), None) => return Err("it has a cert, but no key".into()),
            (None, Some(_)) => return Err("it has a key, but no cert".into()),
            _ => {}
        }
        match (self.cert.is_some() || self.ca.is_some()) && !address.is_https() {
            true => Err("cert, key and ca are for https:// addresses".into()),
            false => Ok(()),
        }
    }

    fn check_user(&self) -> Result<(), String> {
        let user = match (&self.user, &self.password_file) {
            (None, None) => return Ok(()),
            (Some(user), Some(_)) => user,
            (Some(_), None) => return Err("it has a user, but no password_file".into()),
            (None, Some(_)) => return Err("it has a password_file, but no user".into()),
        };
        // RFC 7617 section 2: the first colon ends the name.
        if user.is_empty()
            || user.len() > USER_BYTES_MAX
            || user.contains(|one: char| one == ':' || one.is_control())
        {
            return Err(format!("user is {user:?}: write a name without a colon"));
        }
        match self.header_names().any(|name| name == "authorization") {
            true => {
                Err("it has a user, and Authorization in headers: leave one of them out".into())
            }
            false => Ok(()),
        }
    }

    fn check_headers(&self) -> Result<(), String> {
        if self.headers.len() > HEADERS_MAX {
            let count = self.headers.len();
            return Err(format!("it has {count} headers: name at most {HEADERS_MAX}"));
        }
        let mut lower: Vec<String> = self.header_names().collect();
        lower.sort();
        if let Some(twice) = lower.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("headers has {} twice, with letters in another case", twice[0]));
        }
        let mut bytes = 0;
        for (name, text) in &self.headers {
            check_name(name)?;
            if let HeaderText::Text(text) = text {
                value(text).map_err(|why| format!("the value of the header {name} {why}"))?;
                bytes += text.len();
            }
        }
        match bytes > VALUES_BYTES_MAX {
            true => Err(format!(
                "the values of its headers have {bytes} bytes, and may have {VALUES_BYTES_MAX}: move long ones into files"
            )),
            false => Ok(()),
        }
    }
}

/// Whether the edge makes the header of this name, which is in lower case, for each request or each connection.
pub(crate) fn is_made_by_edge(lower: &str) -> bool {
    is_of_connection(lower) || OF_REQUESTS.contains(&lower)
}

fn is_host(host: &str) -> bool {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
    (1..=HOST_BYTES_MAX).contains(&host.len()) && host.bytes().all(is_of_host)
}

/// Refuses names of headers that a request can't have, or that the edge makes itself.
fn check_name(name: &str) -> Result<(), String> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("headers has {name:?}, which is not the name of a header"));
    }
    let lower = name.to_ascii_lowercase();
    let advice = match lower.as_str() {
        "host" => "set host instead",
        "cookie" => "viewers' cookies are sent on with edge.cookies",
        "x-forwarded-for" => "set edge.forwarded_for instead",
        "x-forwarded-host" | "x-forwarded-proto" => "set edge.public_url instead",
        other if is_of_connection(other) => "it concerns one connection, and the edge makes it",
        other if OF_REQUESTS.contains(&other) => "the edge makes it for each request",
        _ => return Ok(()),
    };
    Err(format!("headers can't have {name}: {advice}"))
}

/// A text as the value of a header. It is marked as a secret.
pub(crate) fn value(text: &str) -> Result<HeaderValue, String> {
    if text.trim().is_empty() {
        return Err("is empty".into());
    }
    if text.len() > VALUE_BYTES_MAX {
        return Err(format!("has more than {VALUE_BYTES_MAX} bytes"));
    }
    let value = HeaderValue::from_str(text).ok().filter(|_| text.is_ascii());
    let mut value = value.ok_or(
        "has a line end or another byte that a header can't have: write one line of ASCII",
    )?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
#[path = "origin_settings_tests.rs"]
mod tests;
