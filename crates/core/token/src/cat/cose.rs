//! The envelope: COSE_Mac0 and COSE_Sign1 (RFC 9052) around the claims.
//!
//! The tag of a CBOR Web Token (61) and that of the COSE structure may be there or not: without them, the algorithm says which structure it is.
//! The headers are read here and not by the crate `coset`, whose reader follows countersignatures nested in each other without a limit. It
//! makes new tokens, and its CBOR is used for both.

use coset::cbor::Value;
use coset::{CborSerializable, CoseMac0Builder, CoseSign1Builder, HeaderBuilder, iana};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};

use super::{CatFault, TEXT_BYTES_MAX};

/// How deep CBOR may be nested. `catnip` is the deepest claim that we read: map, array, tag, array, integer.
const DEPTH_MAX: usize = 12;

/// Bytes of the shortest signature that is accepted, one of HMAC 256/256.
pub(super) const SIGNATURE_BYTES_MIN: usize = 32;

/// The tag of a CBOR Web Token (RFC 8392, section 6).
const CWT_TAG: u64 = 61;

/// Labels of header parameters (RFC 9052, section 3.1).
const ALGORITHM: i128 = iana::HeaderParameter::Alg as i128;
const CRITICAL: i128 = iana::HeaderParameter::Crit as i128;
const KEY_ID: i128 = iana::HeaderParameter::Kid as i128;

/// The label of claims in a header (RFC 9597), which could restrict a token as those of its payload do.
const CLAIMS: i128 = 15;

/// An algorithm of COSE (RFC 9053).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CatAlgorithm {
    /// HMAC 256/256.
    Hs256,
    /// ECDSA with SHA-256, here with P-256.
    Es256,
    /// EdDSA, here with Ed25519.
    EdDsa,
    /// RSASSA-PSS with SHA-256.
    Ps256,
}

impl CatAlgorithm {
    const ALL: [Self; 4] = [Self::Hs256, Self::Es256, Self::EdDsa, Self::Ps256];

    fn number(self) -> iana::Algorithm {
        match self {
            Self::Hs256 => iana::Algorithm::HMAC_256_256,
            Self::Es256 => iana::Algorithm::ES256,
            Self::EdDsa => iana::Algorithm::EdDSA,
            Self::Ps256 => iana::Algorithm::PS256,
        }
    }

    /// The tag of the structure that it signs.
    fn tag(self) -> u64 {
        match self {
            Self::Hs256 => iana::CborTag::CoseMac0 as u64,
            _ => iana::CborTag::CoseSign1 as u64,
        }
    }
}

/// A token whose signature was not verified.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) algorithm: CatAlgorithm,
    /// The id of its key, if it names one.
    pub(super) key_id: Option<Vec<u8>>,
    /// The bytes that the signature covers.
    pub(super) covered: Vec<u8>,
    pub(super) signature: Vec<u8>,
    /// The claims, in CBOR.
    pub(super) payload: Vec<u8>,
}

/// Parses the text of a token.
pub(super) fn open(text: &[u8]) -> Result<Sealed, CatFault> {
    let [protected, unprotected, payload, signature, tag] = split(text)?;
    let Value::Bytes(protected) = protected else { return Err(malformed("no protected header")) };
    let inner = Headers::of(&read(&protected)?)?;
    let outer = Headers::of(&unprotected)?;
    // Nothing is verified yet, so each of these is a fault of form: only a genuine token can demand what is not supported.
    if inner.is_critical || outer.is_critical {
        return Err(malformed(
            "it has a critical header parameter of COSE, which is not supported",
        ));
    }
    if inner.has_claims || outer.has_claims {
        return Err(malformed("it has claims in a header of COSE, which are not supported"));
    }
    if differ(&inner.algorithm, &outer.algorithm) || differ(&inner.key_id, &outer.key_id) {
        return Err(malformed("its two headers differ in the algorithm or the key id"));
    }
    let number = inner.algorithm.ok_or(malformed("no algorithm in the protected header"))?;
    let mut all = CatAlgorithm::ALL.into_iter();
    let Some(algorithm) = all.find(|one| one.number() as i128 == number) else {
        return Err(malformed("its algorithm is none of HS256, ES256, EdDSA and PS256"));
    };
    if matches!(tag, Value::Tag(tag, _) if tag != algorithm.tag()) {
        return Err(malformed("its tag is not that of its algorithm"));
    }
    let Value::Bytes(signature) = signature else { return Err(malformed("no signature")) };
    let covered = covered(algorithm, protected, payload.clone());
    let payload = match payload {
        Value::Bytes(payload) => payload,
        // A much-used library for Node (`foreign.rs`) writes the claims as text, hex digits, unless it is set to write the tag of a CBOR Web Token.
        Value::Text(digits) => HEXLOWER
            .decode(digits.as_bytes())
            .map_err(|_| malformed("its payload is text other than hex digits"))?,
        _ => return Err(malformed("no payload")),
    };
    let key_id = inner.key_id.or(outer.key_id);
    Ok(Sealed { algorithm, key_id, covered, signature, payload })
}

