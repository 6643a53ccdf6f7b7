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

    /// The resource that `request` names, with the token removed unread.
    pub(crate) fn place_of<'r>(&self, request: &'r Request) -> Cow<'r, Resource> {
        self.taken_off(request).1
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
#[path = "token_gate_tests.rs"]
mod tests;
