//! The `User-Agent` of nodes that copy titles.

/// What it begins with; the version follows. It is for logs: anyone can send it, so nothing follows from it. A node proves to other nodes that it
/// copies a title by another header (`token::COPY_HEADER`).
pub const NODE_USER_AGENT: &str = "fullbore-node/";
