//! Prefixes that a site announces, in the lines of a file.
//!
//! ```text
//! # Networks that the site reaches: a prefix per line, and its distance, if that is known.
//! 192.0.2.0/24
//! 198.51.100.0/24  as_path=64500,64501  med=50
//! 2001:db8::/32    as_path_length=3
//! ```

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::{Announced, Prefix};

/// Most prefixes in one file: about as many as the entire internet announces.
pub const FILE_PREFIXES_MAX: usize = 1_000_000;

/// A line is not a prefix with valid attributes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnnouncedError(String);

fn wrong(why: impl Into<String>) -> AnnouncedError {
    AnnouncedError(why.into())
}

/// Number of systems in a path. Paths that are too long for steering to distinguish count as the longest.
fn path_length(path: &str) -> Option<u8> {
    let mut count = 0_usize;
    for system in path.split(',') {
        system.parse::<u32>().ok()?;
        count += 1;
    }
    Some(u8::try_from(count).unwrap_or(u8::MAX))
}

impl FromStr for Announced {
    type Err = AnnouncedError;

    /// Parses a prefix, then `as_path_length=N` or `as_path=N,N`, and `med=N`, in any order.
    fn from_str(line: &str) -> Result<Self, AnnouncedError> {
        let mut words = line.split_whitespace();
        let prefix = words.next().unwrap_or_default();
        let prefix: Prefix =
            prefix.parse().map_err(|why| wrong(format!("{prefix:?} is not a prefix: {why}")))?;
        let (mut length, mut med) = (None, None);
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let is_new = match name {
                "as_path_length" => {
                    let value = value
                        .parse()
                        .map_err(|_| wrong(format!("as_path_length is not 0 to 255: {value:?}")))?;
                    length.replace(value).is_none()
                }
                "as_path" => {
                    let value = path_length(value).ok_or_else(|| {
                        wrong(format!("as_path is not numbers with commas between: {value:?}"))
                    })?;
                    length.replace(value).is_none()
                }
                "med" => {
                    let value = value
                        .parse()
                        .map_err(|_| wrong(format!("med is not a number below 2^32: {value:?}")))?;
                    med.replace(value).is_none()
                }
                _ => {
                    return Err(wrong(format!(
                        "{word:?} is not known: a prefix may have as_path_length=N or as_path=N,N, and med=N"
                    )));
                }
            };
            if !is_new {
                return Err(wrong(format!("{name:?} comes after another of its kind")));
            }
        }
        Ok(Self { prefix, as_path_length: length.unwrap_or(0), med: med.unwrap_or(0) })
    }
}

/// The format that [`FromStr`] parses.
impl Display for Announced {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prefix)?;
        if self.as_path_length > 0 {
            write!(f, " as_path_length={}", self.as_path_length)?;
        }
        if self.med > 0 {
            write!(f, " med={}", self.med)?;
        }
        Ok(())
    }
}

impl Announced {
    /// Parses a file with a prefix per line. Empty lines and comments after `#` are ignored. Returns the prefixes sorted.
    ///
    /// # Errors
    /// If a line is invalid, if a prefix occurs twice, or if there are more than [`FILE_PREFIXES_MAX`].
    pub fn read_file(text: &str) -> Result<Vec<Self>, AnnouncedError> {
        let mut read: Vec<(Self, usize)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            if read.len() == FILE_PREFIXES_MAX {
                return Err(wrong(format!("there are more than {FILE_PREFIXES_MAX} prefixes")));
            }
            let one = line.parse().map_err(|why| wrong(format!("line {}: {why}", index + 1)))?;
            read.push((one, index + 1));
        }
        read.sort_unstable_by_key(|(one, line)| (one.prefix, *line));
        for pair in read.windows(2) {
            let ((one, first), (other, second)) = (pair[0], pair[1]);
            if one.prefix == other.prefix {
                let prefix = one.prefix;
                return Err(wrong(format!("line {second}: {prefix} is in line {first} already")));
            }
        }
        Ok(read.into_iter().map(|(one, _)| one).collect())
    }

    /// Writes a file in the format of [`read_file`](Self::read_file).
    pub fn write_file(all: &[Self]) -> String {
        let mut text = String::with_capacity(all.len() * 24);
        for one in all {
            text.push_str(&format!("{one}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_its_author_means_it() {
        let text = "# ours\n\n2001:db8::/32 as_path_length=3\n 192.0.2.0/24\t# the lab\n\
            198.51.100.0/24 med=50 as_path=64500,64501\r\n";
        let read = Announced::read_file(text).expect("a file");
        let told: Vec<_> = read.iter().map(Announced::to_string).collect();
        let expected = [
            "192.0.2.0/24",
            "198.51.100.0/24 as_path_length=2 med=50",
            "2001:db8::/32 as_path_length=3",
        ];
        assert_eq!(told, expected);
        assert_eq!(Announced::read_file(&Announced::write_file(&read)), Ok(read));
        assert_eq!(Announced::read_file(""), Ok(vec![]));
    }

    #[test]
    fn a_wrong_line_is_told_with_its_number() {
        let cases = [
            ("192.0.2.0/24\n192.0.2.1/24", "line 2: \"192.0.2.1/24\" is not a prefix"),
            ("192.0.2.0/24 med", "line 1: med is not a number"),
            ("192.0.2.0/24 med=-1", "med is not a number"),
            ("192.0.2.0/24 as_path_length=256", "as_path_length is not 0 to 255"),
            ("192.0.2.0/24 as_path=1,,2", "as_path is not numbers"),
            ("192.0.2.0/24 as_path=1 as_path_length=1", "after another of its kind"),
            ("192.0.2.0/24 50", "\"50\" is not known"),
            ("192.0.2.0/24\n# x\n192.0.2.0/24 med=1", "line 3: 192.0.2.0/24 is in line 1 already"),
        ];
        for (text, why) in cases {
            let error = Announced::read_file(text).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_file_may_have_all_prefixes_of_the_internet_and_no_more() {
        let line = |number: u32| format!("{}/32\n", std::net::Ipv4Addr::from_bits(number));
        let mut text: String = (0..FILE_PREFIXES_MAX as u32).map(line).collect();
        assert_eq!(Announced::read_file(&text).expect("a file").len(), FILE_PREFIXES_MAX);
        text.push_str("2001:db8::/32\n");
        assert!(Announced::read_file(&text).is_err());
    }
}
