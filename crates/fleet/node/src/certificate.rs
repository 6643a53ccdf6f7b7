//! The certificate that this box presents to viewers: its key and the request are made here, and the certificate that an authority has
//! issued comes from a gateway.
//!
//! Invariants: the key stays in its file, which only the box's user can read. The server always finds a matching pair: until a chain has
//! arrived, a self-signed certificate.

use std::io;
use std::path::{Path, PathBuf};

use fleet_protocol::Digest;
use identity::{ViewerKey, check_viewer_chain};

use crate::joining::now_unix_millis;
use crate::persistence;

const KEY: &str = "viewer.key";
const CHAIN: &str = "viewer.pem";

/// Flags with which an operator configures the server's certificate, or turns TLS off.
const OWN: [&str; 4] = ["--cert", "--key", "--config", "--tls"];

/// The certificate that this box presents to viewers.
#[derive(Clone, Debug)]
pub(crate) struct ViewerCertificate {
    host: String,
    key: Digest,
    request: String,
    place: PathBuf,
}

impl ViewerCertificate {
    /// Opens the certificate of a box with the host `host` in its addresses, and with its files in `state`. `None` if the server's flags
    /// configure one.
    ///
    /// # Errors
    /// If the files cannot be used.
    pub(crate) fn open(state: &Path, host: &str, flags: &[String]) -> io::Result<Option<Self>> {
        let names = |flag: &str| {
            let with_value = format!("{flag}=");
            flags.iter().any(|one| one == flag || one.starts_with(&with_value))
        };
        if OWN.into_iter().any(names) {
            return Ok(None);
        }
        let key = ViewerKey::at(&state.join(KEY))?;
        let own = Self {
            host: host.to_owned(),
            key: key.digest(),
            request: key.request(host)?,
            place: state.join(CHAIN),
        };
        if own.chain()?.is_none() {
            persistence::write(&own.place, key.self_signed(host)?.as_bytes())?;
        }
        Ok(Some(own))
    }

    /// The files for the server: the chain and its key.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        [self.place.clone(), self.place.with_file_name(KEY)]
    }

    /// The certificate request, in PEM.
    pub(crate) fn request(&self) -> &str {
        &self.request
    }

    /// The server's current chain, if it belongs to this key.
    fn chain(&self) -> io::Result<Option<String>> {
        let Some(bytes) = persistence::read(&self.place)? else { return Ok(None) };
        let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
        // An expired one is still the best there is.
        let is_ours = match check_viewer_chain(&text, &self.host, &self.key, now_unix_seconds()) {
            Ok(_) => true,
            Err(why) => why.is_of_time(),
        };
        Ok(is_ours.then_some(text))
    }

    /// The digest of that chain.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.chain().ok().flatten().map(|chain| Digest::of(chain.as_bytes()))
    }

    /// Takes an issued chain. The server loads it by itself within seconds.
    ///
    /// # Errors
    /// Why it is refused. The current one stays.
    pub(crate) fn take(&self, chain: &str) -> Result<(), String> {
        let ends = check_viewer_chain(chain, &self.host, &self.key, now_unix_seconds());
        let ends = ends.map_err(|why| format!("the certificate for viewers is refused: {why}"))?;
        persistence::write(&self.place, chain.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", self.place.display()))?;
        let days = ends.saturating_sub(now_unix_seconds()) / 86_400;
        crate::tell(&format!("viewers see a new certificate for {}: {days} days", self.host));
        Ok(())
    }
}

fn now_unix_seconds() -> u64 {
    u64::try_from(now_unix_millis() / 1000).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_certificate_of_its_own_gets_a_pair_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        for flags in
            [&["--tls", "off"][..], &["--cert=a.pem", "--key", "a.key"], &["--config", "c"]]
        {
            let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            assert!(
                ViewerCertificate::open(folder.path(), "n1.example", &flags).unwrap().is_none()
            );
        }
        let open = |host: &str| ViewerCertificate::open(folder.path(), host, &[]).unwrap().unwrap();
        let first = open("n1.example");
        let made = first.digest().expect("a certificate from the first moment");
        assert_eq!(open("n1.example").digest(), Some(made));
        assert!(first.files().iter().all(|file| file.exists()));
        // A new host name needs a new certificate; the key stays.
        let renamed = open("n2.example");
        assert_eq!(renamed.key, first.key);
        assert_ne!(renamed.digest(), Some(made));
    }

    #[test]
    fn what_is_not_of_this_key_changes_nothing() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open =
            |folder: &Path| ViewerCertificate::open(folder, "n1.example", &[]).unwrap().unwrap();
        let (own, other) = (open(here.path()), open(there.path()));
        let before = own.digest();
        let theirs = other.chain().unwrap().unwrap();
        assert!(own.take(&theirs).unwrap_err().contains("not of the node's key"));
        assert!(own.take("").is_err());
        assert_eq!(own.digest(), before);
        let again =
            ViewerKey::at(&here.path().join(KEY)).unwrap().self_signed("n1.example").unwrap();
        own.take(&again).unwrap();
        assert_ne!(own.digest(), before);
    }
}
