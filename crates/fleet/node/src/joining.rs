//! Joining a fleet, and the state that a box keeps about it afterwards: `node.json` in its state directory.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet_protocol::{
    GATEWAYS_MAX, JoinAnswer, JoinRequest, Keys, Name, NodeKind, NodePlace, check_gateways,
};
use identity::{Credentials, CredentialsError, InvitationToken};
use serde::{Deserialize, Serialize};

pub use crate::beating::clock_words;
use crate::gateway::{Gateway, Trouble};

const FILE: &str = "node.json";

/// Keys are 64 KiB at most.
const FILE_BYTES_MAX: u32 = 256 * 1024;

/// A larger clock difference is reported.
pub(crate) const CLOCK_MILLIS_MAX: i64 = 1000;

/// The state that a box keeps about its fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The version of this format: 1.
    pub version: u32,
    /// Its name.
    pub node: Name,
    /// Its place in the fleet.
    pub place: NodePlace,
    /// The kind of node that the fleet takes it for.
    pub kind: NodeKind,
    /// The host of the addresses that viewers get.
    pub host: String,
    /// The most that it may send; 0 if unknown.
    pub ceiling_bits_per_second: u64,
    /// The state common to all nodes: keys, and the gateways' addresses.
    pub keys: Keys,
    /// The gateways that have answered: [`GATEWAYS_MAX`] at most. Those no longer on the fleet's list are asked until one on the list has
    /// answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
}

/// The operator's choices for a box.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its name.
    pub node: Name,
    /// The host of the addresses that viewers get.
    pub host: String,
    /// The most that it may send; 0 if unknown.
    pub ceiling_bits_per_second: u64,
}

/// A box that has just joined.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Its state now.
    pub membership: Membership,
    /// The box's clock minus the gateway's, if the difference is large enough to report.
    pub clock_ahead_millis: Option<i64>,
}

/// Why a box has not joined.
#[derive(Debug, thiserror::Error)]
pub enum JoiningError {
    /// The state directory already belongs to a node.
    #[error("{0} is the state of {1}, which has joined: choose another directory with --state")]
    Already(PathBuf, Name),
    /// The state directory cannot be used.
    #[error("the state directory: {0}")]
    State(CredentialsError),
    /// `node.json` cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// No gateway admitted it. The text lists each with its reason.
    #[error("cannot join: {0}")]
    Gateways(String),
    /// A gateway's answer is invalid.
    #[error("the gateway's answer cannot be used: {0}")]
    Answer(String),
}

impl From<CredentialsError> for JoiningError {
    fn from(error: CredentialsError) -> Self {
        Self::State(error)
    }
}

impl Membership {
    /// Reads the file that [`join`] left in `state`; `None` if the box has not joined.
    ///
    /// # Errors
    /// If the file exists and cannot be used.
    pub fn read(state: &Path) -> Result<Option<Self>, JoiningError> {
        let path = state.join(FILE);
        let text = match files::read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JoiningError::File(path, error)),
        };
        let damaged = |why: String| JoiningError::File(path.clone(), std::io::Error::other(why));
        let mut own: Self =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        own.keys.check().map_err(|why| damaged(why.to_string()))?;
        own.answered.retain(|address| check_gateways(std::slice::from_ref(address)).is_ok());
        own.answered.truncate(GATEWAYS_MAX);
        Ok(Some(own))
    }

    /// Saves it in `state`, replacing the whole file.
    ///
    /// # Errors
    /// If it cannot be written.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn keep(&self, state: &Path) -> Result<(), JoiningError> {
        let text = serde_json::to_vec_pretty(self).expect("it is plain JSON");
        let path = state.join(FILE);
        let written = files::replace(&path, &text, 0o644);
        written.map_err(|error| JoiningError::File(path, error))
    }

    /// The gateways to ask. A list from a gateway may be wrong: until one on it has answered, those that answered before are asked, too.
    pub(crate) fn gateways(&self) -> Vec<String> {
        self.keys.gateways.iter().chain(self.former_gateways()).cloned().collect()
    }

    /// Those of them that are no longer on the fleet's list.
    pub(crate) fn former_gateways(&self) -> impl Iterator<Item = &String> {
        self.answered.iter().filter(|address| !self.keys.gateways.contains(address))
    }

    /// Notes that a gateway answered. If it is on the fleet's list, that list is right, and gateways that are not on it are forgotten: an
    /// operator may have removed them. Returns whether anything changed.
    pub(crate) fn note_answer(&mut self, address: &str) -> bool {
        let told = &self.keys.gateways;
        if !told.iter().any(|one| one == address) {
            return false;
        }
        let count = self.answered.len();
        self.answered.retain(|one| told.contains(one));
        if self.answered.iter().any(|one| one == address) {
            return self.answered.len() != count;
        }
        self.answered.push(address.to_owned());
        true
    }
}

