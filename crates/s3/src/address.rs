//! Where a bucket is: `s3://BUCKET[/PREFIX][?endpoint=URL][&region=REGION]`, and the `AWS_*` variables that other clients of S3
//! read as well.

use rusty_s3::{Bucket, UrlStyle};

use crate::S3Error;

/// What S3 calls its first region, and what servers of other makers take.
const REGION: &str = "us-east-1";

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
    /// Reads `address`; what it does not say is looked up in `variable`.
    pub(crate) fn parse(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, S3Error> {
        let rest = address
            .strip_prefix("s3://")
            .ok_or_else(|| refused(address, "an address in S3 begins with s3://"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        if name.is_empty() {
            return Err(refused(address, "it names no bucket: s3://BUCKET/PREFIX"));
        }
        let (mut endpoint, mut region) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("endpoint", value)) => endpoint = Some(value.to_owned()),
                Some(("region", value)) => region = Some(value.to_owned()),
                _ => return Err(refused(address, "only endpoint= and region= can follow the ?")),
            }
        }
        let one_of = |names: [&str; 2]| names.into_iter().find_map(&variable);
        let endpoint = endpoint.or_else(|| one_of(["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let region = region
            .or_else(|| one_of(["AWS_REGION", "AWS_DEFAULT_REGION"]))
            .unwrap_or_else(|| REGION.to_owned());
        // Amazon wants the bucket in the host; its certificate fits only names without a dot. Everybody else takes it in the path.
        let style = if endpoint.is_some() || name.contains('.') {
            UrlStyle::Path
        } else {
            UrlStyle::VirtualHost
        };
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint
            .parse()
            .map_err(|_| refused(address, &format!("{endpoint} is not an address of a server")))?;
        let bucket = Bucket::new(endpoint, style, name.to_owned(), region)
            .map_err(|error| refused(address, &error.to_string()))?;
        let mut prefix = prefix.trim_matches('/').to_owned();
        if !prefix.is_empty() {
            prefix.push('/');
        }
        Ok(Self { bucket, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

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
    fn what_is_no_address_is_refused() {
        for bad in ["films", "s3://", "s3://films?port=1", "s3://films?endpoint=there"] {
            assert!(Address::parse(bad, |_| None).is_err(), "{bad}");
        }
    }
}
