//! Spellings of paths: a file is found by either of Unicode's forms of its name, and several slashes are one. Every rule sees one path.

use crate::support::content::Content;
use crate::support::served::Served;
use crate::support::viewer::Protocol;
use config::HeaderRule;
use std::path::Path;
use token::{Grant, KeyRing};

/// "é", composed and decomposed, and percent-encoded.
const COMPOSED: [&str; 2] = ["\u{e9}", "%C3%A9"];
const DECOMPOSED: [&str; 2] = ["e\u{301}", "e%CC%81"];

fn write(library: &Path, name: &str, seed: u64) -> Content {
    let content = Content::new(seed, 5000);
    let path = library.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    content.write(&path).unwrap();
    content
}

#[track_caller]
fn assert_is(served: &Served, path: &str, content: Option<&Content>) {
    let response = served.viewer().ask(path);
    match content {
        Some(content) => {
            assert_eq!(response.status, 200, "{path}");
            content.assert_holds(0, &response.body, path);
        }
        None => assert_eq!(response.status, 404, "{path}"),
    }
}

#[test]
fn a_file_is_found_by_either_form_of_its_name() {
    let library = tempfile::tempdir().unwrap();
    let (c, d) = (COMPOSED[0], DECOMPOSED[0]);
    let from_linux = write(library.path(), &format!("{c}/linux.mp4"), 1);
    let from_mac = write(library.path(), &format!("mac-{d}.mp4"), 2);
    // A folder that was typed, with a title that was copied from a Mac.
    let mixed = write(library.path(), &format!("{c}/{d}/{d}.mp4"), 3);
    // In neither form: the sign for angstrom.
    let odd = write(library.path(), "\u{212b}.mp4", 4);
    // These become ASCII when they are composed: the sign for kelvin, Greek's question mark, its varia.
    let ascii: Vec<_> = ["\u{212a}", "\u{37e}", "\u{1fef}"].into_iter().zip(5..).collect();
    let ascii = ascii.into_iter().map(|(name, seed)| {
        (escape::percent::encode(name), write(library.path(), &format!("{name}.mp4"), seed))
    });
    let ascii: Vec<_> = ascii.collect();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    // Twice: the second time from the open files.
    for _ in 0..2 {
        for one in COMPOSED.iter().chain(&DECOMPOSED) {
            assert_is(&served, &format!("/{one}/linux.mp4"), Some(&from_linux));
            assert_is(&served, &format!("/mac-{one}.mp4"), Some(&from_mac));
            for other in COMPOSED.iter().chain(&DECOMPOSED) {
                assert_is(&served, &format!("/{one}/{other}/{one}.mp4"), Some(&mixed));
            }
            assert_is(&served, &format!("/{one}/none.mp4"), None);
            assert_is(&served, &format!("/{one}/%FF.mp4"), None);
        }
        assert_is(&served, "/%E2%84%AB.mp4", Some(&odd));
        for (name, content) in &ascii {
            assert_is(&served, &format!("/{name}.mp4"), Some(content));
        }
        assert_is(&served, "/e/linux.mp4", None);
    }
    served.stop();
}

/// Which file a path means doesn't depend on its spelling, because neither do the rules for it.
#[test]
fn of_two_equivalent_names_the_composed_one_is_served() {
    let library = tempfile::tempdir().unwrap();
    let decomposed = write(library.path(), &format!("{}.mp4", DECOMPOSED[0]), 1);
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    for one in COMPOSED.iter().chain(&DECOMPOSED) {
        assert_is(&served, &format!("/{one}.mp4"), Some(&decomposed));
    }
    let composed = write(library.path(), &format!("{}.mp4", COMPOSED[0]), 2);
    for one in COMPOSED.iter().chain(&DECOMPOSED) {
        assert_is(&served, &format!("/{one}.mp4"), Some(&composed));
    }
    std::fs::remove_file(library.path().join(format!("{}.mp4", COMPOSED[0]))).unwrap();
    for one in COMPOSED.iter().chain(&DECOMPOSED) {
        assert_is(&served, &format!("/{one}.mp4"), Some(&decomposed));
    }
    served.stop();
}

#[test]
fn several_slashes_are_one() {
    let library = tempfile::tempdir().unwrap();
    let film = write(library.path(), "films/a/b.mp4", 1);
    let front = write(library.path(), "index.html", 2);
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    for path in ["/films/a/b.mp4", "//films/a/b.mp4", "/films//a/b.mp4", "///films///a//b.mp4"] {
        assert_is(&served, path, Some(&film));
    }
    assert_is(&served, "//", Some(&front));
    assert_is(&served, "http://h//films/a/b.mp4", Some(&film));
    for path in ["//films/a/b.mp4/", "/films//..//films/a/b.mp4", "//.hidden", "/films/a//b"] {
        assert_is(&served, path, None);
    }
    served.stop();
}

#[test]
fn rules_and_tokens_hold_for_every_spelling() {
    let library = tempfile::tempdir().unwrap();
    // The rule is written one way, and the folder on disk the other way.
    let film = write(library.path(), &format!("priv{}/a/b.mp4", DECOMPOSED[0]), 1);
    let other = write(library.path(), "open/b.mp4", 2);
    let private = format!("priv{}", COMPOSED[0]);
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("url.key");
    token::make_key_file(&key).unwrap();
    let prefix = format!("{private}/a");
    let grant =
        Grant { prefix: prefix.as_bytes(), expires_unix_seconds: u32::MAX.into(), client: None };
    let token = KeyRing::read(&[&key]).unwrap().sign(&grant).unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        config.signing.keys = vec![key];
        config.signing.required = vec![private.clone()];
        config.http.headers = vec![HeaderRule {
            path: format!("/{private}/*"),
            cache_control: Some("private".into()),
            content_type: None,
            fields: Default::default(),
        }];
    });
    assert_is(&served, "//open//b.mp4", Some(&other));
    for one in COMPOSED.iter().chain(&DECOMPOSED) {
        for path in [format!("/priv{one}/a/b.mp4"), format!("//priv{one}//a/b.mp4")] {
            assert_eq!(served.viewer().ask(&path).status, 403, "{path}");
            for signed in [
                format!("/t/{token}{path}"),
                format!("//t//{token}/{path}"),
                format!("{path}?token={token}"),
            ] {
                assert_is(&served, &signed, Some(&film));
                let answer = served.viewer().ask(&signed);
                assert_eq!(answer.field("Cache-Control"), Some("private"), "{signed}");
            }
        }
        let beside = format!("/t/{token}/priv{one}//b.mp4");
        assert_eq!(served.viewer().ask(&beside).status, 403, "{beside}");
    }
    served.stop();
}

/// Half of a library's titles came from a Mac, onto the second disk.
#[test]
fn each_folder_of_a_library_may_spell_its_own_way() {
    let library = tempfile::tempdir().unwrap();
    let folders = ["d0", "d1"].map(|name| library.path().join(name));
    let first = write(&folders[0], &format!("a{}/x.mp4", COMPOSED[0]), 1);
    let second = write(&folders[1], &format!("b{}/x.mp4", DECOMPOSED[0]), 2);
    let served = Served::start(&folders[0], Protocol::Plain, |config| {
        config.library.push(folders[1].clone());
    });
    for one in COMPOSED.iter().chain(&DECOMPOSED) {
        assert_is(&served, &format!("/a{one}/x.mp4"), Some(&first));
        assert_is(&served, &format!("//b{one}//x.mp4"), Some(&second));
    }
    served.stop();
}
