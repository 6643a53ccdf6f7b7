//! How text is written where some characters have a meaning of their own: in URLs and in XML.

pub mod percent;
pub mod xml;
