//! The data that a box has from gateways, saved on its disk: the newest snapshot of the fleet, public keys, titles' small documents.
//!
//! A snapshot is accepted only with the fleet's signature, and if its epoch does not fall: a lower one was made before a backup was
//! restored. From the same gateway, a snapshot must be newer than the last one. Between gateways, the last to arrive is used: their clocks
//! may differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fleet_protocol::{
    Digest, FleetSnapshot, Name, PublicKey, PublishedTitle, Signed, TitleDocument,
};
use steering::Fleet;

use crate::holding::lock;
use crate::persistence;

/// An Ed25519 signature (RFC 8032, section 5.1.6).
const SIGNATURE_BYTES: usize = 64;
/// A manifest of a film in ten sizes and ten languages has 100 KB. Longer documents are not saved.
const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// The most documents to request at a time.
const MISSING_MAX: usize = 16;

/// The last snapshot of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    epoch: u64,
    number: u64,
    made_unix_millis: u64,
}

/// The data from gateways.
pub(crate) struct GatewayState {
    state: PathBuf,
    keys: Mutex<Vec<PublicKey>>,
    fleet: Mutex<Option<Arc<Fleet>>>,
    last: Mutex<BTreeMap<Name, Last>>,
    /// Held while documents are written or removed: the removal would otherwise delete a document that is just being written, because it
    /// does not know its name.
    documents: Mutex<()>,
}

