//! Decides which requests may get which file: if keys are configured, the protected paths are served only with a valid token.
//!
//! A token comes in front of the path (`/t/TOKEN/films/a.mp4`), so that relative URLs in a playlist inherit it, or in the query
//! (`/films/a.mp4?token=TOKEN`). Either way the file is the same one, with the same entry among the open files and the same ETag.
//! While there are keys, a first segment `t` always means a token; a library's own folder of that name is under `/t/TOKEN/t/`. As long as keys
//! are still to come ([`config::Signing::may_be_empty`]), nothing needs a token, and anything in the form of one is removed unread: so a
//! fleet can start to sign before its nodes require signatures.
//!
//! If keys of Common Access Tokens are configured ([`config::Signing::cat_keys`]), those are taken in the same places, and where their standard puts
//! them: in the parameter `CAT` of the query, in the header `CTA-Common-Access-Token`, and in the cookie of that name. Our own places come first.
//!
//! The gate comes before any file is opened, so a refusal does not reveal whether the file exists. Paths are compared in the one form that all
//! spellings of a path share: decoded, composed (NFC), without doubled slashes ([`fullbore_http::LibraryPath`]). A signature may also be
//! for the path as it was written: signers other than ours sign names as they are on disk, and those of a Mac are decomposed.

use config::{Config, Signing};
use fullbore_http::{Field, LibraryPath, Request, Resource, Response};
use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use token::{CAT_HEADER, CatFault, CatRequest, KeyRing, Token, TokenFault, Verified};

/// The playlist of a title that is a folder, below it.
const PLAYLIST: &str = "/master.m3u8";

/// One worker's gate.
pub struct Gate {
    keys: RefCell<Arc<KeyRing>>,
    /// Prefixes of the paths that need a token; an empty one covers everything.
    required: Vec<LibraryPath>,
    /// Whether viewers' URLs begin with `https`.
    is_tls: bool,
}

/// The tokens that a server checks: they are for it, and not for an origin behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CheckedTokens {
    #[default]
    None,
    /// Tokens of this program's own form.
    Own,
    /// Common Access Tokens as well.
    OwnAndCats,
}

impl CheckedTokens {
    pub(crate) fn of(signing: &Signing) -> Self {
        match signing {
            Signing { cat_keys, .. } if !cat_keys.is_empty() => Self::OwnAndCats,
            Signing { keys, .. } if !keys.is_empty() => Self::Own,
            _ => Self::None,
        }
    }

    /// Whether `text` has the form of such a token.
    pub(crate) fn have_form(self, text: &[u8]) -> bool {
        self != Self::None && Token::parse(text).is_some()
            || self == Self::OwnAndCats && token::has_cat_form(text)
    }

    /// `text` without the signatures of such tokens.
    pub(crate) fn taken_from(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::None => Cow::Borrowed(text),
            Self::Own => token::without_own_signatures(text),
            Self::OwnAndCats => token::without_signatures(text),
        }
    }
}

impl Gate {
    /// The gate of a server with this configuration.
    pub(crate) fn of(config: &Config, keys: Arc<KeyRing>) -> Self {
        // A proxy in front may do the TLS.
        let public = config.edge.public_scheme_and_host();
        let is_tls = public.map_or(config.tls.enabled, |(scheme, _)| scheme == "https");
        Self::new(keys, &config.signing.required, is_tls)
    }

    /// A gate for the paths in `required`, which have passed [`config::Config::check`].
    pub fn new(keys: Arc<KeyRing>, required: &[String], is_tls: bool) -> Self {
        let paths = required.iter().map(|path| LibraryPath::as_written(path.as_bytes()));
        let required = paths.map(|path| path.expect("checked with the configuration")).collect();
        Self { keys: RefCell::new(keys), required, is_tls }
    }

    /// Replaces the keys.
    pub fn renew(&self, keys: Arc<KeyRing>) {
        *self.keys.borrow_mut() = keys;
    }

