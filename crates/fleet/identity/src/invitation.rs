//! Invitations: permission from an operator for one machine to join, once, within a limited time.
//!
//! The operator transfers the token to the machine. It has the fingerprint of the fleet's authority, so the machine can authenticate the gateway
//! before it sends anything. The fleet stores only a digest of the token's secret: a reader of the store, or of a backup, can't join with it.

use std::fmt::{self, Debug, Display, Formatter};
use std::str::FromStr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use data_encoding::HEXLOWER;
use fleet_protocol::{Digest, Name};

use crate::{RefusalReason, SigningRequest, is_hex, random};

const ID_DIGITS: usize = 16;
const SECRET_DIGITS: usize = 64;

/// The token for the machine: `ID.SECRET.FINGERPRINT`, all in hex digits.
#[derive(Clone, PartialEq, Eq)]
pub struct InvitationToken {
    id: String,
    secret: String,
    fingerprint: Digest,
}

/// The text is not a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a token of an invitation: copy all that `fullbore control invite` printed")]
pub struct BadToken;

impl InvitationToken {
    /// Draws a token for the fleet whose authority has this fingerprint.
    pub fn draw(fingerprint: Digest) -> Self {
        let id = HEXLOWER.encode(&random::<{ ID_DIGITS / 2 }>());
        let secret = HEXLOWER.encode(&random::<{ SECRET_DIGITS / 2 }>());
        Self { id, secret, fingerprint }
    }

    /// The stored digest of the secret. The secret has 256 random bits, so guessing is hopeless, and a plain digest is sufficient.
    pub fn digest(&self) -> Digest {
        Digest::of(self.secret.as_bytes())
    }

    /// The invitation's ID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// SHA-256 of the certificate of the fleet's authority.
    pub fn fingerprint(&self) -> Digest {
        self.fingerprint
    }
}

/// The full token, including the secret.
impl Display for InvitationToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.id, self.secret, self.fingerprint)
    }
}

/// Without the secret, because this may end up in a log.
impl Debug for InvitationToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "InvitationToken({})", self.id)
    }
}

impl FromStr for InvitationToken {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let mut parts = text.split('.');
        let (Some(id), Some(secret), Some(fingerprint), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(BadToken);
        };
        if !is_hex(id, ID_DIGITS) || !is_hex(secret, SECRET_DIGITS) {
            return Err(BadToken);
        }
        let fingerprint = fingerprint.parse().map_err(|_| BadToken)?;
        Ok(Self { id: id.to_owned(), secret: secret.to_owned(), fingerprint })
    }
}

/// The stored part of an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// [`InvitationToken::digest`].
    pub digest: Digest,
    /// The only permitted name, if set.
    pub node: Option<Name>,
    /// When it expires, since 1970.
    pub expires_unix_seconds: u64,
    /// The node that used it.
    pub used: Option<Used>,
}

/// The node that used an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The node.
    pub node: Name,
    /// Digest of its public key.
    pub key: Digest,
}

/// How a machine may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// For the first time.
    First,
    /// The same machine with the same key asks again, because the answer got lost. It gets another certificate.
    Again,
}

impl Invitation {
    /// Whether a machine with `token` and `request` may join.
    ///
    /// # Errors
    /// The reason if it may not. Only a matching token is reported as expired or used.
    pub fn check(
        &self,
        token: &InvitationToken,
        request: &SigningRequest,
        now_unix_seconds: u64,
    ) -> Result<JoinKind, RefusalReason> {
        let (sent, own) = (token.digest(), self.digest);
        verify_slices_are_equal(sent.as_bytes(), own.as_bytes())
            .map_err(|_| RefusalReason::TokenUnknown)?;
        if now_unix_seconds >= self.expires_unix_seconds {
            return Err(RefusalReason::TokenExpired);
        }
        if self.node.as_ref().is_some_and(|node| node != request.node()) {
            return Err(RefusalReason::TokenForOther);
        }
        match &self.used {
            None => Ok(JoinKind::First),
            Some(used) if used.node == *request.node() && used.key == request.key() => {
                Ok(JoinKind::Again)
            }
            Some(_) => Err(RefusalReason::TokenUsed),
        }
    }
}

