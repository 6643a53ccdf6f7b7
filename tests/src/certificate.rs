//! Certificates as people make them: with openssl.

use crate::tool;
use std::path::{Path, PathBuf};

/// A self-signed certificate and its key, PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Makes a certificate for the host `name` in `folder`; `kind` is openssl's name for the key, `rsa:2048` or `ec`.
///
/// # Panics
/// If openssl fails.
pub fn certificate(folder: &Path, name: &str, kind: &str) -> Certificate {
    let cert = folder.join(format!("{name}.cert.pem"));
    let key = folder.join(format!("{name}.key.pem"));
    let mut make = tool::command("openssl");
    make.args(["req", "-x509", "-nodes", "-days", "2", "-subj", &format!("/CN={name}")]);
    make.args(["-addext", &format!("subjectAltName=DNS:{name}")]).args(["-newkey", kind]);
    if kind == "ec" {
        make.args(["-pkeyopt", "ec_paramgen_curve:P-256"]);
    }
    let made = tool::run(make.arg("-keyout").arg(&key).arg("-out").arg(&cert));
    assert!(made.success, "{}", made.stderr);
    Certificate { cert, key }
}
