//! Serial numbers of certificates.

use std::fmt::{self, Debug, Display, Formatter};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::{is_hex, random};

/// A certificate's serial number: 16 bytes as 32 hex digits. 126 bits are random, so no counter is needed (RFC 5280, section 4.1.2.2, requires
/// unique and positive ones).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Serial(String);

impl Serial {
    /// Draws a serial number.
    pub(crate) fn draw() -> Self {
        let mut bytes: [u8; 16] = random();
        // Positive, and never shortened by a leading zero.
        bytes[0] = bytes[0] & 0x3f | 0x40;
        Self(HEXLOWER.encode(&bytes))
    }

    /// The serial number with these bytes, as in a certificate.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == 16).then(|| Self(HEXLOWER.encode(bytes)))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        HEXLOWER.decode(self.0.as_bytes()).expect("a serial number has 32 hex digits")
    }

    /// Its 32 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Serial {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if is_hex(&text, 32) { Ok(Self(text)) } else { Err("a serial number has 32 hex digits") }
    }
}

impl From<Serial> for String {
    fn from(serial: Serial) -> Self {
        serial.0
    }
}

impl Display for Serial {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Debug for Serial {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Serial;

    #[test]
    fn a_serial_reads_what_it_writes() {
        let serial = Serial::draw();
        assert_eq!(Serial::from_bytes(&serial.to_bytes()), Some(serial.clone()));
        assert_ne!(serial, Serial::draw());
        assert!(Serial::try_from("12".to_owned()).is_err());
        assert_eq!(Serial::from_bytes(&[1; 15]), None);
    }
}
