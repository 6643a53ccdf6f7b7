//! By what a server knows the requests of nodes that copy titles, so that it does not take them for viewers'.

/// With this, and its version, begins the `User-Agent` of a node that copies a title.
pub const NODE_USER_AGENT: &str = "fullbore-node/";

/// Whether a request with this `User-Agent` is a node's. Nobody proves it, and nothing is allowed by it: a viewer who says so is not counted for the
/// title that he watches, and harms nobody else. A node of a release that does not say so yet counts as a viewer.
pub fn is_node(user_agent: &[u8]) -> bool {
    user_agent.starts_with(NODE_USER_AGENT.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_what_it_is_and_a_player_or_an_edge_does_not() {
        assert!(is_node(b"fullbore-node/0.1.0"));
        for other in [&b"fullbore/0.1.0"[..], b"Mozilla/5.0 fullbore-node/0.1.0", b"fullbore", b""]
        {
            assert!(!is_node(other));
        }
    }
}
