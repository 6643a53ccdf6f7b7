//! Signed URLs: a token that gives access to one part of the library until a given time, and optionally from one address only.
//!
//! A [`Grant`] describes the access. [`KeyRing::sign`] makes the text of a token from it; [`KeyRing::check`] decides whether a token allows a
//! path. Keys come from files ([`KeyRing::read`]). Several may be in use at once, so that keys can be replaced while URLs signed earlier
//! still work.
//!
//! Keys are of two kinds. A server that checks with a key of HMAC-SHA256 can also sign: right for a single box. A key of Ed25519 has two
//! halves: the public one only checks, so that a thief who steals a node of a fleet cannot sign.
//!
//! Invariants:
//! * A token allows whole segments of a path: one for `films/a` allows neither `films/ab` nor `films`.
//! * Paths are those that the server opens: percent-decoded once, without empty, `.` or `..` segments and without control bytes. The caller
//!   ensures that (`fullbore_http::LibraryPath`).
//! * Signatures are compared in constant time, and before anything else in the token is trusted.
//! * A signature is checked by a key of its own kind only: a public key is never taken for a secret.
//! * Keys are never printed, and are wiped from memory where that memory is ours.
//!
//! Tokens that other programs sign in a standard's form, Common Access Tokens, are in `cat`.
//!
//! The same token format proves that a request is a node's copy of a title (`copies.rs`), with keys of its own.
//!
//! Read first: `token.rs` for the format, `place.rs` for its place in a URL, then `ring.rs`.

mod cat;
mod copies;
mod error;
mod file;
mod key;
mod make;
mod pem;
mod place;
mod ring;
mod signatures;
mod token;
mod verified;

pub use cat::{
    CAT_ARGUMENT, CAT_HEADER, CatFault, CatGrant, CatNetwork, CatRequest, CatScope, CatSettings,
    cat_in_cookie, cat_in_query, has_cat_form, is_cat, without_cat_cookie,
};
pub use copies::{COPY_HEADER, CopyRing, copy_key_days, copy_key_line};
pub use error::{KeyError, KeyFileFault, TokenFault};
pub use make::{NewPair, PairFiles, make_key_file, make_key_pair_files};
pub use place::{SEGMENTS, before_path, in_query, url_path, url_query};
pub use ring::KeyRing;
pub use signatures::{without_own_signatures, without_signatures};
pub use token::{Grant, Signature, Token};
pub use verified::Verified;
