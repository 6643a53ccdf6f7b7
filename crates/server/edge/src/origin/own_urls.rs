//! URLs in an origin's answers that are its own: where viewers find the same at the edge.

use super::Origin;
use crate::contract::PATH_BYTES_MAX;
use crate::http_cache::Fields;
use reqwest::Url;

impl Origin {
    /// The path of a URL that a response to a request for `path` names, if it is one of this origin's.
    pub(crate) fn path_of(&self, path: &str, named: &str) -> Option<String> {
        // Some programs write names in UTF-8 without encoding them. Fields are read as Latin-1.
        let bytes: Option<Vec<u8>> = named.chars().map(|one| u8::try_from(one).ok()).collect();
        let named = String::from_utf8(bytes?).ok()?;
        let url = self.address.of(path)?.join(&named).ok()?;
        if !self.is_own(&url) {
            return None;
        }
        let prefix = self.address.0.path().trim_end_matches('/');
        let own = url.path().strip_prefix(prefix).filter(|rest| rest.starts_with('/'))?;
        let path = url.query().map_or_else(|| own.to_owned(), |query| format!("{own}?{query}"));
        // No request has a longer one, so nothing is kept there.
        (path.len() <= PATH_BYTES_MAX).then_some(path)
    }

    /// Whether a URL has this origin's scheme, host and port, or those by which the settings name it to itself.
    fn is_own(&self, url: &Url) -> bool {
        let address = &self.address.0;
        let named = self.settings.host.as_ref();
        let named =
            named.and_then(|host| Url::parse(&format!("{}://{host}", address.scheme())).ok());
        [Some(address), named.as_ref()]
            .into_iter()
            .flatten()
            .any(|own| url.origin() == own.origin())
    }

    /// Changes the URLs that a response to a request for `path` names, where they are this origin's, to those at which viewers find the same here:
    /// without the address's scheme, host and path. Relative ones are the same for viewers. Those that are not requested from here, says `is_here`,
    /// stay as they are.
    pub(crate) fn localize(&self, path: &str, fields: &mut Fields, is_here: impl Fn(&str) -> bool) {
        if self.signer.is_some() {
            return;
        }
        let is_url = |name: &str| {
            ["location", "content-location"].iter().any(|one| name.eq_ignore_ascii_case(one))
        };
        for (_, value) in fields.0.iter_mut().filter(|(name, _)| is_url(name)) {
            if let Some(local) = self.local(path, value).filter(|local| is_here(local)) {
                *value = local;
            }
        }
    }

    fn local(&self, path: &str, named: &str) -> Option<String> {
        if !named.starts_with('/') && Url::parse(named).is_err() {
            return None;
        }
        // With two slashes, what follows would be a host.
        let local = self.path_of(path, named).filter(|local| !local.starts_with("//"))?;
        match named.split_once('#') {
            Some((_, fragment)) => Some(format!("{local}#{fragment}")),
            None => Some(local),
        }
    }
}