    /// The resource that `request` names, with the token removed. `verified` has the tokens that this connection has shown before.
    ///
    /// # Errors
    /// Why its token does not allow the request.
    pub fn admit<'r>(
        &self,
        request: &'r Request,
        client: IpAddr,
        now_unix_seconds: u64,
        verified: &mut Verified,
    ) -> Result<Cow<'r, Resource>, TokenFault> {
        let (token, resource) = self.taken_off(request);
        if let Resource::File(path) = &*resource {
            if self.requires(path.as_bytes()) {
                let token = token.ok_or(TokenFault::Missing)?;
                let spellings = [path.as_bytes(), path.as_sent()];
                let keys = self.keys.borrow();
                if keys.takes_cats() && token::is_cat(&token) {
                    let seen = self.seen(request, spellings, client, now_unix_seconds);
                    keys.check_cat_again(verified, &token, &seen)?;
                } else {
                    let now = now_unix_seconds;
                    keys.check_spellings_again(verified, &token, spellings, client, now)?;
                }
            }
        }
        // The server's own pages need no token, and a path that is not a file gives 404, with a token or without.
        Ok(resource)
    }

    /// A check of further paths, as they are on disk, against the token of `request`. A signature is checked once for all consecutive paths below
    /// the same prefix.
    pub fn may_have<'a>(
        &'a self,
        request: &'a Request,
        client: IpAddr,
        now_unix_seconds: u64,
    ) -> impl FnMut(&[u8]) -> bool + use<'a> {
        self.may_have_any(request, &[""], client, now_unix_seconds)
    }

    /// As [`may_have`](Self::may_have), for the names of titles in a list. A title that is a folder may be named if its playlist may be requested:
    /// Common Access Tokens are for the files in it.
    pub fn may_list<'a>(
        &'a self,
        request: &'a Request,
        client: IpAddr,
        now_unix_seconds: u64,
    ) -> impl FnMut(&[u8]) -> bool + use<'a> {
        self.may_have_any(request, &["", PLAYLIST], client, now_unix_seconds)
    }

    /// As [`may_have`](Self::may_have), where a Common Access Token may be for the path with one of `ends`.
    fn may_have_any<'a>(
        &'a self,
        request: &'a Request,
        ends: &'static [&'static str],
        client: IpAddr,
        now_unix_seconds: u64,
    ) -> impl FnMut(&[u8]) -> bool + use<'a> {
        let text = self.taken_off(request).0.unwrap_or_default();
        let mut listed = None;
        if self.keys.borrow().takes_cats() && token::is_cat(&text) {
            listed = Some(ListedByCat::default());
        }
        let is_signed = {
            let text = text.clone();
            move |last: &mut LastPrefix, path: &[u8]| {
                let token = Token::parse(&text);
                let prefix = token.as_ref().and_then(|token| token.prefix(path));
                let check =
                    || self.keys.borrow().check(&text, path, client, now_unix_seconds).is_ok();
                prefix.is_some_and(|prefix| last.is_signed(prefix, check))
            }
        };
        let mut last_of_forms = ListedForms::default();
        move |path| {
            let composed = escape::unicode::composed(path);
            if !self.requires(&composed) {
                return true;
            }
            match &mut listed {
                Some(listed) => ends.iter().any(|end| {
                    let paths = [&composed, path].map(|path| [path, end.as_bytes()].concat());
                    let [composed, as_on_disk] = &paths;
                    let paths = [&composed[..], as_on_disk];
                    let seen = self.seen(request, paths, client, now_unix_seconds);
                    listed.is_allowed(&self.keys.borrow(), &text, &seen)
                }),
                None => last_of_forms.are_signed([&composed, path], &is_signed),
            }
        }
    }

    /// The fields of `request` that its access comes from, for `Vary`. `None` if it comes from the URL, or needs no token.
    fn varies_by(&self, request: &Request) -> Option<&'static str> {
        let is_open = match &request.resource {
            Resource::File(path) => !self.requires(path.as_bytes()),
            _ => false,
        };
        if is_open || !self.keys.borrow().takes_cats() {
            return None;
        }
        match self.taken_off(request) {
            (Some(token), Cow::Borrowed(_)) if !is_in_query(request, &token) => {
                cat_in_fields(request).map(|(names, _)| names)
            }
            _ => None,
        }
    }

    /// Keeps shared caches from giving the response to viewers without a token, if the token of `request` isn't in its URL. It gets both fields: some
    /// caches ignore `Vary`, and the `CDN-Cache-Control` of an origin overrides `Cache-Control`.
    pub fn keep_from_others(&self, request: &Request, response: &mut Response) {
        if let Some(names) = self.varies_by(request) {
            response.add_field("Vary", names);
            response.add_field("Cache-Control", "private");
        }
    }

    /// `request` as the claims of a Common Access Token see it.
    fn seen<'r>(
        &self,
        request: &'r Request,
        paths: [&'r [u8]; 2],
        client: IpAddr,
        now_unix_seconds: u64,
    ) -> CatRequest<'r> {
        CatRequest {
            method: request.method_token(),
            is_tls: self.is_tls,
            host: request.field(Field::Host).unwrap_or_default(),
            paths,
            query: request.query().unwrap_or_default(),
            client,
            now_unix_seconds,
        }
    }

    /// `path` without the token at its start.
    pub fn without_token<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        let signed = token::before_path(path).filter(|(token, _)| self.counts(token));
        signed.and_then(|(_, path)| path).unwrap_or(path)
    }

    /// Whether the text in a token's place counts as one.
    fn counts(&self, token: &[u8]) -> bool {
        !self.keys.borrow().is_empty() || Token::parse(token).is_some()
    }

    /// The token of `request`, and the requested resource without it.
    fn taken_off<'r>(&self, request: &'r Request) -> (Option<Cow<'r, [u8]>>, Cow<'r, Resource>) {
        match before_path(&request.resource) {
            Some((token, rest)) if self.counts(token) => {
                return (Some(token.into()), Cow::Owned(rest));
            }
            _ => {}
        }
        let mut token = request.query().and_then(token::in_query).map(Cow::Borrowed);
        // A player may have a parameter `token` of its own.
        let is_none = |token: &Cow<'_, [u8]>| !CheckedTokens::OwnAndCats.have_form(token);
        if self.keys.borrow().takes_cats() && token.as_ref().is_none_or(is_none) {
            token = cat_of(request).or(token);
        }
        (token, Cow::Borrowed(&request.resource))
    }

    fn requires(&self, path: &[u8]) -> bool {
        if self.keys.borrow().is_empty() {
            return false;
        }
        let mut prefixes = self.required.iter().map(LibraryPath::as_bytes);
        prefixes.any(|prefix| match path.strip_prefix(prefix) {
            Some(rest) => prefix.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
            None => false,
        })
    }
}

