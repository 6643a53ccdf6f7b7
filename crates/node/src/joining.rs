//! Joining a fleet, and what a box knows of it afterwards: `node.json` in its state directory.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleet::{JoinAnswer, JoinRequest, Keys, Name, NodeKind, NodePlace};
use identity::{Credentials, CredentialsError, InvitationToken};
use serde::{Deserialize, Serialize};

pub use crate::beating::clock_words;
use crate::gateway::{Gateway, Trouble};

const FILE: &str = "node.json";

/// Keys are 64 KiB at most.
const FILE_BYTES_MAX: u32 = 256 * 1024;

/// A clock that differs by more is worth a line.
pub(crate) const CLOCK_MILLIS_MAX: i64 = 1000;

/// What a box knows of its fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The version of this form: 1.
    pub version: u32,
    /// Its name.
    pub node: Name,
    /// Where the fleet places it.
    pub place: NodePlace,
    /// What the fleet takes it for.
    pub kind: NodeKind,
    /// The host of the addresses that viewers get.
    pub host: String,
    /// What it may send at most; 0 if nobody has said.
    pub ceiling_bits_per_second: u64,
    /// What every node knows: keys, and where gateways are.
    pub keys: Keys,
}

/// What the operator of a box decides.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its name.
    pub node: Name,
    /// The host of the addresses that viewers get.
    pub host: String,
    /// What it may send at most; 0 if nobody has said.
    pub ceiling_bits_per_second: u64,
}

/// A box that has just joined.
#[derive(Clone, Debug)]
pub struct Joined {
    /// What it knows now.
    pub membership: Membership,
    /// The box's clock minus the gateway's, if that is worth telling.
    pub clock_ahead_millis: Option<i64>,
}

/// Why a box has not joined.
#[derive(Debug)]
pub enum JoiningError {
    /// The state directory is a node's already.
    Already(PathBuf, Name),
    /// The state directory cannot be used.
    State(CredentialsError),
    /// `node.json` cannot be read or written.
    File(PathBuf, std::io::Error),
    /// No gateway let it in. The text names each and its reason.
    Gateways(String),
    /// A gateway's answer is not what it should be.
    Answer(String),
}

impl Display for JoiningError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Already(state, node) => write!(
                f,
                "{} is the state of {node}, which has joined: choose another directory with --state",
                state.display()
            ),
            Self::State(error) => write!(f, "the state directory: {error}"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Gateways(why) => write!(f, "cannot join: {why}"),
            Self::Answer(why) => write!(f, "the gateway's answer cannot be used: {why}"),
        }
    }
}

impl std::error::Error for JoiningError {}

impl From<CredentialsError> for JoiningError {
    fn from(error: CredentialsError) -> Self {
        Self::State(error)
    }
}

impl Membership {
    /// Reads what [`join`] left in `state`; `None` if the box has not joined.
    ///
    /// # Errors
    /// If the file is there and cannot be used.
    pub fn read(state: &Path) -> Result<Option<Self>, JoiningError> {
        let path = state.join(FILE);
        let text = match smallfile::read_text(&path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JoiningError::File(path, error)),
        };
        let damaged = |why: String| JoiningError::File(path.clone(), std::io::Error::other(why));
        let own: Self = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        own.keys.check().map_err(|why| damaged(why.to_string()))?;
        Ok(Some(own))
    }

    /// Keeps it in `state`, replacing the file whole.
    ///
    /// # Errors
    /// If it cannot be written.
    ///
    /// # Panics
    /// Never: JSON can express everything in it.
    pub fn keep(&self, state: &Path) -> Result<(), JoiningError> {
        let text = serde_json::to_vec_pretty(self).expect("it is plain JSON");
        let path = state.join(FILE);
        let written = smallfile::replace(&path, &text, 0o644);
        written.map_err(|error| JoiningError::File(path, error))
    }
}

/// Joins the fleet that `token` names, by the first of `gateways` that answers, and leaves a key, a certificate and `node.json` in `state`.
///
/// # Errors
/// Why the box has not joined, for its operator. It may be tried again: the key stays the same, so an answer that got lost is given once more.
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
    let (answer, now) = ask(gateways, token, &request).await?;
    answer.check().map_err(|why| JoiningError::Answer(why.to_string()))?;
    let credentials = Credentials::new(key, answer.certificate, answer.authority)?;
    if credentials.fingerprint() != token.fingerprint() {
        return Err(JoiningError::Answer("it is of another fleet than the invitation".into()));
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
    };
    // Last: with this file the box has joined.
    membership.keep(state)?;
    let ahead = now - i64::try_from(answer.now_unix_millis).unwrap_or(i64::MAX);
    let clock_ahead_millis = (ahead.abs() > CLOCK_MILLIS_MAX).then_some(ahead);
    Ok(Joined { membership, clock_ahead_millis })
}

/// The first answer, and when it came by our clock.
async fn ask(
    gateways: &[String],
    token: &InvitationToken,
    request: &JoinRequest,
) -> Result<(JoinAnswer, i64), JoiningError> {
    let mut troubles = Vec::new();
    for address in gateways {
        let asked = async {
            let gateway = Gateway::for_joining(token.fingerprint())?;
            gateway.post(address, "join", request, Duration::from_secs(20)).await
        };
        match asked.await {
            Ok(answer) => return Ok((answer, now_unix_millis())),
            Err(Trouble::Refused { reason, text }) => {
                troubles.push(format!("{address}: {text}"));
                // Another gateway of the same fleet would say the same.
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
