//! Request fields that only a proxy may send, so no viewer's reach an origin.

/// Fields by which a proxy says who its client is or what that asked for, and those that replace a request's method or URL. An origin believes them
/// from a proxy that it trusts, as it trusts this one, and no key has them: those of one viewer would decide about a response for all. In lower case.
const OF_PROXIES: [&str; 29] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-ipcountry",
    "cf-visitor",
    "client-ip",
    "fastly-client-ip",
    "fastly-ssl",
    "forwarded",
    "front-end-https",
    // Programs behind CGI would take it for the address of their own proxy.
    "proxy",
    "remote-user",
    "surrogate-capability",
    "true-client-ip",
    "x-accel-mapping",
    "x-client-cert",
    "x-client-ip",
    "x-client-verify",
    "x-cluster-client-ip",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-middleware-subrequest",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-scheme",
    "x-sendfile-type",
    "x-url-scheme",
];

/// How others of them begin: `X-Forwarded-Host`, `X-Original-URL`, `X-Rewrite-URL`, `X-SSL-Client-Cert`, and many more.
const OF_PROXIES_BEGIN: [&str; 18] = [
    "ssl-client-",
    "x-amzn-oidc-",
    "x-appengine-",
    "x-arr-",
    "x-auth-request-",
    "x-azure-",
    "x-envoy-",
    "x-forwarded",
    "x-goog-authenticated-",
    "x-ms-client-principal",
    "x-original-",
    "x-originating-",
    "x-override-",
    "x-remote-",
    "x-rewrite-",
    "x-ssl-",
    "x-waws-",
    "x-webauth-",
];

/// Whether only a proxy may send the field of this name, which is in lower case. Programs behind CGI and WSGI take `_` for `-`.
pub fn is_of_proxies(lower: &str) -> bool {
    let name = lower.replace('_', "-");
    OF_PROXIES.contains(&name.as_str())
        || OF_PROXIES_BEGIN.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_proxy_may_say_is_known_in_each_spelling() {
        for name in [
            "x-forwarded-host",
            "x_forwarded_host",
            "x-original-url",
            "x-real-ip",
            "proxy",
            "x-originating-ip",
            "x-remote-addr",
            "x-remote-user",
            "x_envoy_original_path",
            "x-override-url",
            "x-arr-ssl",
            "x-azure-clientip",
            "x-appengine-user-ip",
            "x-waws-unencoded-url",
            "x-client-cert",
            "x-ms-client-principal",
        ] {
            assert!(is_of_proxies(name), "{name}");
        }
        for name in ["x-forward", "x-client-version", "proxies", "referer", "x-origin", "x-arrow"] {
            assert!(!is_of_proxies(name), "{name}");
        }
    }
}