/// The command for the new machine. Without a host, the operator fills in HOST: the name or address under which viewers reach the machine.
pub fn join_command(gateways: &[String], token: &InvitationToken, host: Option<&str>) -> String {
    format!(
        "fullbore join {} --token {token} --state /var/lib/fullbore --host {}",
        gateways.join(" "),
        host.unwrap_or("HOST")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeKey;

    const NOW: u64 = 1_800_000_000;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn drawn(node: Option<Name>) -> (Invitation, InvitationToken) {
        let token = InvitationToken::draw(Digest::of(b"authority"));
        let expires_unix_seconds = NOW + 3600;
        (Invitation { digest: token.digest(), node, expires_unix_seconds, used: None }, token)
    }

    fn used_by(mut invitation: Invitation, request: &SigningRequest) -> Invitation {
        invitation.used = Some(Used { node: request.node().clone(), key: request.key() });
        invitation
    }

    fn request(node: &str) -> SigningRequest {
        SigningRequest::check(&NodeKey::draw().request(&name(node)), &name(node)).unwrap()
    }

    #[test]
    fn a_token_works_once_and_for_its_time() {
        let (invitation, token) = drawn(None);
        let box_1 = request("node-1");
        assert_eq!(invitation.check(&token, &box_1, NOW), Ok(JoinKind::First));
        assert_eq!(invitation.check(&token, &box_1, NOW + 3599), Ok(JoinKind::First));
        assert_eq!(invitation.check(&token, &box_1, NOW + 3600), Err(RefusalReason::TokenExpired));
        let used = used_by(invitation, &box_1);
        assert_eq!(used.check(&token, &request("node-2"), NOW), Err(RefusalReason::TokenUsed));
        // The same name is not enough: it may be a thief, or another machine.
        assert_eq!(used.check(&token, &request("node-1"), NOW), Err(RefusalReason::TokenUsed));
        assert_eq!(used.check(&token, &box_1, NOW), Ok(JoinKind::Again));
        assert_eq!(used.check(&token, &box_1, NOW + 3600), Err(RefusalReason::TokenExpired));
    }

    #[test]
    fn a_forged_token_is_unknown_whatever_became_of_the_right_one() {
        let (invitation, token) = drawn(None);
        let (_, other) = drawn(None);
        let box_1 = request("node-1");
        let forged = InvitationToken { secret: other.secret.clone(), ..token.clone() };
        assert_eq!(invitation.check(&forged, &box_1, NOW + 3600), Err(RefusalReason::TokenUnknown));
        assert_eq!(invitation.check(&other, &box_1, NOW), Err(RefusalReason::TokenUnknown));
        let used = used_by(invitation, &box_1);
        assert_eq!(used.check(&forged, &box_1, NOW), Err(RefusalReason::TokenUnknown));
    }

    #[test]
    fn an_invitation_for_a_name_is_for_no_other() {
        let (invitation, token) = drawn(Some(name("node-1")));
        assert_eq!(invitation.check(&token, &request("node-1"), NOW), Ok(JoinKind::First));
        assert_eq!(
            invitation.check(&token, &request("node-2"), NOW),
            Err(RefusalReason::TokenForOther)
        );
    }

    #[test]
    fn neither_the_store_nor_a_log_learns_the_secret() {
        let (invitation, token) = drawn(None);
        let shown = format!("{invitation:?} {token:?}");
        assert!(!shown.contains(&token.secret) && shown.contains(token.id()));
    }

    #[test]
    fn a_token_reads_what_it_writes() {
        let (_, token) = drawn(None);
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        let upper = text.to_ascii_uppercase();
        for bad in ["", "a.b.c", &text[1..], &format!("{text}.0"), &format!("{text}0"), &upper] {
            assert_eq!(bad.parse::<InvitationToken>(), Err(BadToken), "{bad}");
        }
    }

    #[test]
    fn the_printed_command_has_all_that_a_box_needs() {
        let (_, token) = drawn(None);
        let gateways = ["https://a:8702".to_owned(), "https://b:8702".to_owned()];
        let command = join_command(&gateways, &token, None);
        assert!(command.starts_with("fullbore join https://a:8702 https://b:8702 --token "));
        assert!(command.contains(&token.to_string()) && command.ends_with(" --host HOST"));
        let command = join_command(&gateways, &token, Some("box1.example"));
        assert!(command.ends_with(" --host box1.example"));
    }
}
