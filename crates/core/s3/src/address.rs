//! The address of a bucket: `s3://BUCKET[/PREFIX][?endpoint=URL][&region=REGION][&addressing_style=STYLE]`, and the `AWS_*` variables that
//! other S3 clients read as well.

use reqwest::Url;
use rusty_s3::{Bucket, UrlStyle};

use crate::S3Error;

/// The name of S3's first region, which other vendors' servers accept.
const REGION: &str = "us-east-1";

/// Prefixes of Amazon's regions that are not below `amazonaws.com`, and their domains.
const PARTITIONS: [(&str, &str); 7] = [
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("", "amazonaws.com"),
];

/// A bucket, and the folder in it.
pub(crate) struct Address {
    pub(crate) bucket: Bucket,
    /// Empty, or ends with a slash.
    pub(crate) prefix: String,
}

fn refused(address: &str, why: &str) -> S3Error {
    S3Error::Refused(format!("{address}: {why}"))
}

impl Address {
    /// Parses `address`; missing parts come from `variable`.
    pub(crate) fn parse(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, S3Error> {
        let rest = address
            .strip_prefix("s3://")
            .ok_or_else(|| refused(address, "an S3 address begins with s3://"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        if name.is_empty() {
            return Err(refused(address, "it names no bucket: s3://BUCKET/PREFIX"));
        }
        let (mut endpoint, mut region, mut style) = (None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("endpoint", value)) => endpoint = Some(value.to_owned()),
                Some(("region", value)) => region = Some(value.to_owned()),
                Some(("addressing_style", "path")) => style = Some(UrlStyle::Path),
                Some(("addressing_style", "virtual")) => style = Some(UrlStyle::VirtualHost),
                Some(("addressing_style", _)) => {
                    return Err(refused(address, "addressing_style= is path or virtual"));
                }
                _ => {
                    let known = "only endpoint=, region= and addressing_style= can follow the ?";
                    return Err(refused(address, known));
                }
            }
        }
        let one_of = |names: [&str; 2]| names.into_iter().find_map(&variable);
        let endpoint = endpoint.or_else(|| one_of(["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let region = region
            .or_else(|| one_of(["AWS_REGION", "AWS_DEFAULT_REGION"]))
            .unwrap_or_else(|| REGION.to_owned());
        // Amazon expects the bucket in the host; its certificate only matches names without a dot. Most others expect it in the path.
        let style = style.unwrap_or(match endpoint.is_some() || name.contains('.') {
            true => UrlStyle::Path,
            false => UrlStyle::VirtualHost,
        });
        let endpoint = match endpoint {
            Some(endpoint) => endpoint,
            None => amazons(&region).ok_or_else(|| {
                refused(address, &format!("{region:?} is not a region's name, such as eu-west-3"))
            })?,
        };
        let endpoint: Url = endpoint
            .parse()
            .map_err(|_| refused(address, &format!("{endpoint} is not the address of a server")))?;
        let is_virtual = matches!(style, UrlStyle::VirtualHost);
        if is_virtual && endpoint.domain().is_none() {
            let why = "a bucket cannot be part of an IP address: leave addressing_style=virtual out, or use the server's name";
            return Err(refused(address, why));
        }
        let bucket = Bucket::new(endpoint, style, name.to_owned(), region)
            .map_err(|error| refused(address, &error.to_string()))?;
        let mut prefix = prefix.trim_matches('/').to_owned();
        if !prefix.is_empty() {
            prefix.push('/');
        }
        Ok(Self { bucket, prefix })
    }
}

/// Amazon's server for a region. `None` if the region's name is invalid.
fn amazons(region: &str) -> Option<String> {
    let is_name = region.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let (_, suffix) = PARTITIONS.iter().find(|(begins, _)| region.starts_with(begins))?;
    (is_name && !region.is_empty()).then(|| format!("https://s3.{region}.{suffix}"))
}

/// Whether a server with this name is one of Amazon's.
pub(crate) fn is_amazons(host: &str) -> bool {
    PARTITIONS
        .iter()
        .any(|(_, domain)| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::{Address, is_amazons};

    fn url(address: &str, variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let address = Address::parse(address, variable).expect(address);
        let key = format!("{}a b", address.prefix);
        address.bucket.object_url(&key).expect("an address").to_string()
    }

    #[test]
    fn an_address_names_bucket_folder_and_server() {
        assert_eq!(url("s3://films", &[]), "https://films.s3.us-east-1.amazonaws.com/a%20b");
        assert_eq!(
            url("s3://films/hd/", &[("AWS_REGION", "eu-west-3")]),
            "https://films.s3.eu-west-3.amazonaws.com/hd/a%20b"
        );
        assert_eq!(
            url("s3://my.films/x?region=eu-west-3", &[]),
            "https://s3.eu-west-3.amazonaws.com/my.films/x/a%20b"
        );
        let there = [("AWS_ENDPOINT_URL", "http://192.0.2.1:9000")];
        assert_eq!(url("s3://films", &there), "http://192.0.2.1:9000/films/a%20b");
        assert_eq!(
            url("s3://films?endpoint=http://127.0.0.1:1", &there),
            "http://127.0.0.1:1/films/a%20b"
        );
    }

    #[test]
    fn regions_of_other_partitions_are_at_servers_of_their_own() {
        for (region, host) in [
            ("eu-west-3", "s3.eu-west-3.amazonaws.com"),
            ("us-gov-west-1", "s3.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "s3.cn-north-1.amazonaws.com.cn"),
            ("cn-northwest-1", "s3.cn-northwest-1.amazonaws.com.cn"),
            ("eusc-de-east-1", "s3.eusc-de-east-1.amazonaws.eu"),
        ] {
            let here = [("AWS_REGION", region)];
            assert_eq!(url("s3://films", &here), format!("https://films.{host}/a%20b"));
            let dotted = format!("s3://my.films?region={region}");
            assert_eq!(url(&dotted, &[]), format!("https://{host}/my.films/a%20b"));
            assert!(is_amazons(host) && is_amazons(&format!("films.{host}")), "{host}");
        }
        for host in ["amazonaws.com", "s3.example", "s3.notamazonaws.com", "127.0.0.1", ""] {
            assert!(!is_amazons(host), "{host}");
        }
    }

    #[test]
    fn a_bucket_stands_in_the_host_or_in_the_path_of_any_server() {
        let there = [("AWS_ENDPOINT_URL", "https://obs.example:8443")];
        let styled = |style: &str| url(&format!("s3://films/hd?addressing_style={style}"), &there);
        assert_eq!(styled("virtual"), "https://films.obs.example:8443/hd/a%20b");
        assert_eq!(styled("path"), "https://obs.example:8443/films/hd/a%20b");
        assert_eq!(
            url("s3://films?region=eu-west-3&addressing_style=path", &[]),
            "https://s3.eu-west-3.amazonaws.com/films/a%20b"
        );
        assert_eq!(
            url("s3://films?endpoint=http://s3.example&addressing_style=virtual", &[]),
            "http://films.s3.example/a%20b"
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "films",
            "s3://",
            "s3://films?port=1",
            "s3://films?endpoint=there",
            "s3://films?addressing_style=auto",
            "s3://films?endpoint=http://192.0.2.1:9000&addressing_style=virtual",
            "s3://films?endpoint=http://[::1]:9000&addressing_style=virtual",
            "s3://films?region=x.evil/",
            "s3://films?region=",
        ] {
            assert!(Address::parse(bad, |_| None).is_err(), "{bad}");
        }
    }
}
