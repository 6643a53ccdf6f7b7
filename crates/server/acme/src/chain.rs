//! Chooses one of the authority's chains (RFC 8555 section 7.4.2): the first one, or the one that ends at the operator's preferred root.

use crate::AcmeOptions;
use crate::http_client::AcmeHttp;
use instant_acme::Account;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

/// More chains than any authority offers.
const ALTERNATES_MAX: usize = 8;

/// A chain from the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainAnswer {
    /// The certificates, PEM.
    pub(crate) chain: String,
    /// The URLs of other chains for the same certificate.
    pub(crate) alternates: Vec<String>,
}

/// The chain that ends at the preferred root, or the `first` one. The second value is a message for the operator if no chain ends there.
pub(crate) async fn choose(
    first: String,
    account: &Account,
    http: &AcmeHttp,
    options: &AcmeOptions,
) -> (String, Option<String>) {
    let Some(wanted) = &options.preferred_chain else { return (first, None) };
    let alternates = http.take_chain().map(|answer| answer.alternates).unwrap_or_default();
    let mut offered = Vec::new();
    let mut chain = first.clone();
    let mut alternates = alternates.into_iter().take(ALTERNATES_MAX);
    loop {
        let root = root_of(&chain);
        if root.as_ref() == Some(wanted) {
            return (chain, None);
        }
        offered.extend(root);
        match next(account, http, &mut alternates).await {
            Some(alternate) => chain = alternate,
            None => break,
        }
    }
    let said = format!(
        "the authority offers no chain that ends at {wanted:?} (tls.acme.preferred_chain), only at {}; using its first one",
        offered.iter().map(|root| format!("{root:?}")).collect::<Vec<_>>().join(" and ")
    );
    (first, Some(said))
}

/// The next of the `alternates` that can be fetched.
async fn next(
    account: &Account,
    http: &AcmeHttp,
    alternates: &mut impl Iterator<Item = String>,
) -> Option<String> {
    for url in alternates {
        // The library has no call for this. An order is fetched in the same way, by a signed request without a body (POST-as-GET); the
        // error that the answer is a chain and not an order is dropped here.
        let _ = account.order(url).await;
        if let Some(answer) = http.take_chain() {
            return Some(answer.chain);
        }
    }
    None
}

/// The common name of the root at which a chain ends: the issuer of its last certificate.
fn root_of(chain: &str) -> Option<String> {
    let last = CertificateDer::pem_slice_iter(chain.as_bytes()).last()?.ok()?;
    let (_, last) = X509Certificate::from_der(&last).ok()?;
    let name = last.issuer().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

/// The addresses in a `Link` header with the relation `alternate` (RFC 8288 section 3).
pub(crate) fn alternates(link: &str) -> impl Iterator<Item = &str> {
    link.split(",").filter_map(|one| {
        let (address, parameters) = one.trim().strip_prefix('<')?.split_once('>')?;
        let mut parameters = parameters.split(';').filter_map(|one| one.trim().split_once('='));
        let is_alternate = parameters.any(|(name, value)| {
            name.trim().eq_ignore_ascii_case("rel")
                && value.trim().trim_matches('"').eq_ignore_ascii_case("alternate")
        });
        is_alternate.then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    #[test]
    fn links_to_alternates_are_found_among_others() {
        let of = |link| alternates(link).collect::<Vec<_>>();
        assert_eq!(of("<https://a/1>;rel=\"alternate\""), ["https://a/1"]);
        assert_eq!(
            of("<https://a/d>;rel=\"index\", <https://a/2>; rel=alternate"),
            ["https://a/2"]
        );
        assert_eq!(of("<https://a/3>;title=\"x\";REL=\"Alternate\""), ["https://a/3"]);
        for none in ["", "https://a", "<https://a", "<https://a>", "<https://a>;rel=\"up\""] {
            assert!(of(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn a_chain_ends_at_the_issuer_of_its_last_certificate() {
        let named = |name: &str| {
            let mut parameters = CertificateParams::new(["a.example".to_owned()]).unwrap();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters
        };
        let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut root = named("Root X1");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let top = root.self_signed(&root_key).unwrap().pem();
        let issuer = Issuer::new(root, root_key);
        let leaf = named("leaf").signed_by(&key, &issuer).unwrap().pem();
        assert_eq!(root_of(&leaf).as_deref(), Some("Root X1"));
        assert_eq!(root_of(&format!("{leaf}{top}")).as_deref(), Some("Root X1"));
        assert_eq!((root_of(""), root_of("text")), (None, None));
    }
}
