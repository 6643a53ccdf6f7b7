//! Whether a server with a configuration can hand over to a new one.

use super::{Config, Route};

/// Why a server with this configuration cannot be part of an upgrade, and what to do instead.
pub fn obstacle(config: &Config) -> Option<&'static str> {
    if config.route == Route::Bypass {
        return Some(
            "on the bypass route connections end with the process that has them: restart the server instead",
        );
    }
    if config.edge.is_on() {
        return Some(
            "a caching edge has its cache for itself: stop the server, and start the new one",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_hand_over_says_what_to_do_instead() {
        assert_eq!(obstacle(&Config::default()), None);
        let bypass = Config { route: Route::Bypass, ..Config::default() };
        assert!(obstacle(&bypass).is_some_and(|why| why.contains("restart the server instead")));
        let mut edge = Config::default();
        edge.edge.name_origins(vec!["http://origin".into()]);
        assert!(obstacle(&edge).is_some_and(|why| why.contains("stop the server")));
    }
}
