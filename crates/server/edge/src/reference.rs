//! References to other paths of the same server, as playlists and players write them (RFC 3986 section 5.2).

/// The path and query that `reference` means in a resource at `base`, a path that may have a query. None if it names a server, which may be another
/// one.
pub fn resolved(base: &str, reference: &str) -> Option<String> {
    let reference = reference.split('#').next()?;
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let first_segment = path.split('/').next()?;
    if path.starts_with("//") || first_segment.contains(':') || path.is_empty() {
        return None;
    }
    let base = base.split('?').next()?;
    let folder = match path.starts_with('/') {
        true => "",
        false => base.rsplit_once('/')?.0,
    };
    let mut segments: Vec<&str> = folder.split('/').skip(1).collect();
    let named = path.strip_prefix('/').unwrap_or(path);
    let mut last_is_dots = false;
    for segment in named.split('/') {
        last_is_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let slash = if last_is_dots { "/" } else { "" };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("/{}{slash}{query}", segments.join("/")))
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
        ] {
            assert_eq!(resolved(base, reference).as_deref(), Some(path), "{reference}");
        }
        for reference in ["//other/b.ts", "https://other/b.ts", "data:,b", "", "?a=b", "#a"] {
            assert_eq!(resolved(base, reference), None, "{reference}");
        }
        assert_eq!(resolved("/a", "b"), Some("/b".into()));
    }
}