/// Whether both values are there, and are not the same.
fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// The bytes that a signature covers (RFC 9052, sections 4.4 and 6.3).
fn covered(algorithm: CatAlgorithm, protected: Vec<u8>, payload: Value) -> Vec<u8> {
    let context = if algorithm == CatAlgorithm::Hs256 { "MAC0" } else { "Signature1" };
    let parts = [context.into(), Value::Bytes(protected), Value::Bytes(Vec::new()), payload];
    let mut covered = Vec::new();
    let written = coset::cbor::into_writer(&Value::Array(parts.into()), &mut covered);
    written.expect("writing to a Vec cannot fail");
    covered
}

/// Whether `text` has the form of a token: no other text has, so this finds tokens in logs.
pub(super) fn has_form(text: &[u8]) -> bool {
    let Ok([protected, unprotected, payload, signature, tag]) = split(text) else { return false };
    let is_tagged = [CatAlgorithm::Hs256, CatAlgorithm::Es256].map(CatAlgorithm::tag);
    protected.is_bytes()
        && unprotected.is_map()
        && (payload.is_bytes() || payload.is_text())
        && signature.as_bytes().is_some_and(|signature| signature.len() >= SIGNATURE_BYTES_MIN)
        && tag.as_tag().is_none_or(|(tag, _)| is_tagged.contains(&tag))
}

/// Characters of a token's headers for [`claims_end`]: first those of its tags and its protected header, then those of both headers. Issuers' are far
/// shorter, and a log has to be written quickly.
const PROTECTED_CHARACTERS: usize = 96;
const HEADERS_CHARACTERS: usize = 1024;

/// Bytes from the beginning of `text` to the end of a token's claims, if it begins as a token does. Other text may follow, and the token may be cut
/// off. No other text begins like that: a header with an algorithm, another header, and then the beginning of a map.
pub(super) fn claims_end(text: &[u8]) -> Option<usize> {
    let decoded = |characters: usize| {
        let characters = text.len().min(characters) / 4 * 4;
        BASE64URL_NOPAD.decode(&text[..characters]).ok()
    };
    let bytes = decoded(PROTECTED_CHARACTERS)?;
    let mut rest = &bytes[..];
    let mut part = head(&mut rest)?;
    for _ in 0..2 {
        // Tags.
        if part.0 == 6 {
            part = head(&mut rest)?;
        }
    }
    let (2, length) = (part == (4, 4)).then(|| head(&mut rest))?? else { return None };
    let protected = rest.get(..usize::try_from(length).ok()?)?;
    Headers::of(&read(protected).ok()?).ok()?.algorithm?;
    let past = bytes.len() - rest.len() + protected.len();
    let bytes = decoded(HEADERS_CHARACTERS)?;
    let mut rest = bytes.get(past..)?;
    let unprotected = coset::cbor::de::from_reader_with_recursion_limit(&mut rest, DEPTH_MAX);
    Headers::of(&unprotected.ok()?).ok()?;
    let (kind, length) = head(&mut rest)?;
    let begins_a_map = match kind {
        2 => length > 0 && (0xa0..=0xbf).contains(rest.first()?),
        3 => matches!(rest.first()?, b'a' | b'b'),
        _ => false,
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= TEXT_BYTES_MAX)?;
    begins_a_map.then_some(bytes.len() - rest.len() + length)
}

/// The kind of the next item of CBOR and its number (RFC 8949, section 3), that of an array without a length being 4.
fn head(rest: &mut &[u8]) -> Option<(u8, u64)> {
    let (first, after) = rest.split_first()?;
    let (kind, low) = (first >> 5, first & 0x1f);
    let more = match low {
        ..24 => 0,
        24..28 => 1 << (low - 24),
        31 if kind == 4 => {
            *rest = after;
            return Some((kind, 4));
        }
        _ => return None,
    };
    let number = after.get(..more)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    *rest = &after[more..];
    Some((kind, if more == 0 { u64::from(low) } else { number }))
}

