//! Common Access Tokens (CTA-5007-B): access that other programs sign, in a form that several CDNs understand.
//!
//! A token is a CBOR Web Token (RFC 8392) within COSE (RFC 9052), written in base64url without padding (`cose.rs`). Its claims say what it
//! allows (`claims.rs`): until when, which URIs (`uri.rs`), which methods, from which addresses (`network.rs`).
//!
//! Invariants:
//! * Nothing of a token is trusted before its signature is verified, by the key that it names and for the algorithm that this key is for.
//! * A claim that this server doesn't know or can't evaluate refuses the token. RFC 8392 would ignore unknown claims, but those of this standard
//!   restrict access, so ignoring one opens what its issuer closed.
//! * Whatever a client sends, the work is limited: by [`TEXT_BYTES_MAX`], by the depth of CBOR, and because nothing is expanded.
//! * A URI is compared as the server opens it: decoded, without dot segments and without the token.

mod claims;
mod cose;
mod fault;
mod find;
#[cfg(test)]
mod foreign;
mod issue;
mod keys;
mod network;
mod ring;
#[cfg(test)]
mod tests;
mod uri;

pub use fault::CatFault;
pub use issue::{CatGrant, CatScope};
pub use network::CatNetwork;

pub(crate) use claims::Claims;
pub(crate) use find::tails;
pub(crate) use ring::CatKeys;

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::PathBuf;

/// The header with a token, and the cookie of the same name.
pub const CAT_HEADER: &str = "CTA-Common-Access-Token";

/// The parameter of a query with a token.
pub const CAT_ARGUMENT: &str = "CAT";

/// Bytes of a token's text. Issuers keep tokens far shorter, because each request has one.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

/// The keys of Common Access Tokens, and the issuers and audiences that count.
#[derive(Clone, Copy, Debug, Default)]
pub struct CatSettings<'s> {
    /// Files with keys.
    pub keys: &'s [PathBuf],
    /// The issuers whose tokens count; empty for every holder of a key.
    pub issuers: &'s [String],
    /// The names that this server answers to: a token for an audience must name one of them.
    pub audiences: &'s [String],
}

/// A request, as a token's claims see it.
#[derive(Clone, Copy, Debug)]
pub struct CatRequest<'r> {
    /// The method as sent.
    pub method: &'r str,
    /// Whether it came over TLS.
    pub is_tls: bool,
    /// The value of `Host`.
    pub host: &'r [u8],
    /// The spellings of the path that name the same file, decoded and without a leading slash.
    pub paths: [&'r [u8]; 2],
    /// The query as sent, perhaps with a token.
    pub query: &'r [u8],
    /// The viewer's address.
    pub client: IpAddr,
    /// Seconds since 1970.
    pub now_unix_seconds: u64,
}

/// Whether `text`, found in a token's place, can only be a Common Access Token: ours has dots, base64url has none.
pub fn is_cat(text: &[u8]) -> bool {
    !text.is_empty() && !text.contains(&b'.')
}

/// Whether `text` has the form of a Common Access Token. Nothing in it is verified.
pub fn has_cat_form(text: &[u8]) -> bool {
    cose::has_form(text)
}

/// The token in the parameter [`CAT_ARGUMENT`] of a query.
pub fn cat_in_query(query: &[u8]) -> Option<&[u8]> {
    let mut pairs = query.split(|byte| *byte == b'&');
    pairs.find_map(|pair| pair.strip_prefix(CAT_ARGUMENT.as_bytes())?.strip_prefix(b"="))
}

/// The token in the value of a `Cookie` header.
pub fn cat_in_cookie(value: &[u8]) -> Option<&[u8]> {
    cookies(value).find_map(token_of)
}

/// The value of a `Cookie` header without tokens.
pub fn without_cat_cookie(value: &[u8]) -> Cow<'_, [u8]> {
    if cat_in_cookie(value).is_none() {
        return Cow::Borrowed(value);
    }
    let others = cookies(value).filter(|cookie| token_of(cookie).is_none());
    Cow::Owned(others.collect::<Vec<_>>().join(&b"; "[..]))
}

fn cookies(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii)
}

fn token_of(cookie: &[u8]) -> Option<&[u8]> {
    let at = cookie.iter().position(|byte| *byte == b'=')?;
    cookie[..at].eq_ignore_ascii_case(CAT_HEADER.as_bytes()).then_some(&cookie[at + 1..])
}
