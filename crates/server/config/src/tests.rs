use super::*;

#[test]
fn the_defaults_are_valid_and_survive_being_written_and_read() {
    let config = Config::default();
    config.check().unwrap();
    let text = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
}

#[test]
fn one_network_gets_a_fiftieth_of_the_places_unless_it_is_loopback_or_the_operator_says_else() {
    let hold = |limits: &str, address: &str| {
        let config: Config = toml::from_str(&format!("[limits]\n{limits}")).unwrap();
        let (admission, address) = (config.limits.admission(), address.parse().unwrap());
        let passes: Vec<_> = (0..3000).map_while(|_| admission.admit(address).ok()).collect();
        passes.len()
    };
    for address in ["192.0.2.1", "2001:db8::1", "10.0.0.1"] {
        assert_eq!(hold("", address), 2000, "{address}");
        assert_eq!(hold("connections_per_address_max = 0", address), 3000, "{address}");
        assert_eq!(hold("connections_per_address_max = 7", address), 7, "{address}");
    }
    assert_eq!((hold("", "127.0.0.1"), hold("", "::1")), (3000, 3000));
    assert_eq!(hold("connections_per_address_max = 7", "127.0.0.1"), 7);
}

/// Why a configuration is rejected, if it is.
pub(crate) fn refusal(text: &str) -> Option<String> {
    let config: Config = toml::from_str(text).unwrap();
    config.check().err().map(|error| error.to_string())
}

/// The configuration that docs/serve.md prints; its examples are included on request.
pub(crate) fn manual(with_examples: bool) -> toml::Table {
    let page = include_str!("../../../../docs/serve.md");
    let section = page.split("\n## Configuration file\n").nth(1).unwrap();
    let lines = section.split("\n## ").next().unwrap().lines();
    let lines = lines.filter_map(|line| line.strip_prefix("    "));
    let lines = lines.filter_map(|line| match line.strip_prefix("# ") {
        Some(example) => with_examples.then_some(example),
        None => Some(line),
    });
    toml::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap()
}

#[test]
fn the_manual_prints_the_defaults() {
    let printed: Config = manual(false).try_into().unwrap();
    assert_eq!(printed, Config::default());
}

