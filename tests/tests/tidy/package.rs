//! A purge of the package removes every file that the program creates in its state folders, keys above all: `packaging/deb/postrm` names each.

use crate::tree::File;

const POSTRM: &str = "packaging/deb/postrm";

/// Crates whose sources name the files that servers, nodes and gateways keep in their state folders.
const KEEPERS: [&str; 5] = ["gateway", "identity", "node", "store", "tls"];

/// How such files' names end.
const ENDS: [&str; 10] =
    [".json", ".jsonl", ".key", ".log", ".log.1", ".new", ".out", ".pem", ".signed", ".token"];
const MORE_ENDS: [&str; 2] = [".db", ".toml"];

/// Names of files in other folders, with the reason.
const ELSEWHERE: [(&str, &str); 3] = [
    ("store.db", "in the folder store, which is removed whole"),
    ("machine.json", "likewise"),
    ("title.json", "in a folder of documents, which is removed whole"),
];

/// The file names among the string literals in the code of `file`, without its tests.
fn named(file: &File) -> Vec<(usize, String)> {
    let is_name = |text: &str| {
        let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
        let ends = || ENDS.iter().chain(&MORE_ENDS).any(|end| text.ends_with(end));
        text.bytes().all(is_plain) && !text.starts_with('.') && ends()
    };
    let code =
        file.text.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let texts = code.flat_map(|(at, line)| line.split('"').map(move |text| (at, text)));
    texts.filter(|(_, text)| is_name(text)).map(|(at, text)| (at, text.to_owned())).collect()
}

fn left_by_a_purge(files: &[File]) -> Vec<String> {
    let postrm = files.iter().find(|file| file.path == POSTRM).map_or("", |file| &file.text);
    let removed: Vec<_> = postrm.split([' ', '\n', '"', '\\', '=']).collect();
    let is_test = |file: &File| file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
    let keepers = files.iter().filter(|file| {
        file.is_rust()
            && file.source_of().is_some_and(|name| KEEPERS.contains(&name))
            && !is_test(file)
    });
    let mut breaches = Vec::new();
    for file in keepers {
        let left = named(file).into_iter().filter(|(_, name)| {
            !removed.contains(&name.as_str()) && ELSEWHERE.iter().all(|(known, _)| known != name)
        });
        breaches.extend(left.map(|(at, name)| {
            format!(
                "{}: a purge leaves {name}: name it in {POSTRM}, or in ELSEWHERE of tests/tests/tidy/package.rs with the reason",
                file.at(at)
            )
        }));
    }
    breaches
}

#[test]
fn a_purge_leaves_nothing_that_the_program_made() {
    crate::none(left_by_a_purge(&crate::tree::files()));
}

#[test]
fn planted_files_that_a_purge_leaves_are_found() {
    let postrm = "NODE=\"node.json \\\n  node.key\"\n";
    let code = "const A: &str = \"node.key\";\n// \"comment.key\"\nfn a() {\n    state.join(\"other.pem\");\n}\n\
                const B: &str = \"store.db\";\n#[cfg(test)]\nmod tests {\n    const C: &str = \"test.key\";\n}\n";
    let files = [
        File::planted(POSTRM, postrm),
        File::planted("crates/fleet/node/src/a.rs", code),
        File::planted("crates/fleet/node/src/a/tests.rs", "const D: &str = \"d.key\";\n"),
        File::planted("crates/measure/load/src/b.rs", "const E: &str = \"e.key\";\n"),
    ];
    crate::found(
        &left_by_a_purge(&files),
        &["crates/fleet/node/src/a.rs:4: a purge leaves other.pem"],
    );
}
