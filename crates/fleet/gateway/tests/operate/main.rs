//! A gateway from the operators' point of view: real HTTP on loopback, a store in a folder.

mod experience;
mod fleet;
mod gateways;
mod guarded;
mod hostile;
mod issues;
mod keys;
mod logged;
mod open_caching;
mod openapi;
mod pki;
mod placing;
mod plans;
mod purges;
mod restart;
mod roles;
mod routing;
mod secured;
mod slowhttp;
mod titles;
mod webhook;
