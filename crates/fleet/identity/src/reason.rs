//! Reasons for refusing a machine or a guest's handshake.

/// Why a machine's connection or request, or a guest's handshake, was refused. Each reason has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The peer's certificate is from another authority.
    OtherAuthority,
    /// The peer's certificate has expired, or is not valid yet.
    Expired,
    /// The peer's certificate is not a node's.
    NotANode,
    /// The peer's certificate is not an operator's.
    NotAnOperator,
    /// The peer speaks plain HTTP.
    PlainHttp,
    /// The TLS handshake failed for another reason.
    HandshakeFailed,
    /// The TLS handshake took too long.
    HandshakeSlow,
    /// There are too many connections, in total or from this source.
    TooManyConnections,
    /// The request needs a node's certificate, and has none.
    NoCertificate,
    /// The node, or its certificate, was revoked.
    Revoked,
    /// The fleet has no such node.
    UnknownNode,
    /// The invitation's token does not belong to this fleet.
    TokenUnknown,
    /// The invitation has expired.
    TokenExpired,
    /// The invitation was used.
    TokenUsed,
    /// The invitation is for another name.
    TokenForOther,
    /// The certificate signing request is invalid.
    BadSigningRequest,
    /// Another node has the name.
    NameTaken,
    /// Another node, or a gateway, has the host.
    HostTaken,
    /// A node's report is about another node.
    OtherName,
    /// A node's report is older than an earlier one.
    Stale,
    /// The body is larger than its bound.
    BodyTooLarge,
    /// The body arrived too slowly.
    BodySlow,
    /// The body is not valid JSON of the expected type.
    Malformed,
    /// A field is out of its bounds.
    OutOfBounds,
    /// A node claims to have sent more than it can.
    OverCeiling,
    /// There were too many requests.
    Flood,
    /// The requested item does not exist.
    NotFound,
    /// The gateway cannot do it at present.
    Unavailable,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [Self; 28] = [
        Self::OtherAuthority,
        Self::Expired,
        Self::NotANode,
        Self::NotAnOperator,
        Self::PlainHttp,
        Self::HandshakeFailed,
        Self::HandshakeSlow,
        Self::TooManyConnections,
        Self::NoCertificate,
        Self::Revoked,
        Self::UnknownNode,
        Self::TokenUnknown,
        Self::TokenExpired,
        Self::TokenUsed,
        Self::TokenForOther,
        Self::BadSigningRequest,
        Self::NameTaken,
        Self::HostTaken,
        Self::OtherName,
        Self::Stale,
        Self::BodyTooLarge,
        Self::BodySlow,
        Self::Malformed,
        Self::OutOfBounds,
        Self::OverCeiling,
        Self::Flood,
        Self::NotFound,
        Self::Unavailable,
    ];

    /// The reasons for which a guest's handshake is refused.
    pub const OF_GUESTS: [Self; 7] = [
        Self::OtherAuthority,
        Self::Expired,
        Self::NotAnOperator,
        Self::PlainHttp,
        Self::HandshakeFailed,
        Self::HandshakeSlow,
        Self::TooManyConnections,
    ];

    /// Its name in metrics, logs and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OtherAuthority => "other_authority",
            Self::Expired => "expired",
            Self::NotANode => "not_a_node",
            Self::NotAnOperator => "not_an_operator",
            Self::PlainHttp => "plain_http",
            Self::HandshakeFailed => "handshake_failed",
            Self::HandshakeSlow => "handshake_slow",
            Self::TooManyConnections => "too_many_connections",
            Self::NoCertificate => "no_certificate",
            Self::Revoked => "revoked",
            Self::UnknownNode => "unknown_node",
            Self::TokenUnknown => "token_unknown",
            Self::TokenExpired => "token_expired",
            Self::TokenUsed => "token_used",
            Self::TokenForOther => "token_for_other",
            Self::BadSigningRequest => "bad_signing_request",
            Self::NameTaken => "name_taken",
            Self::HostTaken => "host_taken",
            Self::OtherName => "other_name",
            Self::Stale => "stale",
            Self::BodyTooLarge => "body_too_large",
            Self::BodySlow => "body_slow",
            Self::Malformed => "malformed",
            Self::OutOfBounds => "out_of_bounds",
            Self::OverCeiling => "over_ceiling",
            Self::Flood => "flood",
            Self::NotFound => "not_found",
            Self::Unavailable => "unavailable",
        }
    }
}
