//! The measuring connection against small servers, honest and hostile, each a thread with one listener.

mod failures;
mod openssl;
mod plain;
mod server;
mod tls;