/// The bypass route's settings are in docs/bypass.md, in a table.
#[test]
fn every_setting_is_in_the_manual() {
    let bypass = include_str!("../../../../docs/bypass.md");
    let manual = manual(true);
    // With the examples, because an unset setting is not written.
    let all: Config = manual.clone().try_into().unwrap();
    all.check().unwrap();
    for (name, value) in toml::Table::try_from(all).unwrap() {
        let toml::Value::Table(table) = value else {
            assert!(manual.contains_key(&name), "{name} is missing");
            continue;
        };
        for key in table.keys() {
            let is_there = match name.as_str() {
                "bypass" => bypass.contains(&format!("\n| `{key}` |")),
                _ => manual.get(&name).is_some_and(|section| section.get(key).is_some()),
            };
            assert!(is_there, "{name}.{key} is missing");
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_is_told_from_one_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fullbore.toml");
    assert!(matches!(Config::read(&file), Err(ConfigError::Unreadable { .. })));
    std::fs::write(&file, "workers = 2\nlisten = 5\n").unwrap();
    let error = Config::read(&file).unwrap_err();
    assert!(matches!(error, ConfigError::Malformed { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("fullbore.toml") && said.contains("line 2"), "{said}");
}

#[test]
fn a_fault_near_headers_for_an_origin_shows_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fullbore.toml");
    let secret = r#"headers = { X-A = "swordfish" }"#;
    for (text, fault) in [
        (format!(r#"origin = {{ url = "http://a", hots = "b", {secret} }}"#), "hots"),
        (format!(r#"origin = {{ url = "http://a" {secret} }}"#), "line 3"),
        (r#"origin = { url = "http://a", headers = "X-A: swordfish" }"#.to_owned(), "..."),
        ("[edge.origin.headers]\nX-A = \"swordfish\n".to_owned(), "line 4"),
    ] {
        std::fs::write(&file, format!("workers = 2\n[edge]\n{text}\n")).unwrap();
        let said = Config::read(&file).unwrap_err().to_string();
        assert!(!said.contains("swordfish") && said.contains(fault), "{text}: {said}");
    }
}

#[test]
fn each_time_out_of_bounds_is_named_with_what_it_may_be() {
    let mut config = Config::default();
    config.timeouts.head_seconds = 0.0;
    let said = config.check().unwrap_err().to_string();
    assert_eq!(said, "timeouts.head_seconds is 0; it may be 0.001 to 86400");
    for (seconds, short) in [(1e300, "1e300"), (1e-300, "1e-300"), (90_000.5, "90000.5")] {
        config.timeouts.head_seconds = seconds;
        let said = config.check().unwrap_err().to_string();
        assert!(said.starts_with(&format!("timeouts.head_seconds is {short}; ")), "{said}");
    }
}

#[test]
fn the_least_backlog_is_one_and_buffers_hold_eight_windows() {
    assert_eq!(refusal("[net]\nbacklog = 1"), None);
    let said = refusal("[net]\nbacklog = 0");
    assert_eq!(said.as_deref(), Some("net.backlog is 0; it may be 1 or more"));
    for taken in [
        "[limits]\nbuffer_bytes_max = 0",
        "[limits]\nbuffer_bytes_max = 4194304",
        "[limits]\nbuffer_bytes_max = 131072\n[net]\nwindow_bytes_max = 16384",
    ] {
        assert_eq!(refusal(taken), None, "{taken}");
    }
    for few in [
        "[limits]\nbuffer_bytes_max = 1",
        "[limits]\nbuffer_bytes_max = 4194303",
        "[limits]\nbuffer_bytes_max = 4194304\n[net]\nwindow_bytes_max = 1048576",
    ] {
        let said = refusal(few).unwrap_or_default();
        let names = said.starts_with("limits.buffer_bytes_max is ");
        assert!(names && said.contains("8 times net.window_bytes_max"), "{few}: {said}");
    }
}

#[test]
fn an_unknown_setting_is_refused_by_name() {
    let error = toml::from_str::<Config>("[net]\nwindow = 3\n").unwrap_err().to_string();
    assert!(error.contains("window"), "{error}");
}

#[test]
fn what_needs_a_token_is_said_without_doubt() {
    let of = |keys: &[&str], required: &[&str]| {
        let signing = Signing {
            keys: keys.iter().map(PathBuf::from).collect(),
            required: required.iter().map(|path| (*path).into()).collect(),
            ..Signing::default()
        };
        Config { signing, ..Config::default() }.check().map_err(|error| error.to_string())
    };
    for path in ["/", "films", "/films", "films/", "films/a b.mp4"] {
        assert_eq!(of(&["k"], &[path]), Ok(()), "{path}");
    }
    for path in ["", "//", "/films//", "films//a", "../films", "films/.", ".films", "a\nb"] {
        assert!(of(&["k"], &[path]).unwrap_err().contains("signing.required"), "{path}");
    }
    assert!(of(&["k"], &[]).unwrap_err().contains("leave it out"));
    assert!(of(&[], &["films"]).unwrap_err().contains("signing.keys"));
    assert_eq!(of(&[], &["/"]), Ok(()));
    let cats = |keys: &[&str], required: &str| {
        let signing = Signing {
            cat_keys: keys.iter().map(PathBuf::from).collect(),
            cat_audiences: vec!["tv".into()],
            required: vec![required.into()],
            ..Signing::default()
        };
        Config { signing, ..Config::default() }.check().map_err(|error| error.to_string())
    };
    assert!(cats(&[], "/").unwrap_err().contains("signing.cat_keys"));
    assert_eq!(cats(&["k"], "films"), Ok(()));
}

#[test]
fn settings_out_of_bounds_are_named() {
    let mut config = Config::default();
    config.net.window_bytes_max = 1;
    assert!(config.check().unwrap_err().to_string().contains("window_bytes_max"));
    let mut config = Config::default();
    config.tls.key_records_max = 1 << 25;
    assert!(config.check().unwrap_err().to_string().contains("key_records_max"));
    let mut config = Config::default();
    config.limits.response_bytes_max = 0;
    assert!(config.check().unwrap_err().to_string().contains("response_bytes_max"));
    for host in ["", "a:9443", "http://a", "[::1]"] {
        let config = Config { admin_hosts: vec![host.into()], ..Config::default() };
        assert!(config.check().unwrap_err().to_string().contains("admin_hosts"), "{host}");
    }
    let mut config = Config::default();
    config.timeouts.idle_seconds = f64::NAN;
    assert!(config.check().is_err());
}
