//! References to other paths of the same server, as playlists and players write them (RFC 3986 section 5.2).

use reqwest::Url;

/// Stands in for the server's own address, which a path alone doesn't have.
const SERVER: &str = "http://server.invalid";

/// The path and query that `reference` means in a resource at `base`, a path that may have a query. None if that is on another server, or `base`
/// itself.
pub fn resolved(base: &str, reference: &str) -> Option<String> {
    // The library leaves them out, so it would find another name.
    if reference.contains(|one: char| one.is_ascii_control()) {
        return None;
    }
    let base = Url::parse(&format!("{SERVER}{base}")).ok()?;
    let meant = base.join(reference).ok().filter(|meant| meant.origin() == base.origin())?;
    let query = |url: &Url| url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let [from, to] = [&base, &meant].map(|url| format!("{}{}", url.path(), query(url)));
    (to != from).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_within_one_server() {
        let base = "/t/token/films/a.m3u8?x=/y/";
        for (reference, path) in [
            ("b.ts", "/t/token/films/b.ts"),
            ("./b.ts?c=d#e", "/t/token/films/b.ts?c=d"),
            ("../sd/b.ts", "/t/token/sd/b.ts"),
            ("../../../../b.ts", "/b.ts"),
            ("/b/c.ts", "/b/c.ts"),
            ("/b/../c.ts", "/c.ts"),
            ("..", "/t/token/"),
            ("b/c:d.ts", "/t/token/films/b/c:d.ts"),
            ("?a=b", "/t/token/films/a.m3u8?a=b"),
            ("a b\u{e9}.ts", "/t/token/films/a%20b%C3%A9.ts"),
            ("%2e%2e/b.ts", "/t/token/b.ts"),
        ] {
            assert_eq!(resolved(base, reference).as_deref(), Some(path), "{reference}");
        }
        for reference in
            ["//other/b.ts", "https://other/b.ts", "data:,b", "", "#a", "http://[b", "b.ts\0"]
        {
            assert_eq!(resolved(base, reference), None, "{reference}");
        }
        assert_eq!(resolved("/a", "b"), Some("/b".into()));
        assert_eq!(resolved("//a/b", "c"), Some("//a/c".into()));
    }
}
