//! External authorities and certificates, as operators have them.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// An authority, with its certificate in a file.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    pub(crate) file: PathBuf,
}

/// Files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

fn named(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

impl Ca {
    pub(crate) fn make(folder: &Path, name: &str) -> Self {
        let mut parameters = named(name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let file = folder.join(format!("{name}.pem"));
        let own = parameters.self_signed(&key).expect("signed");
        std::fs::write(&file, own.pem()).expect("written");
        Self { issuer: Issuer::new(parameters, key), folder: folder.to_owned(), file }
    }

    /// A certificate for a gateway on loopback.
    pub(crate) fn server(&self, file: &str) -> Pair {
        let parameters = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let mut parameters = parameters.expect("names");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(file, parameters)
    }

    /// An operator's certificate.
    pub(crate) fn operator(&self, name: &str) -> Pair {
        self.operator_with(name, name, |_| {})
    }

    /// An operator's certificate with a fault.
    pub(crate) fn operator_with(
        &self,
        file: &str,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Pair {
        let mut parameters = named(name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut parameters);
        self.sign(file, parameters)
    }

    fn sign(&self, file: &str, parameters: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let own = parameters.signed_by(&key, &self.issuer).expect("signed");
        let pair = Pair {
            cert: self.folder.join(format!("{file}.cert.pem")),
            key: self.folder.join(format!("{file}.key.pem")),
        };
        std::fs::write(&pair.key, key.serialize_pem()).expect("written");
        std::fs::write(&pair.cert, own.pem()).expect("written");
        pair
    }
}
