//! The server's listeners and paths: each listener needs its own address, and no path may be empty.

use super::{Config, ConfigError, Route};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Checks the paths of the library and the access log, and the address of the admin listener. The other addresses are checked where they are set
/// (`tls`, `acme`).
pub(crate) fn check(config: &Config) -> Result<(), ConfigError> {
    check_paths(config)?;
    let Config { admin, listen, ref tls, route, .. } = *config;
    let refused = |wanted| Err(ConfigError::not_of_kind("admin", admin, wanted));
    // On the bypass route, viewers' addresses are not the kernel's.
    if route != Route::Bypass && meet(admin, listen) {
        return refused("an address with another port than that of listen");
    }
    if tls.redirect_listen.is_some_and(|redirect| meet(admin, redirect)) {
        return refused("an address with another port than that of tls.redirect_listen");
    }
    Ok(())
}

/// Checks that no path is empty: such a file or folder cannot exist.
fn check_paths(config: &Config) -> Result<(), ConfigError> {
    let is_empty = |path: &PathBuf| path.as_os_str().is_empty();
    if config.folders().any(is_empty) {
        let wanted = "the path of a folder, such as \"/srv/video\"";
        return Err(ConfigError::not_of_kind("library", "", wanted));
    }
    if config.access_log.as_ref().is_some_and(is_empty) {
        let wanted = "the path of a file, or \"-\" for standard output, or leave it out";
        return Err(ConfigError::not_of_kind("access_log", "", wanted));
    }
    Ok(())
}

/// Returns true if the kernel cannot listen on both.
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    // For port 0 the kernel chooses a free port.
    one.port() != 0 && one.port() == other.port() && (takes(one, other) || takes(other, one))
}

/// Returns true if listening on `one` includes `other`. `[::]` includes IPv4 addresses.
fn takes(one: SocketAddr, other: SocketAddr) -> bool {
    match (one.ip().to_canonical(), other.ip().to_canonical()) {
        (IpAddr::V6(one), _) if one.is_unspecified() => true,
        (IpAddr::V4(one), IpAddr::V4(_)) if one.is_unspecified() => true,
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::refusal;

    #[test]
    fn an_empty_path_is_refused_with_its_setting() {
        for text in ["library = \"\"", "library = [\"/a\", \"\"]"] {
            let said = "library has \"\"; write the path of a folder, such as \"/srv/video\"";
            assert_eq!(refusal(text).as_deref(), Some(said), "{text}");
        }
        let site = refusal("[[sites]]\nhosts = [\"a.example\"]\nlibrary = \"\"");
        assert!(site.is_some_and(|said| said.starts_with("library has \"\"")));
        let log = refusal("access_log = \"\"").unwrap();
        assert!(log.starts_with("access_log has \"\"; write the path of a file"), "{log}");
        assert_eq!(refusal("access_log = \"-\""), None);
    }

    #[test]
    fn the_admin_listener_needs_an_address_of_its_own() {
        let of =
            |listen: &str, admin: &str| refusal(&format!("listen = {listen:?}\nadmin = {admin:?}"));
        for (listen, admin) in [
            ("127.0.0.1:7000", "127.0.0.1:7000"),
            ("[::]:7000", "127.0.0.1:7000"),
            ("[::]:7000", "[::1]:7000"),
            ("192.0.2.1:7000", "0.0.0.0:7000"),
            ("192.0.2.1:7000", "[::]:7000"),
            ("[::ffff:192.0.2.1]:7000", "192.0.2.1:7000"),
        ] {
            let said = format!(
                "admin has {admin:?}; write an address with another port than that of listen"
            );
            assert_eq!(of(listen, admin), Some(said), "{listen}");
        }
        for (listen, admin) in [
            ("127.0.0.1:7000", "127.0.0.1:7001"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("192.0.2.1:7000", "127.0.0.1:7000"),
            ("0.0.0.0:7000", "[::1]:7000"),
        ] {
            assert_eq!(of(listen, admin), None, "{listen} {admin}");
        }
    }

    #[test]
    fn the_redirect_may_not_have_the_address_of_the_admin_listener() {
        let with = |admin: &str| {
            refusal(&format!("admin = {admin:?}\n[tls]\nredirect_listen = \"[::]:7000\""))
        };
        assert!(with("127.0.0.1:7000").is_some_and(|said| said.contains("tls.redirect_listen")));
        assert_eq!(with("127.0.0.1:7001"), None);
    }

    #[test]
    fn on_the_bypass_route_viewers_have_an_address_of_their_own() {
        let said = refusal(
            "route = \"bypass\"\nlisten = \"[::]:7000\"\nadmin = \"127.0.0.1:7000\"\n\
             [bypass]\ndevice = \"tap\"\ninterface = \"tap0\"\naddresses = [\"10.9.8.7\"]",
        );
        assert_eq!(said, None);
    }
}
