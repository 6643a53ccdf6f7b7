//! Rules in a configuration.

use crate::{Config, ConfigError};

const ORIGIN: &str = "[edge]\norigin = \"http://origin\"\ncache = \"/cache\"\n";

fn check(text: &str) -> Result<Config, String> {
    let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
    config.check().map_err(|error: ConfigError| error.to_string())?;
    Ok(config)
}

#[test]
fn rules_are_read_and_survive_being_written() {
    let rules = "[[edge.rules]]\npath = \"/api/*\"\nquery = \"sort\"\ncookies = true\n\
        [[edge.rules]]\npath = \"*.m3u8\"\nquery_keep = [\"_HLS_*\"]\n\
        [[edge.rules]]\npath = \"*\"\nquery_drop = [\"utm_*\", \"a[]\"]\n\
        [[edge.rules]]\npath = \"/x\"\nquery = \"drop\"\n";
    let config = check(&format!("{ORIGIN}{rules}")).unwrap();
    assert_eq!(config.edge.rules.len(), 4);
    let written = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<Config>(&written).unwrap(), config);
    let names = config.edge.rules[2].names();
    for (name, counts) in
        [("utm_source", false), ("utm", true), ("a[]", false), ("%75tm_%zz", false), ("b", true)]
    {
        assert_eq!(names.has(name.as_bytes()), counts, "{name}");
    }
    let names = config.edge.rules[1].names();
    assert!(names.has(b"_HLS_msn") && names.has(b"%5FHLS_msn") && !names.has(b"session"));
}

#[test]
fn each_fault_names_the_rule_the_key_and_what_to_write() {
    let good = "[[edge.rules]]\npath = \"*.mpd\"\n";
    for (bad, key, advice) in [
        ("path = \"films/*\"", "path", "\"/films/*\""),
        ("path = \"/films/\"", "path", "\"/films/*\""),
        ("path = \"/a\"\nquery_keep = [\"\"]", "query_keep", "\"utm_*\""),
        ("path = \"/a\"\nquery_drop = [\"*\"]", "query_drop", "\"utm_*\""),
        ("path = \"/a\"\nquery_drop = [\"a=b\"]", "query_drop", "\"utm_*\""),
        ("path = \"/a\"\nquery_keep = [\"a*b\"]", "query_keep", "\"utm_*\""),
        ("path = \"/a\"\nquery_keep = [\"token\"]", "query_keep", "leave it out"),
        ("path = \"/a\"\nquery_keep = [\"a\"]\nquery_drop = [\"b\"]", "query_keep", "remove"),
        ("path = \"/a\"\nquery = \"drop\"\nquery_drop = [\"b\"]", "query_drop", "remove"),
        ("path = \"/a\"\nheaders_drop = [\"a b\"]", "headers_drop", "not the name"),
        ("path = \"/a\"\nheaders_drop = [\"Connection\"]", "headers_drop", "makes it"),
        ("path = \"/a\"\nheaders_vary = [\"Range\"]", "headers_vary", "makes it"),
        ("path = \"/a\"\nheaders_vary = [\"CMCD-Session\"]", "headers_vary", "for the edge"),
        ("path = \"/a\"\nheaders_vary = [\"X-Real-IP\"]", "headers_vary", "never reaches"),
        ("path = \"/a\"\nheaders_vary = [\"X_Device\"]", "headers_vary", "with hyphens"),
        ("path = \"/a\"\nheaders_vary = [\"cookie\"]", "headers_vary", "cookies = true"),
        ("path = \"/a\"\nheaders_drop = [\"Authorization\"]", "headers_drop", "\"drop\""),
        ("path = \"/a\"\nheaders_vary = [\"X-Plex-Token\"]", "headers_vary", "that viewer"),
        ("path = \"/a\"\nheaders_vary = [\"a\"]\nheaders_drop = [\"A\"]", "headers_drop", "leave"),
        ("path = \"/a\"\nfresh_seconds = -1.0", "fresh_seconds", "0 to 31536000"),
        ("path = \"/a\"\nstale_seconds = nan", "stale_seconds", "0 to 31536000"),
        (
            "path = \"/a\"\nfresh_seconds = 1.0\nfresh_default_seconds = 2.0",
            "fresh_seconds",
            "remove",
        ),
        ("path = \"/a\"\ncache = false\nstale_seconds = 5.0", "stale_seconds", "remove"),
        ("path = \"/a\"\ncache = false\nheaders_vary = [\"a\"]", "headers_vary", "remove"),
    ] {
        let said = check(&format!("{ORIGIN}{good}[[edge.rules]]\n{bad}\n")).unwrap_err();
        let named = said.starts_with("edge.rules, rule 2, for \"") && said.contains(key);
        assert!(named && said.contains(advice) && !said.contains('\n'), "{bad}: {said}");
    }
    let said = check("[[edge.rules]]\npath = \"/a\"\nquery = \"none\"\n").unwrap_err();
    assert!(said.contains("line 3") && said.contains("`keep`"), "{said}");
    assert!(check(&format!("{ORIGIN}{}", good.repeat(101))).unwrap_err().contains("up to 100"));
    check(&format!("{ORIGIN}{}", good.repeat(100))).unwrap();
    let names: Vec<_> = (0..50).map(|number| format!("\"{number:060}\"")).collect();
    let long = format!("{good}query_keep = [{0}]\nheaders_drop = [{0}]\n", names.join(","));
    let said = check(&format!("{ORIGIN}{}", long.repeat(20))).unwrap_err();
    assert!(said.contains("98304") && said.contains("shorter"), "{said}");
    assert!(check(&format!("{ORIGIN}{good}headers_vary = [{}]\n", names[..9].join(","))).is_err());
}

#[test]
fn rules_that_would_send_a_bucket_more_are_not_for_buckets() {
    let bucket = "[edge]\norigin = \"s3://films\"\ncache = \"/cache\"\n";
    for (setting, advice) in [
        ("query = \"sort\"", "remove query"),
        ("query_keep = [\"a\"]", "remove query"),
        ("cookies = true", "remove cookies"),
        ("headers_drop = [\"DNT\"]", "remove headers_drop"),
        ("headers_vary = [\"DNT\"]", "remove headers_drop and headers_vary"),
        ("cache = false", "remove cache"),
    ] {
        let said = check(&format!("{bucket}[[edge.rules]]\npath = \"*\"\n{setting}\n"));
        assert!(said.unwrap_err().contains(advice), "{setting}");
    }
    check(&format!("{bucket}[[edge.rules]]\npath = \"*\"\ncookies = false\n")).unwrap();
}
