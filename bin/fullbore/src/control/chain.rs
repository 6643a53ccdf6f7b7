//! The certificate chain in a file that an operator gives to the fleet.

use std::path::Path;

use fleet_protocol::CHAIN_BYTES_MAX;

use super::Failed;

/// Reads the file. A chain with a private key in it must not leave this machine: the store and every backup would keep the key.
pub(super) fn read_chain(file: &Path) -> Result<String, Failed> {
    let text = files::read_text(file, CHAIN_BYTES_MAX as u32)
        .map_err(|error| Failed(1, format!("cannot read {}: {error}", file.display())))?;
    if !identity::has_private_key(&text) {
        return Ok(text);
    }
    let why = "there is a private key in it, which the fleet neither needs nor keeps: name a file with the certificates alone, such as fullchain.pem";
    Err(Failed(2, format!("{}: {why}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_private_key_is_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chain.pem");
        let chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(&file, chain).unwrap();
        assert_eq!(read_chain(&file).ok().as_deref(), Some(chain));
        for kind in ["", "EC ", "RSA ", "ENCRYPTED "] {
            std::fs::write(&file, format!("{chain}-----BEGIN {kind}PRIVATE KEY-----\n")).unwrap();
            let Failed(code, text) = read_chain(&file).err().unwrap();
            assert!(
                code == 2 && text.contains("private key") && text.contains("chain.pem"),
                "{text}"
            );
        }
    }
}