/// The four parts of a token, and its tag, empty, if it has one.
fn split(text: &[u8]) -> Result<[Value; 5], CatFault> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(malformed("it is longer than 4096 bytes"));
    }
    let bytes = BASE64URL_NOPAD.decode(text).map_err(|_| malformed("base64url has other bytes"))?;
    let untagged = |value| match value {
        Value::Tag(tag, inner) => (Value::Tag(tag, Box::new(Value::Null)), *inner),
        other => (Value::Null, other),
    };
    let value = match read(&bytes)? {
        Value::Tag(CWT_TAG, inner) => *inner,
        other => other,
    };
    let (tag, value) = untagged(value);
    let Value::Array(parts) = value else { return Err(malformed("COSE is an array")) };
    let parts: [Value; 4] =
        parts.try_into().map_err(|_| malformed("COSE is an array of four parts"))?;
    let [protected, unprotected, payload, signature] = parts;
    Ok([protected, unprotected, payload, signature, tag])
}

/// The value that `bytes` are, all of them.
pub(super) fn read(bytes: &[u8]) -> Result<Value, CatFault> {
    let mut rest = bytes;
    let value = coset::cbor::de::from_reader_with_recursion_limit(&mut rest, DEPTH_MAX);
    match value {
        Ok(value) if rest.is_empty() => Ok(value),
        _ => Err(malformed("CBOR has another form, or is nested too deeply")),
    }
}

/// The parameters of a header that matter here.
#[derive(Default)]
struct Headers {
    algorithm: Option<i128>,
    key_id: Option<Vec<u8>>,
    is_critical: bool,
    has_claims: bool,
}

impl Headers {
    fn of(value: &Value) -> Result<Self, CatFault> {
        let Value::Map(parameters) = value else { return Err(malformed("a header is a map")) };
        let mut headers = Self::default();
        for (label, value) in parameters {
            let Value::Integer(label) = label else { continue };
            let is_twice = match i128::from(*label) {
                ALGORITHM => {
                    let Value::Integer(number) = value else {
                        return Err(malformed("an algorithm is a number"));
                    };
                    headers.algorithm.replace(i128::from(*number)).is_some()
                }
                KEY_ID => {
                    let id = match value {
                        Value::Bytes(id) => id.clone(),
                        // Some issuers write text.
                        Value::Text(id) => id.clone().into_bytes(),
                        _ => return Err(malformed("a key id is bytes")),
                    };
                    headers.key_id.replace(id).is_some()
                }
                CRITICAL => std::mem::replace(&mut headers.is_critical, true),
                CLAIMS => std::mem::replace(&mut headers.has_claims, true),
                _ => false,
            };
            if is_twice {
                return Err(malformed("a header has a parameter twice"));
            }
        }
        Ok(headers)
    }
}

/// The text of a token with `payload`; `sign` makes the signature of the covered bytes.
pub(super) fn seal(
    algorithm: CatAlgorithm,
    key_id: &[u8],
    payload: Vec<u8>,
    sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Option<String> {
    let protected = HeaderBuilder::new().algorithm(algorithm.number()).build();
    let unprotected = HeaderBuilder::new().key_id(key_id.to_vec()).build();
    let bytes = match algorithm {
        CatAlgorithm::Hs256 => {
            let builder = CoseMac0Builder::new().protected(protected).unprotected(unprotected);
            let builder = builder.payload(payload);
            builder.try_create_tag(&[], |covered| sign(covered).ok_or(())).ok()?.build().to_vec()
        }
        _ => {
            let builder = CoseSign1Builder::new().protected(protected).unprotected(unprotected);
            let builder = builder.payload(payload);
            let signed = builder.try_create_signature(&[], |covered| sign(covered).ok_or(()));
            signed.ok()?.build().to_vec()
        }
    };
    // Tags 61 and 17 or 18, which are two bytes and one byte (RFC 8949, section 3).
    let tags = [0xd8, CWT_TAG as u8, 0xc0 | algorithm.tag() as u8];
    Some(BASE64URL_NOPAD.encode(&[&tags[..], &bytes.ok()?].concat()))
}

fn malformed(why: &'static str) -> CatFault {
    CatFault::Malformed(why)
}
