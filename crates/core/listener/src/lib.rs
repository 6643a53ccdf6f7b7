//! Guarded HTTP listeners: shared by gateways, agents and helpers, so that they stay reachable whatever strangers send.
//!
//! A listener admits connections to a limited number of [`Places`], parses each head strictly and in limited time, and passes complete
//! requests to an axum router ([`serve`]). Handlers read bodies with [`read_body`], after they have identified the client.
//!
//! Invariants:
//! - A connection holds a place and a descriptor from `accept` until it is closed. Connections without a request in progress make room for
//!   new ones, oldest first, so idle and half-sent requests never keep other clients out.
//! - Bytes reach hyper's HTTP/1 parser only as part of a head that [`fullbore_http::parse`] accepts, or of a body whose length that head gives.
//!   Hyper never sees a transfer coding, so it cannot disagree with us about the end of a request.
//! - A connection with no request in progress has a deadline that sending bytes does not extend. While a response is sent, the peer extends
//!   the deadline only by receiving bytes at a minimum rate.
//! - A body takes memory only as it arrives, from a [`BodyBudget`] that all bodies of a listener share.
//!
//! The box's server (`server`) has guards of its own for the same purposes, on its own reactor.
//!
//! Read first: [`serve`], then `framing.rs` for the refusals and `places.rs` for evictions.

#![forbid(unsafe_code)]

mod activity;
mod answering;
mod body;
mod bounds;
mod connection;
mod descriptors;
mod framing;
mod places;
mod plain;
mod refused;
mod serving;

pub use body::{BodyBounds, BodyBudget, BodyFault, ReadBody, read_body};
pub use bounds::{Bodies, PlaceBounds, RequestBounds};
pub use descriptors::{Descriptors, Share};
pub use places::{Ender, HeldPlace, Places};
pub use plain::PlainListener;
pub use refused::{ListenerRefusal, RefusedCounts};
pub use serving::{Accept, Accepted, Protocol, serve};
