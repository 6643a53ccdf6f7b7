//! Attribute lists of tags (RFC 8216 section 4.2): `NAME=value,NAME="quoted, value"`.

/// An attribute list, exactly as in its line.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a str);

impl<'a> Attributes<'a> {
    /// The value of an attribute, without its quotes.
    pub(super) fn value(self, name: &str) -> Option<&'a str> {
        let mut rest = self.0;
        while let Some((found, value, after)) = first(rest) {
            if found == name {
                return Some(value);
            }
            rest = after;
        }
        None
    }

    /// Returns true if an attribute with the value YES or NO is YES.
    pub(super) fn is_yes(self, name: &str) -> bool {
        self.value(name) == Some("YES")
    }
}

/// The first attribute's name and value, and the rest of the list.
fn first(list: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = list.split_once('=')?;
    let name = name.trim_matches([',', ' ', '\t']);
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, after) = quoted.split_once('"')?;
        return Some((name, value, after));
    }
    let (value, after) = rest.split_once(',').unwrap_or((rest, ""));
    Some((name, value.trim(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_with_and_without_quotes() {
        let list = Attributes(r#"A=1, B="x,C=2",D="",E=YES"#);
        assert_eq!(list.value("A"), Some("1"));
        assert_eq!(list.value("B"), Some("x,C=2"));
        assert_eq!(list.value("C"), None);
        assert_eq!(list.value("D"), Some(""));
        assert!(list.is_yes("E") && !list.is_yes("A"));
    }

    #[test]
    fn broken_lists_have_no_values() {
        for list in ["", "A", "A,B", "=", "A=\"open", ",,,", "\"\"=="] {
            assert_eq!(Attributes(list).value("B"), None, "{list}");
        }
    }
}
