//! Compressed forms of text files: `NAME.br` and `NAME.gz` next to `NAME`, with the same modification time.

/// The end of the name of a form in Brotli's format (RFC 7932).
pub const BROTLI: &str = ".br";
/// The end of the name of a form in gzip's format (RFC 1952).
pub const GZIP: &str = ".gz";
