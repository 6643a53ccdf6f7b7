//! The machines' API: real sockets, real TLS, and both well-behaved and hostile clients.

mod beating;
mod experience;
mod gateway;
mod joining;
mod purges;
mod routes;
mod silent;
mod slow;
mod speaking;
mod watched;
