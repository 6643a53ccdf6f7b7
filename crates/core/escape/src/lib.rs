//! Escaping: percent-encoding for URLs, and references for XML.

pub mod percent;
pub mod xml;