/// The Common Access Token of `request` in a place of its standard.
fn cat_of(request: &Request) -> Option<Cow<'_, [u8]>> {
    if let Some(token) = request.query().and_then(token::cat_in_query) {
        return Some(token.into());
    }
    cat_in_fields(request).map(|(_, token)| token.into())
}

/// The Common Access Token in the header or the cookie of `request`, and the fields that it was looked for in.
fn cat_in_fields(request: &Request) -> Option<(&'static str, Vec<u8>)> {
    let (mut in_header, mut in_cookie) = (None, None);
    request.each_line(|name, value| {
        if name.eq_ignore_ascii_case(CAT_HEADER) {
            in_header.get_or_insert_with(|| value.trim_ascii().to_vec());
        } else if name.eq_ignore_ascii_case("cookie") && in_cookie.is_none() {
            in_cookie = token::cat_in_cookie(value).map(<[u8]>::to_vec);
        }
    });
    let in_cookie = in_cookie.map(|token| ("CTA-Common-Access-Token, Cookie", token));
    in_header.map(|token| (CAT_HEADER, token)).or(in_cookie)
}

/// Whether `token` is that of the query of `request`.
fn is_in_query(request: &Request, token: &[u8]) -> bool {
    let query = request.query().unwrap_or_default();
    [token::in_query(query), token::cat_in_query(query)].contains(&Some(token))
}

/// A list's Common Access Token: verified once for all paths.
#[derive(Default)]
struct ListedByCat {
    verified: Verified,
    /// It allows no path.
    is_void: bool,
}