impl GatewayState {
    /// Loads the data that an earlier run has saved in the folder `state`. `keys` are the fleet's: a signature by any of them is valid.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub(crate) fn open(state: &Path, keys: Vec<PublicKey>) -> io::Result<Self> {
        persistence::make_folder(&state.join(DOCUMENTS))?;
        let (fleet, last, documents) = Default::default();
        let gateways =
            Self { state: state.to_owned(), keys: Mutex::new(keys), fleet, last, documents };
        if let Some(bytes) = persistence::read(&state.join(SNAPSHOT))? {
            let signature = bytes.get(..SIGNATURE_BYTES).unwrap_or_default().to_vec();
            let bytes = bytes.get(SIGNATURE_BYTES..).unwrap_or_default().to_vec();
            if let Err(why) = gateways.take(&Signed { bytes, signature }) {
                crate::tell(&format!("the snapshot on this disk is not used: {why}"));
            }
        }
        Ok(gateways)
    }

    /// The newest snapshot, indexed.
    pub(crate) fn fleet(&self) -> Option<Arc<Fleet>> {
        lock(&self.fleet).clone()
    }

    /// Sets the fleet's keys.
    pub(crate) fn handle_keys(&self, snapshots: Vec<PublicKey>) {
        *lock(&self.keys) = snapshots;
    }

    /// Accepts a snapshot, saves it, and returns the number of its nodes.
    ///
    /// # Errors
    /// Why it is refused. The current one stays.
    pub(crate) fn handle_snapshot(&self, signed: &Signed) -> Result<usize, String> {
        let nodes = self.take(signed)?;
        let place = self.state.join(SNAPSHOT);
        let bytes = [signed.signature.as_slice(), &signed.bytes].concat();
        persistence::write(&place, &bytes)
            .map_err(|error| format!("cannot write {}: {error}", place.display()))?;
        self.forget_documents();
        Ok(nodes)
    }

    /// Accepts a snapshot, and returns the number of its nodes.
    fn take(&self, signed: &Signed) -> Result<usize, String> {
        let keys = lock(&self.keys).clone();
        let opened = keys.iter().find_map(|key| key.open(FleetSnapshot::CONTEXT, signed).ok());
        let bytes = opened.ok_or("the fleet has not signed it")?;
        let snapshot = FleetSnapshot::from_bytes(bytes).map_err(|error| error.to_string())?;
        let (gateway, nodes) = (snapshot.gateway.clone(), snapshot.nodes.len());
        let one = Last {
            epoch: snapshot.epoch,
            number: snapshot.number,
            made_unix_millis: snapshot.made_unix_millis,
        };
        let mut last = lock(&self.last);
        let epoch = last.values().map(|last| last.epoch).max().unwrap_or(0);
        if one.epoch < epoch {
            return Err(format!("its epoch is {}, but {epoch} has begun", one.epoch));
        }
        // The same one again: it was fetched before a heartbeat reported that it is there.
        if last.get(&gateway) == Some(&one) {
            return Ok(nodes);
        }
        let is_newer = |before: &Last| {
            one.epoch > before.epoch
                || one.number > before.number
                || one.made_unix_millis > before.made_unix_millis
        };
        if !last.get(&gateway).is_none_or(is_newer) {
            return Err(format!("{gateway} has made a newer one"));
        }
        // Nodes mark no other node as full: the gateway has done that.
        let fleet = Fleet::new(snapshot, None).map_err(|error| error.to_string())?;
        last.insert(gateway, one);
        *lock(&self.fleet) = Some(Arc::new(fleet));
        Ok(nodes)
    }

    /// A document of a title of the snapshot: the saved copy, or the one in the library, if `folder_of` returns the title's folder.
    pub(crate) fn document(
        &self,
        sha256: &Digest,
        folder_of: impl Fn(&PublishedTitle) -> Option<PathBuf>,
    ) -> Option<Vec<u8>> {
        let is_it = |bytes: &Vec<u8>| Digest::of(bytes) == *sha256;
        if let Some(bytes) = persistence::read(&self.place(sha256)).ok().flatten().filter(is_it) {
            return Some(bytes);
        }
        let fleet = self.fleet()?;
        let of = |title: &PublishedTitle| documents(title).iter().any(|one| one.sha256 == *sha256);
        let title = fleet.snapshot().titles.iter().find(|title| of(title))?;
        let document = documents(title).into_iter().find(|one| one.sha256 == *sha256)?;
        let place = folder_of(title)?.join(&document.path);
        persistence::read(&place).ok().flatten().filter(is_it)
    }

    /// The missing documents of titles that this box does not hold.
    pub(crate) fn missing_documents(&self, holds: impl Fn(&PublishedTitle) -> bool) -> Vec<Digest> {
        let Some(fleet) = self.fleet() else { return Vec::new() };
        let titles = fleet.snapshot().titles.iter().filter(|title| !holds(title));
        let digests = titles.flat_map(|title| documents(title).map(|one| one.sha256));
        digests.filter(|digest| !self.place(digest).exists()).take(MISSING_MAX).collect()
    }

    /// Saves a document, if the snapshot lists its digest.
    pub(crate) fn handle_document(&self, bytes: &[u8]) {
        let digest = Digest::of(bytes);
        if bytes.len() > DOCUMENT_BYTES_MAX || !self.known_documents().contains(&digest) {
            return;
        }
        let place = self.place(&digest);
        let _alone = lock(&self.documents);
        if let Err(error) = persistence::write(&place, bytes) {
            crate::tell(&format!("cannot write {}: {error}", place.display()));
        }
    }

    /// Removes documents of titles that are no longer published.
    fn forget_documents(&self) {
        let _alone = lock(&self.documents);
        let known = self.known_documents();
        for entry in fs::read_dir(self.state.join(DOCUMENTS)).into_iter().flatten().flatten() {
            let digest = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if !digest.is_some_and(|digest| known.contains(&digest)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn known_documents(&self) -> BTreeSet<Digest> {
        let Some(fleet) = self.fleet() else { return BTreeSet::new() };
        let titles = fleet.snapshot().titles.iter();
        titles.flat_map(|title| documents(title).map(|one| one.sha256)).collect()
    }

    fn place(&self, digest: &Digest) -> PathBuf {
        self.state.join(DOCUMENTS).join(digest.to_string())
    }
}

const SNAPSHOT: &str = "snapshot.signed";
const DOCUMENTS: &str = "documents";

/// The documents that answers to viewers are made of.
fn documents(title: &PublishedTitle) -> [&TitleDocument; 3] {
    [&title.record, &title.hls, &title.dash]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_protocol::{SigningKey, SteeringPolicy};

    fn snapshot(gateway: &str, epoch: u64, number: u64) -> FleetSnapshot {
        FleetSnapshot {
            version: 1,
            epoch,
            gateway: gateway.parse().unwrap(),
            number,
            made_unix_millis: number * 1000,
            policy: SteeringPolicy::default(),
            sites: Vec::new(),
            nodes: Vec::new(),
            titles: Vec::new(),
        }
    }

    fn number(gateways: &GatewayState) -> u64 {
        gateways.fleet().unwrap().snapshot().number
    }

    /// Two gateways send snapshots at the same time.
    #[test]
    fn a_document_that_is_being_written_is_not_taken_away() {
        let state = tempfile::tempdir().unwrap();
        let (key, _) = SigningKey::draw().unwrap();
        let gateways = GatewayState::open(state.path(), vec![key.public()]).unwrap();
        let bytes = b"a document";
        let document = |path: &str| TitleDocument { path: path.into(), sha256: Digest::of(bytes) };
        let title = PublishedTitle {
            path: "film".to_owned(),
            version: Digest::of(b"film"),
            bytes: 1,
            duration_seconds: 1.0,
            record: document("title.json"),
            hls: document("master.m3u8"),
            dash: document("manifest.mpd"),
            origin: "https://origin.example/".to_owned(),
            published_unix_seconds: 1,
        };
        let one = FleetSnapshot { titles: vec![title], ..snapshot("g1", 1, 1) };
        gateways.handle_snapshot(&key.sign(FleetSnapshot::CONTEXT, one.to_bytes())).unwrap();
        let place = gateways.place(&Digest::of(bytes));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..200 {
                    gateways.handle_document(bytes);
                    fs::remove_file(&place).expect("it was written");
                }
            });
            while !writer.is_finished() {
                gateways.forget_documents();
            }
        });
    }

    #[test]
    fn only_what_the_fleet_signed_counts_and_its_epoch_never_falls() {
        let state = tempfile::tempdir().unwrap();
        let (key, _) = SigningKey::draw().unwrap();
        let (stranger, _) = SigningKey::draw().unwrap();
        let gateways = GatewayState::open(state.path(), vec![key.public()]).unwrap();
        assert!(gateways.fleet().is_none());
        let sign =
            |key: &SigningKey, one: FleetSnapshot| key.sign(FleetSnapshot::CONTEXT, one.to_bytes());
        gateways.handle_snapshot(&sign(&key, snapshot("g1", 2, 7))).unwrap();
        assert!(gateways.handle_snapshot(&sign(&stranger, snapshot("g1", 9, 99))).is_err());
        assert!(
            gateways.handle_snapshot(&sign(&key, snapshot("g1", 2, 6))).is_err(),
            "it is older"
        );
        assert!(
            gateways.handle_snapshot(&sign(&key, snapshot("g2", 1, 99))).is_err(),
            "another epoch"
        );
        assert_eq!(number(&gateways), 7);
        gateways.handle_snapshot(&sign(&key, snapshot("g2", 2, 1))).unwrap();
        assert_eq!(number(&gateways), 1, "the one that came last");
        gateways.handle_snapshot(&sign(&key, snapshot("g1", 3, 1))).unwrap();
        assert!(gateways.handle_snapshot(&sign(&key, snapshot("g2", 2, 5))).is_err());
        drop(gateways);
        let again =
            GatewayState::open(state.path(), vec![stranger.public(), key.public()]).unwrap();
        assert_eq!(number(&again), 1);
        assert!(again.handle_snapshot(&sign(&key, snapshot("g2", 2, 9))).is_err(), "even then");
        drop(again);
        // An attacker with access to the disk cannot sign.
        let place = state.path().join(SNAPSHOT);
        let mut bytes = fs::read(&place).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&place, bytes).unwrap();
        assert!(GatewayState::open(state.path(), vec![key.public()]).unwrap().fleet().is_none());
    }
}
