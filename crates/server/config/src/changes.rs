//! The differences between another configuration and a running server's, setting by setting.
//!
//! A reload changes no setting: it re-reads files that the configuration names, and never the configuration. So a changed setting takes an upgrade,
//! or a restart if no upgrade is possible, or nothing if neither configuration uses it.

use super::Config;
use crate::upgrades::obstacle;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingChange {
    /// Its name, with the sections it is in: `tls.hsts_seconds`.
    pub key: String,
    /// The running server's value; null for nothing.
    pub running: Value,
    /// The other configuration's value; null for nothing.
    pub configured: Value,
    /// How it takes effect.
    pub takes: Takes,
}

/// The action that makes a changed setting take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Takes {
    /// `fullbore upgrade`.
    Upgrade,
    /// A restart, because one of the two configurations cannot be part of an upgrade.
    Restart,
    /// Nothing: neither of the two uses the setting.
    Nothing,
}

impl Takes {
    /// The action in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Upgrade => "takes an upgrade",
            Self::Restart => "takes a restart",
            Self::Nothing => "has no effect: not in use",
        }
    }
}

impl Config {
    /// The settings in which this configuration differs from the `running` one, sorted by key.
    ///
    /// # Errors
    /// If one of the two cannot be written as text.
    pub fn changes_from(&self, running: &Self) -> Result<Vec<SettingChange>, serde_json::Error> {
        let (running_keys, keys) = (running.settings()?, self.settings()?);
        let is_obstructed = [running, self].into_iter().any(|config| obstacle(config).is_some());
        let in_effect = if is_obstructed { Takes::Restart } else { Takes::Upgrade };
        let names: BTreeSet<_> = running_keys.keys().chain(keys.keys()).collect();
        let change = |key: &String| {
            let of = |settings: &BTreeMap<String, Value>| settings.get(key).cloned();
            let (running_value, configured) = (of(&running_keys), of(&keys));
            let is_used = running.uses(key) || self.uses(key);
            (running_value != configured).then(|| SettingChange {
                key: key.clone(),
                running: without_secrets(running_value.unwrap_or_default()),
                configured: without_secrets(configured.unwrap_or_default()),
                takes: if is_used { in_effect } else { Takes::Nothing },
            })
        };
        Ok(names.into_iter().filter_map(change).collect())
    }

    /// Every setting that has a value, by its key. A list is one value, because moving an entry changes as much as adding one.
    fn settings(&self) -> Result<BTreeMap<String, Value>, serde_json::Error> {
        let mut settings = BTreeMap::new();
        flatten(String::new(), serde_json::to_value(self)?, &mut settings);
        Ok(settings)
    }

    /// Whether a server with this configuration uses the setting.
    fn uses(&self, key: &str) -> bool {
        match key.split_once('.') {
            Some(("tls", name)) => self.tls.enabled || name == "enabled",
            Some(("edge", _)) => self.edge.is_on(),
            Some(("bypass", _)) => self.route == super::Route::Bypass,
            _ => true,
        }
    }
}

/// A value in which the texts of origins' headers are left out: they may be secrets.
fn without_secrets(mut value: Value) -> Value {
    for origin in value.as_array_mut().into_iter().flatten() {
        let headers = origin.get_mut("headers").and_then(Value::as_object_mut);
        for header in headers.into_iter().flatten().filter(|(_, value)| value.is_string()) {
            *header.1 = Value::from("...");
        }
    }
    value
}

