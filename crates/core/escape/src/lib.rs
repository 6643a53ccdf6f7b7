//! Escaping: percent-encoding for URLs, and references for XML. Also Unicode's forms of names in URLs.

pub mod percent;
pub mod unicode;
pub mod xml;
