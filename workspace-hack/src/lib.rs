//! Nothing: what counts is this package's `Cargo.toml`, which says why.
