//! Disks that fail or vanish under a box: it keeps the titles on the others, and fetches the lost ones again, without an operator.

mod folders;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use fleet_protocol::{Desired, PublishedTitle};
use folders::{Box, Folders, film};
use fullbore_node::{Agent, AgentOptions, HoldingOptions};
use fullbore_tests::{FailingDisk, Plain, SmallDisk, eventually, tool, until};

/// A box with two disks and two titles, one on each.
struct Two {
    folders: Folders,
    titles: [PublishedTitle; 2],
}

impl Two {
    fn new() -> Self {
        let folders = Folders::default();
        let titles = [folders.publish("one", &film(1)), folders.publish("two", &film(2))];
        let own = Self { folders, titles };
        for (disk, name) in own.disks().iter().zip(["one", "two"]) {
            // A title goes to the disk that already has its top-level name.
            fs::create_dir_all(disk.join(format!(".ingest-{name}"))).unwrap();
        }
        own
    }

    fn disks(&self) -> [PathBuf; 2] {
        ["first", "second"].map(|name| self.folders.root().join(name))
    }

    fn options(&self) -> HoldingOptions {
        HoldingOptions { libraries: self.disks().to_vec(), ..self.folders.options() }
    }

    fn start(&self) -> Box {
        let one = self.folders.open_with(self.options()).start();
        one.desire(&[&self.titles[0], &self.titles[1]], &[]);
        until("the titles to arrive", || self.titles.iter().all(|title| one.holds(title)));
        for (disk, name) in self.disks().iter().zip(["one", "two"]) {
            assert!(disk.join(name).join("title.json").exists(), "{name}");
        }
        one
    }

    /// The first disk is lost, and its title is now on the other one.
    fn comes_again(&self, one: &Box) {
        let [first, second] = self.disks();
        until("the disk to be taken for lost", || {
            one.replicator.status().lost_folders.contains_key(&first)
        });
        assert!(one.holds(&self.titles[1]), "the other disk is well");
        until("its title to come again", || one.holds(&self.titles[0]));
        let record = catalog::Record::read(&second.join("one")).unwrap();
        let came = fs::read(second.join("one").join(&record.folder).join(fullbore_tests::FILM));
        assert!(came.unwrap() == film(1));
        assert_eq!(one.replicator.status().lost_folders.len(), 1);
        assert!(one.replicator.status().missing.is_empty());
    }
}

#[test]
fn titles_of_a_folder_that_vanishes_come_again_to_the_other_and_nothing_is_put_in_its_place() {
    let two = Two::new();
    let [first, _] = two.disks();
    let one = two.start();
    // A mount point without its disk.
    fs::rename(&first, two.folders.root().join("away")).unwrap();
    fs::create_dir(&first).unwrap();
    two.comes_again(&one);
    assert_eq!(fs::read_dir(&first).unwrap().count(), 0);
}

#[test]
fn titles_of_a_disk_that_fails_come_again_to_the_other() {
    let two = Two::new();
    let [first, _] = two.disks();
    fs::remove_dir_all(&first).unwrap();
    fs::create_dir(&first).unwrap();
    let disk = match FailingDisk::mount(&first) {
        Ok(disk) => disk,
        Err(why) => return tool::skip(&why),
    };
    fs::create_dir(first.join(".ingest-one")).unwrap();
    let one = two.start();
    disk.fail();
    two.comes_again(&one);
    drop(one);
    // The agent starts without it, too, and the other disk is unchanged.
    let again = two.folders.open_with(two.options());
    assert!(again.replicator.status().lost_folders.contains_key(&first));
    assert!(again.holds(&two.titles[0]) && again.holds(&two.titles[1]));
}

/// A filesystem that has seen an error refuses all further writes.
#[test]
fn a_disk_that_cannot_be_written_to_is_lost_with_what_is_on_it() {
    let folders = Folders::default();
    let Some(_disk) = SmallDisk::mount(&folders.library(), 40 << 10) else { return };
    let (title, later) = (folders.publish("film", &film(3)), folders.publish("later", &film(4)));
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    let mut mount = std::process::Command::new("mount");
    mount.args(["-o", "remount,ro"]).arg(folders.library());
    assert!(mount.status().unwrap().success());
    one.desire(&[&title, &later], &[]);
    until("the disk to be taken for lost", || !one.replicator.status().lost_folders.is_empty());
    assert!(one.replicator.inventory().held.is_empty(), "what cannot be withdrawn is not held");
    until("the trouble to be told", || {
        one.trouble("later").is_some_and(|why| why.contains("no folder of the library"))
    });
    assert_eq!(one.replicator.free_bytes(), 0);
}

#[test]
fn a_server_serves_again_what_came_again_after_its_disk_was_lost() {
    let two = Two::new();
    let [first, second] = two.disks();
    let flags = "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --tls off --workers 1";
    let HoldingOptions {
        node,
        state,
        libraries,
        copy_bytes_per_second,
        windows,
        fill_bytes_max,
        ..
    } = two.options();
    let agent = Agent::start(AgentOptions {
        node,
        state,
        libraries,
        copy_bytes_per_second,
        windows,
        fill_bytes_max,
        fill_wait: std::time::Duration::ZERO,
        scrub: std::time::Duration::from_secs(3600),
        evict_after: std::time::Duration::ZERO,
        report: std::time::Duration::from_secs(60),
        ceiling_bits_per_second: 0,
        snapshot_keys: Vec::new(),
        viewer_keys: String::new(),
        origins: Vec::new(),
        trust: tls::client::Trust::System,
        host: "127.0.0.1".to_owned(),
        edge: None,
        program: fullbore_tests::program().to_owned(),
        serve_flags: flags.split(' ').map(str::to_owned).collect(),
    });
    let agent = Running(agent.unwrap());
    let desired =
        Desired { epoch: 1, revision: 1, titles: two.titles.to_vec(), ..Desired::default() };
    agent.0.replicator().handle_desired(desired).unwrap();
    until("the titles to arrive", || agent.0.replicator().inventory().held.len() == 2);
    // Do not wait until it wants viewers: a server that started while its folders were empty reports disk errors for a minute.
    until("the server to be ready", || agent.0.found().url.is_some());
    let old = agent.0.found().url;
    fs::rename(&first, two.folders.root().join("away")).unwrap();
    let is_again = || second.join("one").join("title.json").exists();
    until("the title to come again", is_again);
    let record = catalog::Record::read(&second.join("one")).unwrap();
    let path = format!("/one/{}/{}", record.folder, fullbore_tests::FILM);
    eventually("another server to serve it", || {
        let url = agent.0.found().url.filter(|url| Some(url) != old.as_ref())?;
        let address = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        let response = Plain::connect(address).fetch(&path);
        (response.status == 200 && response.body == film(1)).then_some(())
    });
}

/// Stops at the end of the test, together with its server.
struct Running(Arc<Agent>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}
