//! Host names in settings.

/// Whether `name` is a bare host name, without scheme, port or path.
pub(crate) fn is_host_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && name.bytes().all(fits)
}
