//! A library of several folders: each name belongs entirely to one of them.

use fullbore_disk::{Files, Names, OpenError};
use reactor::{Reactor, RingOptions};
use std::fs;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use tempfile::{TempDir, tempdir};

fn on_a_reactor(test: impl Future<Output = ()> + 'static) {
    Reactor::new(RingOptions::default()).unwrap().run(test).unwrap();
}

/// Two folders; both have the title `both`, each with a file that the other does not have.
fn two_folders() -> [TempDir; 2] {
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    for (number, folder) in folders.iter().enumerate() {
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("both")).unwrap();
        fs::write(path("both/master.m3u8"), number.to_string()).unwrap();
        fs::write(path(&format!("both/{number}.ts")), "x").unwrap();
        fs::write(path(&format!("film-{number}.mp4")), "x").unwrap();
    }
    folders
}

fn root(folder: &TempDir) -> Option<OwnedFd> {
    Some(fs::File::open(folder.path()).unwrap().into())
}

fn names(names: &[(&str, u16)]) -> Arc<Names> {
    Arc::new(names.iter().map(|(name, folder)| (Arc::from(name.as_bytes()), *folder)).collect())
}

#[test]
fn a_name_is_looked_up_in_its_own_folder_and_no_other() {
    on_a_reactor(async {
        let folders = two_folders();
        let roots = folders.iter().map(root).collect();
        let known = names(&[("both", 1), ("film-0.mp4", 0), ("film-1.mp4", 1)]);
        let files = Files::of_folders(roots, Some(known), 10);
        for (path, folder) in [("film-0.mp4", 0), ("film-1.mp4", 1), ("both/1.ts", 1)] {
            assert_eq!(files.open(path.as_bytes()).await.unwrap().folder(), folder, "{path}");
        }
        assert_eq!(files.open(b"both/0.ts").await.err(), Some(OpenError::NotFound));

        files.renew_names(names(&[("both", 0)]));
        assert_eq!(files.open(b"both/0.ts").await.unwrap().folder(), 0);
        assert_eq!(files.open(b"film").await.err(), Some(OpenError::NotFound));
    });
}

#[test]
fn a_remembered_file_is_not_served_after_another_folder_holds_its_name() {
    on_a_reactor(async {
        let folders = two_folders();
        // One file below both folders.
        let path = |number: usize| folders[number].path().join("both/linked.ts");
        fs::write(path(0), "x").unwrap();
        fs::hard_link(path(0), path(1)).unwrap();
        let roots = folders.iter().map(root).collect();
        let files = Files::of_folders(roots, Some(names(&[("both", 0)])), 10);
        let paths = [&b"both/master.m3u8"[..], b"both/linked.ts"];
        for path in paths {
            assert_eq!(files.open(path).await.unwrap().folder(), 0);
        }
        files.renew_names(names(&[("both", 1)]));
        for path in paths {
            let file = files.open(path).await.unwrap();
            assert_eq!(file.folder(), 1);
            assert!(std::rc::Rc::ptr_eq(&file, &files.open(path).await.unwrap()));
        }
        files.renew_names(names(&[]));
        assert_eq!(files.open(paths[0]).await.err(), Some(OpenError::NotFound));
    });
}

#[test]
fn what_no_folder_holds_by_name_is_not_looked_up() {
    on_a_reactor(async {
        let folders = two_folders();
        let roots = folders.iter().map(root).collect();
        let files = Files::of_folders(roots, Some(names(&[])), 10);
        assert_eq!(files.open(b"film-0.mp4").await.err(), Some(OpenError::NotFound));
    });
}

#[test]
fn a_missing_folder_keeps_its_place() {
    on_a_reactor(async {
        let folders = two_folders();
        let roots = vec![None, root(&folders[1])];
        let known = names(&[("film-0.mp4", 0), ("film-1.mp4", 1), ("beyond", 2)]);
        let files = Files::of_folders(roots, Some(known), 10);
        assert_eq!(files.open(b"film-1.mp4").await.unwrap().folder(), 1);
        for path in [&b"film-0.mp4"[..], b"beyond"] {
            assert_eq!(files.open(path).await.err(), Some(OpenError::NotFound));
        }
    });
}

#[test]
fn a_link_does_not_lead_from_one_folder_into_the_other() {
    on_a_reactor(async {
        let folders = two_folders();
        symlink(folders[0].path().join("both"), folders[1].path().join("link")).unwrap();
        let roots = folders.iter().map(root).collect();
        let files = Files::of_folders(roots, Some(names(&[("link", 1)])), 10);
        assert_eq!(files.open(b"link/0.ts").await.err(), Some(OpenError::NotFound));
    });
}