/// Joins the fleet of `token` through the first of `gateways` that answers, and leaves a key, a certificate and `node.json` in `state`.
///
/// # Errors
/// Why the box has not joined, for its operator. Joining can be retried: the key stays the same, so an answer that was lost is given again.
pub async fn join(
    gateways: &[String],
    token: &InvitationToken,
    wish: Wish,
    state: &Path,
) -> Result<Joined, JoiningError> {
    if let Some(own) = Membership::read(state)? {
        return Err(JoiningError::Already(state.to_owned(), own.node));
    }
    let key = Credentials::key_for_joining(state)?;
    let request = JoinRequest {
        version: 1,
        token: token.to_string(),
        node: wish.node.clone(),
        host: wish.host.clone(),
        ceiling_bits_per_second: wish.ceiling_bits_per_second,
        request: key.request(&wish.node),
    };
    request.check().map_err(|why| JoiningError::Answer(why.to_string()))?;
    let (address, answer, now) = ask(gateways, token, &request).await?;
    answer.check().map_err(|why| JoiningError::Answer(why.to_string()))?;
    let credentials = Credentials::new(key, answer.certificate, answer.authority)?;
    if credentials.fingerprint() != token.fingerprint() {
        return Err(JoiningError::Answer("it is from a fleet other than the invitation's".into()));
    }
    if credentials.certificate().node != wish.node || answer.node != wish.node {
        return Err(JoiningError::Answer("it is for another name".into()));
    }
    credentials.keep(state)?;
    let membership = Membership {
        version: 1,
        node: wish.node,
        place: answer.place,
        kind: answer.kind,
        host: wish.host,
        ceiling_bits_per_second: wish.ceiling_bits_per_second,
        keys: answer.keys,
        answered: vec![address.trim_end_matches('/').to_owned()],
    };
    // Last: once this file exists, the box has joined.
    membership.keep(state)?;
    let ahead = now - i64::try_from(answer.now_unix_millis).unwrap_or(i64::MAX);
    let clock_ahead_millis = (ahead.abs() > CLOCK_MILLIS_MAX).then_some(ahead);
    Ok(Joined { membership, clock_ahead_millis })
}

/// The address of the first gateway that answered, its answer, and our time of arrival.
async fn ask(
    gateways: &[String],
    token: &InvitationToken,
    request: &JoinRequest,
) -> Result<(String, JoinAnswer, i64), JoiningError> {
    let mut troubles = Vec::new();
    for address in gateways {
        let asked = async {
            let gateway = Gateway::for_joining(token.fingerprint())?;
            gateway.post(address, "join", request, Duration::from_secs(20)).await
        };
        match asked.await {
            Ok(answer) => return Ok((address.clone(), answer, now_unix_millis())),
            Err(Trouble::Refused { reason, text }) => {
                troubles.push(format!("{address}: {text}"));
                // Another gateway of the same fleet would give the same answer.
                if !matches!(reason.as_str(), "unavailable" | "flood") {
                    break;
                }
            }
            Err(trouble) => troubles.push(format!("{address}: {trouble}")),
        }
    }
    Err(JoiningError::Gateways(troubles.join("; ")))
}

/// A clock before 1970 counts as 1970.
pub(crate) fn now_unix_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "https://gw.example:8702";
    const WRONG: &str = "https://gw-typo.invalid:8702";
    const OTHER: &str = "https://gw2.example:8702";

    /// A node with these gateways on its list, and answers from those.
    fn told(gateways: &[&str], answered: &[&str]) -> Membership {
        let owned = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let name = |text: &str| text.parse::<Name>().expect("a name");
        Membership {
            version: 1,
            node: name("n1"),
            place: NodePlace { site: name("paris"), cluster: name("paris-1"), rack: None },
            kind: NodeKind::Storage,
            host: "n1.example".to_owned(),
            ceiling_bits_per_second: 0,
            keys: Keys { version: 1, gateways: owned(gateways), ..Keys::default() },
            answered: owned(answered),
        }
    }

    #[test]
    fn a_gateway_that_answered_is_asked_until_one_of_a_new_list_answers() {
        let mut own = told(&[RIGHT], &[]);
        assert!(own.note_answer(RIGHT));
        assert!(!own.note_answer(RIGHT), "known already");
        own.keys.gateways = vec![WRONG.to_owned()];
        assert_eq!(own.gateways(), [WRONG, RIGHT]);
        assert!(!own.note_answer(RIGHT), "it says nothing about the new list");
        assert_eq!(own.gateways(), [WRONG, RIGHT]);
        own.keys.gateways = vec![RIGHT.to_owned()];
        assert_eq!(own.gateways(), [RIGHT]);
    }

    #[test]
    fn a_gateway_that_was_removed_is_forgotten_once_another_one_answers() {
        let mut own = told(&[RIGHT, OTHER], &[RIGHT, OTHER]);
        own.keys.gateways = vec![OTHER.to_owned()];
        assert!(own.note_answer(OTHER));
        assert_eq!(
            (own.gateways(), own.answered),
            (vec![OTHER.to_owned()], vec![OTHER.to_owned()])
        );
    }

    #[test]
    fn addresses_that_answered_are_kept_and_bounded_and_older_files_have_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || Membership::read(folder.path()).expect("read").expect("a node");
        let own = told(&[WRONG], &[RIGHT]);
        own.keep(folder.path()).expect("kept");
        assert_eq!(read(), own);
        let old = told(&[RIGHT], &[]);
        old.keep(folder.path()).expect("kept");
        let text = std::fs::read_to_string(folder.path().join(FILE)).expect("read");
        assert!(!text.contains("answered"), "{text}");
        assert_eq!(read(), old);
        let many = [RIGHT, "http://plain.example", RIGHT, RIGHT, RIGHT, RIGHT, RIGHT];
        told(&[WRONG], &many).keep(folder.path()).expect("kept");
        assert_eq!(read().answered, [RIGHT; GATEWAYS_MAX]);
    }
}
