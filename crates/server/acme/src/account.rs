//! The account at the authority. Its key is generated once, and saved.

use crate::files::{PRIVATE, account_file};
use crate::http_client::AcmeHttp;
use crate::obtain::NotObtained;
use crate::{AcmeOptions, AcmeTrouble};
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};
use std::io;
use zeroize::Zeroizing;

/// An account file has less than 1 KB.
const BYTES_MAX: u32 = 64 << 10;

/// The saved form of an account.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The authority of the account.
    directory: String,
    /// The external account that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external_key_id: Option<String>,
    credentials: AccountCredentials,
}

/// Loads the saved account, if it is with the configured authority and bound to the configured external account; else registers a new one.
///
/// # Errors
/// If the authority refuses an account, or it cannot be saved.
pub(crate) async fn open(
    options: &AcmeOptions,
    binding: Option<&ExternalAccountKey>,
    http: &AcmeHttp,
) -> Result<Account, NotObtained> {
    let builder = Account::builder_with_http(Box::new(http.clone()));
    let external = options.external_account.as_ref();
    let external_key_id = external.map(|external| external.key_id.clone());
    let is_it = |kept: &Kept| {
        kept.directory == options.directory && kept.external_key_id == external_key_id
    };
    if let Some(kept) = read(options).filter(is_it) {
        return Ok(builder.from_credentials(kept.credentials).await?);
    }
    let contact = options.contact.as_ref().map(|address| format!("mailto:{address}"));
    let contact: Vec<_> = contact.as_deref().into_iter().collect();
    let wanted = NewAccount {
        contact: &contact,
        // By configuring an authority, the operator agrees to its terms: docs/serve.md says so.
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let directory = options.directory.clone();
    let (account, credentials) = builder.create(&wanted, directory.clone(), binding).await?;
    let path = account_file(&options.state);
    serde_json::to_vec(&Kept { directory, external_key_id, credentials })
        .map_err(io::Error::other)
        .and_then(|text| files::replace(&path, &Zeroizing::new(text), PRIVATE))
        .map_err(|error| {
            let said = format!("cannot save the account in {}: {error}", path.display());
            NotObtained::Told(AcmeTrouble::Disk, said)
        })?;
    Ok(account)
}

/// An unreadable file is replaced: only a key is lost that nothing else uses.
fn read(options: &AcmeOptions) -> Option<Kept> {
    let text = files::read(&account_file(&options.state), BYTES_MAX).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Deletes an account that the authority no longer knows.
pub(crate) fn forget(options: &AcmeOptions) {
    // If it stays, the next order fails in the same way, and reports it.
    let _ = std::fs::remove_file(account_file(&options.state));
}
