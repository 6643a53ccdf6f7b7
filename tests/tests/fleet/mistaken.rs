//! What operators get who are mistaken: one sentence that says what to do, and an exit code that is not 0.

use fullbore_tests::{program, tool};

/// A backup of a folder that is not there made it, and so did a restore of a file that is not there.
#[test]
fn what_is_mistyped_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for (words, code, said) in [
        (
            "control backup FOLDER/b --state FOLDER/none",
            2,
            "there is no store in FOLDER/none/store",
        ),
        ("control restore FOLDER/b --state FOLDER/none", 1, "cannot read FOLDER/b"),
    ] {
        let own = folder.path().to_str().unwrap();
        let (words, said) = (words.replace("FOLDER", own), said.replace("FOLDER", own));
        let mut command = tool::command(program().to_str().unwrap());
        let ran = tool::run(command.args(words.split(' ')));
        assert!(ran.code == Some(code) && ran.stderr.contains(&said), "{words}: {}", ran.stderr);
        assert_eq!(std::fs::read_dir(own).unwrap().count(), 0, "{words} made something");
    }
}
