//! What one origin's requests are made with: an HTTP client, and the header fields that the edge adds.

use crate::origin_files::OriginFiles;
use crate::origin_settings::{HeaderText, OriginSettings, value};
use data_encoding::BASE64;
use outbound::{ClientIdentity, Trusted, with_causes};
use reqwest::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, StatusCode, Url};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longer than any connect that succeeds: the second try after a lost packet comes after one second, the third after three.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A connection that is kept for longer without a request is closed. The next one resolves the origin's name again.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// The system's CA certificates, or those in the file that the environment names.
///
/// # Errors
/// If that file can't be read.
pub(crate) fn trusted() -> Result<Trusted, String> {
    let named = std::env::var("SSL_CERT_FILE").ok().filter(|path| !path.is_empty());
    Trusted::read(named.as_deref()).map_err(|why| {
        format!("{why}; name a file of certificates (PEM) in SSL_CERT_FILE, or unset it")
    })
}

/// Checks whether the CA certificates for origins, and the files that `origins` name, can be used. The server does this before it reports that it is
/// ready.
///
/// # Errors
/// Which file cannot be used, and what to do.
pub fn check_files(origins: &[OriginSettings]) -> io::Result<()> {
    let check = || {
        trusted()?;
        check_text(origins, &OriginFiles::read(origins)?)
    };
    check().map_err(io::Error::other)
}

/// Checks whether the texts of these files can be used.
///
/// # Errors
/// Which one can't be.
pub(crate) fn check_text(origins: &[OriginSettings], files: &OriginFiles) -> Result<(), String> {
    origins.iter().try_for_each(|origin| {
        fields(origin, files)?;
        client(origin, files, &Trusted::default()).map(drop)
    })
}

/// A client, and the fields of its requests.
pub(crate) struct OriginAccess {
    http: Client,
    fields: HeaderMap,
    /// Set if the origin has refused the edge's own `Authorization`, and the log says so.
    is_refused: AtomicBool,
}

/// What origins are reached with, whatever their settings are.
#[derive(Clone)]
pub(crate) struct Reach {
    /// The CA certificates to trust. Once it is confined, this process can't read them again.
    pub(crate) trusted: Trusted,
    /// An origin that is silent for longer counts as unreachable.
    pub(crate) silent_max: Duration,
}

impl OriginAccess {
    /// Sends no request yet.
    ///
    /// # Errors
    /// Which file can't be used.
    pub(crate) fn new(
        settings: &OriginSettings,
        files: &OriginFiles,
        Reach { trusted, silent_max }: &Reach,
    ) -> Result<Self, String> {
        let silent_max = *silent_max;
        let http = client(settings, files, trusted)?
            .connect_timeout(CONNECT_MAX.min(silent_max))
            .read_timeout(silent_max)
            .pool_idle_timeout(IDLE_MAX)
            .no_proxy()
            .build()
            .map_err(|error| with_causes(&error))?;
        let is_refused = AtomicBool::new(false);
        Ok(Self { http, fields: fields(settings, files)?, is_refused })
    }

    /// Whether a request with this method and these `fields` of a viewer gets the edge's own `Authorization`. One that may change something does
    /// not: a viewer would change it by the edge's rights.
    pub(crate) fn authorizes(&self, method: &Method, fields: &HeaderMap) -> bool {
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
        is_safe && self.fields.contains_key(AUTHORIZATION) && !fields.contains_key(AUTHORIZATION)
    }

    /// Notes the status of an answer to a request with the edge's own `Authorization`. Returns whether that was refused, and whether the log should
    /// say so: another origin may answer, and then no viewer notices.
    pub(crate) fn note_authorized(&self, status: StatusCode) -> (bool, bool) {
        let is_refused = status == StatusCode::UNAUTHORIZED;
        let was_refused = self.is_refused.swap(is_refused, Ordering::Relaxed);
        (is_refused, is_refused && !was_refused)
    }

    /// A request with these `fields`, and those of the settings in place of a viewer's of the same name. Only `Authorization` of a viewer stays: the
    /// origin answers that viewer, and no other viewer gets its answer.
    pub(crate) fn request(
        &self,
        method: Method,
        url: Url,
        mut fields: HeaderMap,
    ) -> RequestBuilder {
        for (name, value) in &self.fields {
            if name != AUTHORIZATION || self.authorizes(&method, &fields) {
                fields.insert(name, value.clone());
            }
        }
        self.http.request(method, url).headers(fields)
    }
}

