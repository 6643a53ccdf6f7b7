//! Creates a fleet in an empty store: its authority, the key that signs snapshots, and an operator with all permissions.

use std::path::Path;

use data_encoding::HEXLOWER;
use fleet_protocol::{Digest, Name, SigningKey, SteeringPolicy};
use identity::Authority;

use crate::state_folder::StateFolder;
use store::records::{FleetRecord, OperatorRecord, PrivateBytes, Role, SecretRecord, StoreRecord};
use store::{Check, Engine, StoreError, Write};

use super::start::GatewayError;

/// The name of the operator that the first start creates.
const ADMIN: &str = "admin";

/// Settings of a new fleet. They have no effect on an existing fleet.
#[derive(Clone, Debug)]
pub struct NewFleet {
    /// Its name.
    pub name: Name,
    /// How viewers are steered.
    pub policy: SteeringPolicy,
    /// Whether viewers' addresses are signed.
    pub signs_addresses: bool,
}

/// Draws random bytes.
///
/// # Panics
/// If the system provides none, in which case nothing here could be secret.
pub(super) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// Draws an operator's token: 256 bits, so guessing is hopeless, and storing its plain digest is safe.
pub(crate) fn draw_token() -> String {
    HEXLOWER.encode(&random::<32>())
}

/// Creates the fleet, if the store has none. Returns whether it did.
///
/// # Errors
/// [`GatewayError`].
pub(super) async fn make_fleet(
    engine: &dyn Engine,
    new: &NewFleet,
    state: &StateFolder,
    now_unix_seconds: u64,
) -> Result<bool, GatewayError> {
    if engine.get(FleetRecord::FOLDER).await?.is_some() {
        return Ok(false);
    }
    let token = draw_token();
    // The token is on disk before its digest is in the store, so a crash between the two locks no one out.
    let written = state.write_admin_token(&token);
    written.map_err(|error| GatewayError::folder(&state.admin_token(), &error))?;
    let writes = first_records(new, &token, now_unix_seconds)?;
    match engine.commit(&[Check::Absent(FleetRecord::FOLDER.to_owned())], &writes).await {
        Ok(_) => Ok(true),
        // Another gateway created the fleet at the same moment, with its own token.
        Err(StoreError::Conflict) => {
            remove(&state.admin_token())?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn remove(path: &Path) -> Result<(), GatewayError> {
    std::fs::remove_file(path).map_err(|error| GatewayError::folder(path, &error))
}

fn first_records(new: &NewFleet, token: &str, now: u64) -> Result<Vec<Write>, GatewayError> {
    let random = |error: &dyn std::fmt::Display| GatewayError::Fleet(error.to_string());
    let fleet = FleetRecord {
        name: new.name.clone(),
        epoch: 1,
        policy: new.policy.clone(),
        made_unix_seconds: now,
        restored: None,
    };
    let authority = Authority::make(&new.name, now).map_err(|error| random(&error))?;
    let (_, signing) = SigningKey::draw().map_err(|error| random(&error))?;
    let secret = |pkcs8: Vec<u8>, certificate_pem| SecretRecord {
        pkcs8: PrivateBytes::new(pkcs8),
        certificate_pem,
        made_unix_seconds: now,
    };
    let certificate = authority.certificate_pem().to_owned();
    let operator = OperatorRecord {
        role: Role::Admin,
        sha256: Some(Digest::of(token.as_bytes())),
        made_unix_seconds: now,
        revoked: None,
    };
    let mut writes = vec![
        fleet.put("")?,
        secret(authority.pkcs8().to_vec(), Some(certificate)).put("ca")?,
        secret(signing, None).put("signing")?,
        operator.put(ADMIN)?,
    ];
    if new.signs_addresses {
        // Nodes that join later get the key before they get viewers, so it can sign at once.
        let key = super::keys::draw_key(now).map_err(GatewayError::Fleet)?;
        writes.push(key.put(super::keys::FIRST)?);
    }
    Ok(writes)
}
