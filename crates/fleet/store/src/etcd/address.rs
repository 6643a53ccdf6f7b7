//! An etcd address: `etcd://[USER@]HOST:PORT[,HOST:PORT...][/PREFIX][?ca=FILE][&certificate=FILE&key=FILE][&password-file=FILE][&plain=yes]`.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::StoreError;

/// Default prefix of a fleet's keys.
const PREFIX: &str = "fullbore";

/// An address of etcd.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub(super) endpoints: Vec<String>,
    /// Ends with a slash.
    pub(super) prefix: String,
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    /// Authority that signed etcd's certificates. Setting it enables TLS.
    pub(super) ca: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, StoreError> {
        let bad = |why: &str| StoreError::NotUsable(format!("{text}: {why}"));
        let rest =
            text.strip_prefix("etcd://").ok_or_else(|| bad("it does not begin with etcd://"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, prefix) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = match hosts.split_once('@') {
            Some((user, hosts)) => (Some(user.to_owned()), hosts),
            None => (None, hosts),
        };
        let prefix = match prefix.trim_matches('/') {
            "" => PREFIX,
            prefix => prefix,
        };
        let mut own = Self {
            endpoints: Vec::new(),
            prefix: format!("/{prefix}/"),
            user,
            password_file: None,
            ca: None,
            certificate: None,
            key: None,
        };
        let mut may_be_plain = false;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let file = |value: &str| Some(PathBuf::from(value));
            match pair.split_once('=') {
                Some(("ca", value)) => own.ca = file(value),
                Some(("certificate", value)) => own.certificate = file(value),
                Some(("key", value)) => own.key = file(value),
                Some(("password-file", value)) => own.password_file = file(value),
                Some(("plain", "yes")) => may_be_plain = true,
                _ => {
                    return Err(bad(&format!(
                        "{pair:?} is not one of ca=, certificate=, key=, password-file= and plain=yes"
                    )));
                }
            }
        }
        if own.certificate.is_some() != own.key.is_some() {
            return Err(bad("certificate= and key= go together"));
        }
        if own.user.is_some() != own.password_file.is_some() {
            return Err(bad("USER@ and password-file= go together"));
        }
        let scheme = if own.ca.is_some() { "https" } else { "http" };
        for host in hosts.split(',') {
            let Some((name, port)) = host
                .rsplit_once(':')
                .filter(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok())
            else {
                return Err(bad(&format!("{host:?} is not HOST:PORT")));
            };
            debug_assert!(!port.is_empty());
            if own.ca.is_none() && !may_be_plain && !is_loopback(name) {
                return Err(bad(
                    "the fleet's secrets would cross the network in the clear: name the authority of etcd's certificates with ?ca=FILE, or allow plain HTTP on a private network with ?plain=yes",
                ));
            }
            own.endpoints.push(format!("{scheme}://{host}"));
        }
        Ok(own)
    }
}

fn is_loopback(name: &str) -> bool {
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn an_address_names_members_prefix_and_files() {
        let address = Address::parse("etcd://127.0.0.1:2379,[::1]:2380").expect("an address");
        assert_eq!(address.endpoints, ["http://127.0.0.1:2379", "http://[::1]:2380"]);
        assert_eq!(address.prefix, "/fullbore/");
        let guide = include_str!("../../../../../docs/fleet-store.md");
        assert!(
            guide.contains("--prefix=true fullbore readwrite /fullbore/"),
            "users get rights to that"
        );
        let address = Address::parse(
            "etcd://films@a.example:1/my/fleet?ca=/c&certificate=/e&key=/k&password-file=/p",
        );
        let address = address.expect("an address");
        assert_eq!(address.endpoints, ["https://a.example:1"]);
        assert_eq!(
            (address.prefix.as_str(), address.user.as_deref()),
            ("/my/fleet/", Some("films"))
        );
        assert!(Address::parse("etcd://10.0.0.1:2379?plain=yes").is_ok());
    }

    #[test]
    fn what_is_no_address_or_would_show_secrets_is_refused() {
        let cases = [
            ("etcd://", "HOST:PORT"),
            ("etcd://host", "HOST:PORT"),
            ("etcd://127.0.0.1:1,,127.0.0.1:2", "HOST:PORT"),
            ("etcd://127.0.0.1:99999", "HOST:PORT"),
            ("etcd://10.0.0.1:2379", "?ca=FILE"),
            ("etcd://127.0.0.1:1?key=/k", "go together"),
            ("etcd://me@127.0.0.1:1", "go together"),
            ("etcd://127.0.0.1:1?tls=yes", "not one of"),
        ];
        for (text, why) in cases {
            let error = Address::parse(text).expect_err(why).to_string();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