/// A client of an origin with these settings. If they name no CA certificates, it trusts those in `trusted`.
fn client(
    settings: &OriginSettings,
    files: &OriginFiles,
    trusted: &Trusted,
) -> Result<ClientBuilder, String> {
    let wrong = |what: &str, why: String| format!("edge.origin {}: {what}: {why}", settings.url);
    let of_file = |file: &PathBuf| {
        let trusted = Trusted::of_pem(files.text(file)?);
        trusted.map_err(|why| wrong(&format!("the CA certificates in {}", file.display()), why))
    };
    let own = settings.ca.as_ref().map(of_file).transpose()?;
    let trusted = own.as_ref().unwrap_or(trusted);
    let (Some(cert), Some(key)) = (&settings.cert, &settings.key) else {
        return trusted.client(None);
    };
    let identity = ClientIdentity::of_pem(files.text(cert)?, files.text(key)?);
    identity
        .and_then(|identity| trusted.client(Some(identity)))
        .map_err(|why| wrong(&format!("cert {} and key {}", cert.display(), key.display()), why))
}

/// The fields that the settings add to each request.
fn fields(settings: &OriginSettings, files: &OriginFiles) -> Result<HeaderMap, String> {
    let mut fields = HeaderMap::new();
    let wrong = |what: &str| format!("edge.origin {}: {what}", settings.url);
    if let Some(host) = &settings.host {
        let host = HeaderValue::from_str(host).map_err(|_| wrong("host is not a valid name"))?;
        fields.insert(HOST, host);
    }
    if let (Some(user), Some(file)) = (&settings.user, &settings.password_file) {
        fields.insert(
            AUTHORIZATION,
            basic(user, files.line(file)?)
                .map_err(|why| wrong(&format!("the password in {} {why}", file.display())))?,
        );
    }
    for (name, text) in &settings.headers {
        let (text, of) = match text {
            HeaderText::Text(text) => (text.as_str(), String::new()),
            HeaderText::File { file } => (files.line(file)?, format!(", in {},", file.display())),
        };
        let value = value(text)
            .map_err(|why| wrong(&format!("the value of the header {name}{of} {why}")))?;
        let name = HeaderName::from_bytes(name.as_bytes());
        fields.insert(name.map_err(|_| wrong("a header has no valid name"))?, value);
    }
    Ok(fields)
}

/// The value of `Authorization` for a user and a password (RFC 7617).
fn basic(user: &str, password: &str) -> Result<HeaderValue, String> {
    if password.is_empty() {
        return Err("is empty".into());
    }
    if password.contains(char::is_control) {
        return Err("has a line end or another control character: write one line".into());
    }
    value(&format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(settings: &str, viewers: &[(&'static str, &'static str)]) -> HeaderMap {
        sent_by(Method::GET, settings, viewers)
    }

    fn sent_by(
        method: Method,
        settings: &str,
        viewers: &[(&'static str, &'static str)],
    ) -> HeaderMap {
        let settings: OriginSettings = serde_json::from_str(settings).unwrap();
        let files = OriginFiles::default();
        let reach = Reach { trusted: trusted().unwrap(), silent_max: Duration::from_secs(1) };
        let access = OriginAccess::new(&settings, &files, &reach).unwrap();
        let fields = viewers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let url = Url::parse(&settings.url).unwrap();
        let request = access.request(method, url, fields.collect()).build().unwrap();
        request.headers().clone()
    }

    #[test]
    fn the_edges_fields_take_the_place_of_a_viewers_but_its_password_stays() {
        let settings = r#"{"url":"http://127.0.0.1","host":"b","headers":{"X-A":"ours","Authorization":"Bearer ours"}}"#;
        let request = sent(settings, &[("x-a", "theirs"), ("x-b", "theirs")]);
        for (name, value) in
            [("x-a", "ours"), ("x-b", "theirs"), ("host", "b"), ("authorization", "Bearer ours")]
        {
            assert_eq!(request.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
        }
        let request = sent(settings, &[("authorization", "Basic theirs")]);
        assert_eq!(request.get_all(AUTHORIZATION).iter().collect::<Vec<_>>(), ["Basic theirs"]);
        for (method, has_it) in [(Method::HEAD, true), (Method::DELETE, false)] {
            assert_eq!(sent_by(method, settings, &[]).contains_key(AUTHORIZATION), has_it);
        }
    }

    #[test]
    fn a_user_and_a_password_are_basic_authentication_in_utf_8() {
        // The examples of RFC 7617, sections 2 and 2.1.
        let of =
            |user, password| basic(user, password).map(|value| value.to_str().unwrap().to_owned());
        let first = of("Aladdin", "open sesame").unwrap();
        assert_eq!(first, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(of("test", "123\u{a3}").unwrap(), "Basic dGVzdDoxMjPCow==");
        for (password, said) in
            [("", "empty"), ("a\nb", "one line"), (&*"a".repeat(4096), "more than")]
        {
            let why = of("a", password).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }
}
