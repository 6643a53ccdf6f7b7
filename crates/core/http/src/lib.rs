//! HTTP/1.1 for a file server, without I/O and without a clock.
//!
//! A session passes the bytes it has read to [`parse`] and gets a [`Request`]. It looks up the file that
//! [`Request::resource`] names, passes an [`Entity`] to [`respond`], and gets a [`Response`]: a finished head, and the
//! parts of the body as byte ranges of that file, which this crate never reads. [`refuse`] and [`options`] answer
//! everything else. [`BodyDrain`] reads past a request body. [`ResponseHead`] is for Fullbore's own clients: it parses the head of a response.
//!
//! Refused, always with a typed reason that can label a counter ([`Reject`], [`PathEscape`]): folded header lines, bare
//! CR or LF, NUL, space before a colon, ambiguous framing, missing or doubled Host, heads over their limits, and every
//! path that could leave the library.
//!
//! Invariants:
//! * Nothing that a peer sends can panic this crate or make it allocate more than a small multiple of the head.
//! * `Content-Length` always equals the sum of the body's parts; each byte of a file is sent at most once per response.
//! * The result of [`parse`] depends only on the bytes of one head: not on how reads cut them, nor on what follows them.
//! * After a [`Reject`] the connection closes, because the end of the bad request cannot be trusted.
//!
//! Read first: `request.rs`, then `plan.rs`. RFC 9110 is HTTP's semantics, RFC 9112 the HTTP/1.1 wire format.

mod body;
mod coding;
mod conditional;
mod date;
mod error;
mod field_lines;
mod fields;
mod library_path;
mod limits;
mod mime;
mod page;
mod plan;
mod range;
mod refuse;
mod relay;
mod request;
mod response;
mod response_head;
mod secure;
mod target;
mod version;

pub use body::{BodyDrain, BodyFraming, BodyProgress};
pub use coding::{Coding, FileForm, is_compressible, preferred_codings};
pub use conditional::file_etag;
pub use date::HttpDate;
pub use error::{Refusal, Reject};
pub use field_lines::{FieldFault, FieldLines, is_token};
pub use fields::Field;
pub use library_path::LibraryPath;
pub use limits::RequestLimits;
pub use mime::content_type;
pub use page::{PageBody, report, respond_page};
pub use plan::{Entity, respond};
pub use refuse::{
    RefusedRequest, looks_like_http, options, post_options, post_taken, refuse, refuse_because,
};
pub use relay::{Relayed, is_chunked, relay};
pub use request::{Method, Parse, Request, Version, parse};
pub use response::{Context, Cors, Part, Response};
pub use response_head::{ResponseFault, ResponseHead};
pub use secure::{secure_place, send_on, whole_answer};
pub use target::{PathEscape, Resource};
