//! `./run serve` and similar verbs never start a program of an earlier build after a failed build.

use std::process::Command;

/// The script's functions, with a cargo that fails and nothing to install.
const FAILS: &str = ". ./run help >/dev/null\n\
                     need() { :; }\nneed_rust() { :; }\nweb_is_built() { :; }\nweb_build_or_not() { :; }\n\
                     cargo() { echo 'cargo failed' >&2; return 101; }\n";

fn after_a_failed_build(script: &str, target: &std::path::Path) -> std::process::Output {
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{FAILS}{script}")]).current_dir(crate::tree::root());
    bash.env("CARGO_TARGET_DIR", target).output().expect("bash is here")
}

#[test]
fn a_program_of_an_earlier_build_is_not_used_after_a_failed_build() {
    let target = tempfile::tempdir().unwrap();
    for profile in ["release", "dist"] {
        std::fs::create_dir(target.path().join(profile)).unwrap();
        std::fs::write(target.path().join(profile).join("fullbore"), "older").unwrap();
    }
    for build in ["build", "build --dist", "fuzz_build"] {
        let ran =
            after_a_failed_build(&format!("it=$({build})\necho \"starts $it\""), target.path());
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "", "{build}");
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "cargo failed\n", "{build}");
        assert!(!ran.status.success(), "{build}");
    }
}
