//! The machines' API: real sockets, real TLS, and boxes that mean well or do not.

mod beating;
mod gateway;
mod joining;
mod routes;
mod silent;
mod slow;
mod speaking;
mod watched;
