//! Signed URLs: a token that allows one part of the library until a moment, and maybe to one address only.
//!
//! A [`Grant`] is what is allowed. [`KeyRing::sign`] makes the text of a token from it; [`KeyRing::check`] says whether a token
//! allows a path. Keys come from files ([`KeyRing::read`]); several may be in use at once, so that they can be changed
//! without a URL that was given out losing its worth.
//!
//! Invariants:
//! * A token allows whole segments of a path: one for `films/a` allows neither `films/ab` nor `films`.
//! * Paths are those that the server opens: percent-decoded once, without empty, `.` or `..` segments and without control
//!   bytes. Who calls this has made sure of that (`http::LibraryPath`).
//! * Signatures are compared in constant time, and before anything else of the token is believed.
//! * Keys are wiped from memory as far as they are ours, and never printed.
//!
//! Read first: `token.rs` for the format, `place.rs` for where it stands in a URL, then `ring.rs`.

mod error;
mod key;
mod place;
mod ring;
mod token;

pub use error::{Fault, KeyError};
pub use key::make_key_file;
pub use place::{SEGMENTS, before_path, in_query, url_path, url_query};
pub use ring::KeyRing;
pub use token::{Grant, Token};
