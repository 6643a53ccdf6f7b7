//! The `User-Agent` of nodes that copy titles.

/// Its prefix; the version follows. It is for logs only, because anyone can send it. A node proves to other nodes that it copies a title by
/// another header (`token::COPY_HEADER`).
pub const NODE_USER_AGENT: &str = "fullbore-node/";