fn flatten(key: String, value: Value, settings: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(members) => members.into_iter().for_each(|(name, value)| {
            let below = if key.is_empty() { name } else { format!("{key}.{name}") };
            flatten(below, value, settings);
        }),
        value => drop(settings.insert(key, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;
    use serde_json::json;

    fn parse(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    /// The changes between two texts, in short form.
    fn changes(running: &str, configured: &str) -> Vec<(String, Value, Value, Takes)> {
        let changes = parse(configured).changes_from(&parse(running)).unwrap();
        let short =
            |change: SettingChange| (change.key, change.running, change.configured, change.takes);
        changes.into_iter().map(short).collect()
    }

    #[test]
    fn the_same_settings_are_the_same_however_they_are_written() {
        assert_eq!(changes("", ""), []);
        assert_eq!(changes("library = \"/films\"", "library = [\"/films\"]"), []);
        assert_eq!(changes("", "drain_seconds = 30\n[timeouts]\nidle_seconds = 75"), []);
        let other_file = Config { file: Some("/other.toml".into()), ..Config::default() };
        assert_eq!(other_file.changes_from(&Config::default()).unwrap(), []);
    }

    #[test]
    fn each_setting_that_differs_is_told_once_with_both_values() {
        let running = "access_log = \"/log\"\n[limits]\nconnections_max = 7";
        let configured =
            "library = \"/films\"\n[tls.acme]\ndomains = [\"a.example\"]\n[memory]\nhot_bytes = 0";
        let told = changes(running, configured);
        let upgrade =
            |key: &str, running, configured| (key.to_owned(), running, configured, Takes::Upgrade);
        let expected = [
            upgrade("access_log", json!("/log"), json!(null)),
            upgrade("library", json!(null), json!(["/films"])),
            upgrade("limits.connections_max", json!(7), json!(100_000)),
            upgrade("memory.hot_bytes", json!(null), json!(0)),
        ];
        assert_eq!(told[..4], expected);
        assert!(told[4..].iter().all(|(key, ..)| key.starts_with("tls.acme.")), "{told:?}");
        assert!(told.iter().any(|(key, ..)| key == "tls.acme.domains"));
    }

    #[test]
    fn the_values_of_headers_for_origins_are_not_shown() {
        let config = |secret: &str| {
            format!(
                "[[edge.origin]]\nurl = \"http://a\"\nheaders = {{ X-A = \"{secret}\", X-B = {{ file = \"/b\" }} }}"
            )
        };
        let told = changes(&config("swordfish"), &config("quiet"));
        let shown =
            json!([{ "url": "http://a", "headers": { "X-A": "...", "X-B": { "file": "/b" } } }]);
        assert_eq!(told, [("edge.origin".into(), shown.clone(), shown, Takes::Restart)]);
    }

    /// Another value of the same kind, or several of which one will be valid.
    fn others(key: &str, value: &Value) -> Vec<Value> {
        let words = [
            "userspace",
            "kernel",
            "direct",
            "cached",
            "off",
            "network",
            "transparent",
            "1.2",
            "tap",
            "xdp",
            "127.0.0.1:1",
            "[::]:1",
            "192.0.2.0/24",
            "http://other",
            "hash",
            "10.0.0.1",
        ];
        match value {
            Value::Bool(value) => vec![json!(!value)],
            Value::Number(number) if number.is_f64() => vec![json!(number.as_f64().unwrap() + 0.5)],
            Value::Number(number) => vec![json!(number.as_u64().unwrap() + 1)],
            Value::Array(list) if list.is_empty() => match key {
                "off" => vec![json!(["hot"])],
                _ => {
                    let pair = json!([{ "cert": "c", "key": "k" }]);
                    vec![json!(["one"]), json!(["10.9.8.7"]), pair]
                }
            },
            Value::Array(_) => vec![json!([]), json!(["one"])],
            _ => words.iter().map(|word| json!(word)).collect(),
        }
    }

    /// Sets `key`, with the sections it is in.
    fn set(document: &mut Value, key: &str, value: Value) {
        let place = key.split('.').fold(document, |place, name| &mut place[name]);
        *place = value;
    }

    /// A configuration is shown with every setting, and reading the result gives it back.
    #[test]
    fn every_setting_of_the_manual_takes_an_upgrade_and_is_named() {
        let mut whole = crate::tests::manual(true);
        whole.insert("edge".into(), toml::Table::new().into());
        let mut whole: Config = whole.try_into().unwrap();
        whole.route = Route::Auto;
        let document = serde_json::to_value(&whole).unwrap();
        let keys = whole.settings().unwrap();
        assert!(keys.len() > 60, "{}", keys.len());
        for (key, value) in &keys {
            let changed = others(key, value).into_iter().find_map(|other| {
                let mut document = document.clone();
                set(&mut document, key, other);
                let text = toml::to_string(&serde_json::from_value::<Config>(document).ok()?);
                let read: Config = toml::from_str(&text.ok()?).ok()?;
                (read != whole).then_some(read)
            });
            let changed = changed.unwrap_or_else(|| panic!("another value for {key}: {value}"));
            let told = changed.changes_from(&whole).unwrap();
            assert!(told.len() == 1 && told[0].key == *key, "{key}: {told:?}");
            let expected = match key.split('.').next() {
                Some("bypass" | "edge") => Takes::Nothing,
                _ => Takes::Upgrade,
            };
            assert_eq!(told[0].takes, expected, "{key}");
        }
    }

    #[test]
    fn what_neither_uses_takes_nothing_and_what_cannot_hand_over_a_restart() {
        let off = "[tls]\nenabled = false\n";
        let told =
            changes(off, "[tls]\nenabled = false\nhsts_seconds = 60\n[bypass]\nmtu_bytes = 9000");
        assert!(told.len() == 2 && told.iter().all(|(.., takes)| *takes == Takes::Nothing));
        let told = changes(off, "[tls]\nhsts_seconds = 60");
        assert!(told.len() == 2 && told.iter().all(|(.., takes)| *takes == Takes::Upgrade));
        let bypass = Config { route: Route::Bypass, ..Config::default() };
        for (one, other) in [(&bypass, &Config::default()), (&Config::default(), &bypass)] {
            let told = one.changes_from(other).unwrap();
            assert!(told.len() == 1 && told[0].key == "route", "{told:?}");
            assert_eq!(told[0].takes, Takes::Restart);
        }
    }
}
