//! Attribute lists of HLS tags (RFC 8216, section 4.2), parsed so that they can be written again: order, quotes and unknown attributes are
//! preserved.

use super::DocumentError;

/// Ample for any tag.
const ATTRIBUTES_MAX: usize = 64;

/// An attribute: its name, and its value as written, including quotes.
pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
}

impl<'a> Attribute<'a> {
    /// The text between the quotes; `None` if there are no quotes.
    pub(super) fn quoted(&self) -> Option<&'a str> {
        self.value.strip_prefix('"')?.strip_suffix('"')
    }
}

/// Parses a list.
pub(super) fn parse(list: &str) -> Result<Vec<Attribute<'_>>, DocumentError> {
    let malformed = || DocumentError::Malformed("an attribute list cannot be read".into());
    let mut attributes: Vec<Attribute<'_>> = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(malformed)?;
        let name = name.trim();
        let end = match after.strip_prefix('"') {
            Some(inner) => inner.find('"').ok_or_else(malformed)? + 2,
            None => after.find(',').unwrap_or(after.len()),
        };
        let (value, after) = after.split_at(end);
        let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-';
        let is_odd = !value.starts_with('"') && value.contains('"');
        let is_twice = attributes.iter().any(|known| known.name == name);
        // RFC 8216, section 4.2: a name appears once, and consists of these characters.
        if name.is_empty()
            || !name.bytes().all(is_name)
            || is_twice
            || is_odd
            || value.trim() != value
        {
            return Err(malformed());
        }
        attributes.push(Attribute { name, value });
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(malformed());
        }
        rest = match after.trim_start() {
            "" => "",
            after => after.strip_prefix(',').ok_or_else(malformed)?.trim_start(),
        };
    }
    Ok(attributes)
}

/// The text of a quoted attribute.
pub(super) fn quoted<'a>(attributes: &[Attribute<'a>], name: &str) -> Option<&'a str> {
    attributes.iter().find(|attribute| attribute.name == name)?.quoted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_its_order() {
        let list = parse(r#"A=1, B-2="x,C=2",D="",E=YES"#).expect("a list");
        let shown: Vec<_> = list.iter().map(|one| (one.name, one.value)).collect();
        assert_eq!(shown, [("A", "1"), ("B-2", "\"x,C=2\""), ("D", "\"\""), ("E", "YES")]);
        assert_eq!((quoted(&list, "B-2"), quoted(&list, "A")), (Some("x,C=2"), None));
        assert!(parse("").is_ok_and(|list| list.is_empty()));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for bad in [
            "A", "A,B=1", "=1", "A=\"open", "A=\"x\"y", "A=1,A=2", "a=1", "A =1,=2", "A= 1",
            "A=1\"x\"",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&(0..65).map(|n| format!("A{n}=1,")).collect::<String>()).is_err());
    }
}