impl ListedByCat {
    fn is_allowed(&mut self, keys: &KeyRing, text: &[u8], seen: &CatRequest<'_>) -> bool {
        if self.is_void {
            return false;
        }
        let checked = keys.check_cat_again(&mut self.verified, text, seen);
        self.is_void = checked.as_ref().is_err_and(|fault| *fault != CatFault::NotAllowed("catu"));
        checked.is_ok()
    }
}

/// The last prefix of a list for which a token was checked, and whether it is signed.
#[derive(Default)]
struct LastPrefix(Option<(Box<[u8]>, bool)>);

impl LastPrefix {
    /// Whether the token is for `prefix`; `check` is called if that is another one than the last.
    fn is_signed(&mut self, prefix: &[u8], check: impl FnOnce() -> bool) -> bool {
        match &self.0 {
            Some((known, is_signed)) if **known == *prefix => *is_signed,
            _ => {
                let is_signed = check();
                self.0 = Some((prefix.into(), is_signed));
                is_signed
            }
        }
    }
}

/// The last prefixes of a list, one for each form of its names. With one for both, each name in a decomposed folder would cost two signatures.
#[derive(Default)]
struct ListedForms {
    composed: LastPrefix,
    as_on_disk: LastPrefix,
}

impl ListedForms {
    /// Whether a name is signed in one of its two spellings: composed, and as it is on disk.
    fn are_signed(
        &mut self,
        [composed, as_on_disk]: [&[u8]; 2],
        is_signed: impl Fn(&mut LastPrefix, &[u8]) -> bool,
    ) -> bool {
        is_signed(&mut self.composed, composed)
            || composed != as_on_disk && is_signed(&mut self.as_on_disk, as_on_disk)
    }
}

/// The token at the start of a path, and the resource that the rest of the path names.
fn before_path(resource: &Resource) -> Option<(&[u8], Resource)> {
    let (Resource::File(path) | Resource::Directory(path)) = resource else { return None };
    let (token, _) = token::before_path(path.as_bytes())?;
    Some((token, resource.below(token::SEGMENTS)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_http::{Parse, RequestLimits};
    use token::Grant;

    const NOW: u64 = 1_790_000_000;
    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn keys() -> Arc<KeyRing> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url.key");
        token::make_key_file(&file).unwrap();
        Arc::new(KeyRing::read(&[file]).unwrap())
    }

    fn gate(required: &[&str]) -> Gate {
        let required: Vec<String> = required.iter().map(|path| (*path).into()).collect();
        Gate::new(keys(), &required, true)
    }

    fn token(gate: &Gate, prefix: &str) -> String {
        let prefix = prefix.as_bytes();
        let grant = Grant { prefix, expires_unix_seconds: NOW + 1, client: None };
        gate.keys.borrow().sign(&grant).expect("it signs")
    }

    fn request(target: &str) -> Request {
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let parsed = fullbore_http::parse(head.as_bytes(), &RequestLimits::default()).unwrap();
        let Parse::Complete { request, .. } = parsed else { panic!("{head:?}") };
        request
    }

    /// The path that is allowed, or why it is not.
    fn admit(gate: &Gate, target: &str) -> Result<String, TokenFault> {
        gate.admit(&request(target), CLIENT, NOW, &mut Verified::default()).map(|resource| {
            match &*resource {
                Resource::File(path) => String::from_utf8(path.as_bytes().to_vec()).unwrap(),
                other => format!("{other:?}"),
            }
        })
    }

    #[test]
    fn a_token_in_front_or_in_the_query_is_taken_off() {
        let gate = gate(&["/"]);
        let token = token(&gate, "films/a");
        let good = Ok("films/a/b.m4s".to_owned());
        assert_eq!(admit(&gate, &format!("/t/{token}/films/a/b.m4s")), good);
        assert_eq!(admit(&gate, &format!("/t/{token}/films/a/b.m4s?CMCD=br%3D1")), good);
        assert_eq!(admit(&gate, &format!("/films/a/b.m4s?token={token}")), good);
        assert_eq!(admit(&gate, &format!("/films/a/b.m4s?CMCD=su&token={token}&x")), good);
        assert_eq!(admit(&gate, &format!("/%74/{token}/f%69lms/a/b%2Em4s")), good);
    }

    #[test]
    fn until_there_is_a_key_tokens_are_taken_off_and_not_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.pem");
        std::fs::write(&file, "").unwrap();
        let (gate, signing) = (gate(&["/"]), gate(&["/"]));
        gate.renew(Arc::new(KeyRing::read_perhaps_empty(&[file]).unwrap()));
        let token = token(&signing, "films/a");
        let (good, plain) = (format!("/t/{token}/films/a/b.m4s"), "/films/a/b.m4s");
        for target in [good.as_str(), plain, &format!("{plain}?token={token}")] {
            assert_eq!(admit(&gate, target), Ok("films/a/b.m4s".to_owned()), "{target}");
        }
        assert_eq!(admit(&gate, "/t/films/a"), Ok("t/films/a".to_owned()), "a folder of that name");
        assert_eq!(gate.without_token(&good.as_bytes()[1..]), b"films/a/b.m4s");
        assert_eq!(gate.without_token(b"t/films/a"), b"t/films/a");
        // With the key, only a real token counts.
        gate.renew(Arc::clone(&signing.keys.borrow()));
        assert_eq!(admit(&gate, &good), Ok("films/a/b.m4s".to_owned()));
        assert_eq!(admit(&gate, plain), Err(TokenFault::Missing));
    }

    #[test]
    fn without_one_there_is_nothing() {
        let gate = gate(&["/"]);
        for target in ["/films/a", "/t/films", "/t", "/films/a?t=x", "/films/a?Token=x"] {
            assert_eq!(admit(&gate, target), Err(TokenFault::Missing), "{target}");
        }
        for target in ["/t/films/a", "/films/a?token=", "/t/../a", "/films/a?token=x"] {
            let expected = if target == "/t/../a" {
                Ok("Refused(DotSegment)".into())
            } else {
                Err(TokenFault::Malformed)
            };
            assert_eq!(admit(&gate, target), expected, "{target}");
        }
    }

    #[test]
    fn a_path_cannot_climb_out_of_its_prefix() {
        let gate = gate(&["/"]);
        let token = token(&gate, "films/a");
        for path in
            ["films/a/../b", "films/a/%2e%2e/b", "films/a/./b", "films/a//../b", "films/a%2fb"]
        {
            let admitted = admit(&gate, &format!("/t/{token}/{path}"));
            assert!(
                admitted.as_ref().is_ok_and(|path| path.starts_with("Refused")),
                "{path}: {admitted:?}"
            );
        }
        for path in
            ["films/ab", "films/b", "films", "films/A/b", "films%2fa", "films//b", "/films/b"]
        {
            let admitted = admit(&gate, &format!("/t/{token}/{path}"));
            let refused = admitted.as_ref().is_ok_and(|path| path.starts_with("Refused"));
            assert!(refused || admitted == Err(TokenFault::Wrong), "{path}: {admitted:?}");
        }
    }

    #[test]
    fn a_token_does_not_open_what_is_the_servers() {
        let gate = gate(&["/"]);
        let token = token(&gate, "");
        let admitted = admit(&gate, &format!("/t/{token}/-/status.json")).unwrap();
        assert!(admitted.starts_with("Reserved"), "{admitted}");
        let twice = admit(&gate, &format!("/t/{token}/t/{token}/a"));
        assert_eq!(twice, Ok(format!("t/{token}/a")), "one token is taken off, not two");
    }

    #[test]
    fn the_servers_pages_are_open() {
        let gate = gate(&["/"]);
        for target in ["/", "/-/", "/-/watch/films/a", "/-/titles.json", "/films/"] {
            assert!(admit(&gate, target).is_ok(), "{target}");
        }
    }

    #[test]
    fn a_list_names_what_the_token_allows() {
        let gate = gate(&["films"]);
        let named = |target: &str| {
            let request = request(target);
            let mut may_have = gate.may_have(&request, CLIENT, NOW);
            let paths = ["films/a", "films/ab", "films/b", "films/b/c", "open"];
            paths.into_iter().filter(|path| may_have(path.as_bytes())).collect::<Vec<_>>()
        };
        assert_eq!(named("/-/titles.json"), ["open"]);
        assert_eq!(named("/t/x/-/titles.json"), ["open"]);
        let film = token(&gate, "films/b");
        assert_eq!(named(&format!("/t/{film}/-/titles.json")), ["films/b", "films/b/c", "open"]);
        assert_eq!(named(&format!("/t/{}/-/titles.json", token(&gate, "films"))).len(), 5);
        assert_eq!(named(&format!("/t/{}/-/titles.json", token(&gate, "open"))), ["open"]);
    }

    #[test]
    fn only_what_is_required_needs_one() {
        let gate = gate(&["/films/", "private/x.mp4"]);
        for (path, needs) in [
            ("films/a", true),
            ("films", true),
            ("films2/a", false),
            ("open/films/a", false),
            ("private/x.mp4", true),
            ("private/x.mp4x", false),
            ("private/y.mp4", false),
        ] {
            let admitted = admit(&gate, &format!("/{path}"));
            assert_eq!(admitted.is_err(), needs, "{path}: {admitted:?}");
        }
        assert_eq!(admit(&gate, "/t/anything/open/a"), Ok("open/a".into()));
    }

    #[test]
    fn a_common_access_token_counts_in_each_of_its_places() {
        let keys = "k:0101010101010101010101010101010101010101010101010101010101010101";
        let cats = KeyRing::none().with_cats_of(keys, &Default::default()).unwrap();
        let (cat, _) = cats
            .sign_cat(&token::CatGrant {
                scope: token::CatScope::Folder("films/a"),
                issued_unix_seconds: NOW,
                expires_unix_seconds: NOW + 1,
                not_before_unix_seconds: None,
                networks: &[],
                methods: &["GET".to_owned()],
                issuer: None,
            })
            .unwrap();
        let gate = Gate::new(Arc::new(cats), &["/".to_owned()], true);
        let named = CAT_HEADER;
        let film = "/films/a/b.m4s";
        let (header, cookie) = (Some(CAT_HEADER), Some("CTA-Common-Access-Token, Cookie"));
        for (target, line, varies_by) in [
            (format!("/t/{cat}{film}"), String::new(), None),
            (format!("{film}?token={cat}"), String::new(), None),
            (format!("{film}?x&CAT={cat}&CMCD=y"), String::new(), None),
            (format!("{film}?token=a-players&CAT={cat}"), String::new(), None),
            (film.to_owned(), format!("{named}: {cat}\r\n"), header),
            (format!("{film}?token="), format!("{named}: {cat}\r\n"), header),
            (film.to_owned(), format!("Cookie: a=b; {named}={cat}\r\n"), cookie),
        ] {
            let admit = |method: &str, now| {
                let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{line}\r\n");
                let parsed = fullbore_http::parse(head.as_bytes(), &RequestLimits::default());
                let Ok(Parse::Complete { request, .. }) = parsed else { panic!("{head:?}") };
                assert_eq!(gate.varies_by(&request), varies_by, "{target} {line}");
                gate.admit(&request, CLIENT, now, &mut Verified::default()).map(|resource| {
                    matches!(&*resource, Resource::File(path) if path.as_bytes() == b"films/a/b.m4s")
                })
            };
            assert_eq!(admit("GET", NOW), Ok(true), "{target} {line}");
            assert_eq!(admit("HEAD", NOW), Err(TokenFault::Wrong), "{target} {line}");
            assert_eq!(admit("GET", NOW + 1), Err(TokenFault::Expired), "{target} {line}");
        }
        let wrong = format!("/t/{cat}/films/ab");
        assert_eq!(admit(&gate, &wrong), Err(TokenFault::Wrong));
        assert_eq!(admit(&gate, film), Err(TokenFault::Missing));
        let listed = request(&format!("/t/{cat}/-/titles.json"));
        let mut may_have = gate.may_have(&listed, CLIENT, NOW);
        let paths = ["films/a/b", "films/ab", "films/a/c/d", "open"];
        let allowed = paths.map(|path| may_have(path.as_bytes()));
        assert_eq!(allowed, [true, false, true, false]);
        let mut may_list = gate.may_list(&listed, CLIENT, NOW);
        let titles = ["films/a", "films/a/b.mp4", "films/ab", "films", "open"];
        assert_eq!(titles.map(|path| may_list(path.as_bytes())), [true, true, false, false, false]);
        let own = self::gate(&["/"]);
        assert_eq!(admit(&own, &format!("{film}?CAT={cat}")), Err(TokenFault::Missing));
        assert_eq!(admit(&own, &format!("/t/{cat}{film}")), Err(TokenFault::Malformed));
    }

    #[test]
    fn doubled_slashes_change_nothing() {
        let gate = gate(&["private"]);
        let token = token(&gate, "private/a");
        for target in ["//private/b", "/private//b", "//private//a/x", "/t//x//private/a/x"] {
            assert!(admit(&gate, target).is_err(), "{target}");
        }
        let good = Ok("private/a/x".to_owned());
        for path in ["private/a/x", "/private//a/x", "private///a//x"] {
            assert_eq!(admit(&gate, &format!("/t/{token}/{path}")), good, "{path}");
            assert_eq!(admit(&gate, &format!("//t//{token}//{path}")), good, "{path}");
            assert_eq!(admit(&gate, &format!("//{path}?token={token}")), good, "{path}");
        }
        let other = admit(&gate, &format!("/t/{token}//private//b"));
        assert_eq!(other, Err(TokenFault::Wrong), "the token is for another title");
    }

    #[test]
    fn a_rule_and_a_token_cover_every_spelling_of_a_name() {
        let (composed, decomposed) = ("priv%C3%A9", "prive%CC%81");
        for required in ["priv\u{e9}", "prive\u{301}"] {
            let gate = gate(&[required]);
            let signed = [token(&gate, "priv\u{e9}"), token(&gate, "prive\u{301}")];
            for path in [composed, decomposed, "priv\u{e9}", "prive\u{301}"] {
                let plain = admit(&gate, &format!("/{path}/x"));
                assert_eq!(plain, Err(TokenFault::Missing), "{path}");
                let with_bytes = admit(&gate, &format!("/{path}/%ff"));
                assert_eq!(with_bytes, Err(TokenFault::Missing), "{path}");
                let admitted = admit(&gate, &format!("/t/{}/{path}/x", signed[0]));
                assert_eq!(admitted, Ok("priv\u{e9}/x".into()), "{path}");
            }
            // A signer of another make, who signed the name on a Mac's disk.
            let admitted = admit(&gate, &format!("/t/{}/{decomposed}/x", signed[1]));
            assert_eq!(admitted, Ok("priv\u{e9}/x".into()));
            let other = admit(&gate, &format!("/t/{}/prive/x", signed[0]));
            assert_eq!(other, Ok("prive/x".into()), "another name, which needs no token");
            let request = request("/-/titles.json");
            let mut may_have = gate.may_have(&request, CLIENT, NOW);
            assert!(!may_have("priv\u{e9}/x".as_bytes()) && !may_have("prive\u{301}/x".as_bytes()));
        }
    }

    /// Else, a list of a thousand titles from a Mac would cost two thousand signatures for each request.
    #[test]
    fn a_list_of_decomposed_names_costs_one_signature_for_each_form() {
        let checked = std::cell::Cell::new(0);
        let mut last_of_forms = ListedForms::default();
        for number in 0..1000 {
            let spellings = ["priv\u{e9}", "prive\u{301}"].map(|name| format!("{name}/{number}"));
            let is_signed = last_of_forms.are_signed(
                [spellings[0].as_bytes(), spellings[1].as_bytes()],
                |last, path| {
                    let prefix = path.split(|byte| *byte == b'/').next().unwrap();
                    last.is_signed(prefix, || {
                        checked.set(checked.get() + 1);
                        prefix == "prive\u{301}".as_bytes()
                    })
                },
            );
            assert!(is_signed, "{number}");
        }
        assert_eq!(checked.get(), 2);
    }
}
