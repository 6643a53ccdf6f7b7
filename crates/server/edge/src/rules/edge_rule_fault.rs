//! What can be wrong with a rule, and what to write instead.

use super::PatternFault;
use super::edge_rule::{NAMES_MAX, SECONDS_MAX};

/// The fault of a rule for some paths of an edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgeRuleFault {
    /// Its path.
    #[error("path: {0}")]
    Path(PatternFault),
    /// A name in one of its lists that no parameter can have.
    #[error(
        "{0} has {1:?}; write the name of a parameter, such as \"v\", or how names begin, such as \"utm_*\""
    )]
    Name(&'static str, String),
    /// A parameter that is not the operator's to choose.
    #[error(
        "{0} has {1:?}, which is for the edge itself and never reaches the origin; leave it out"
    )]
    OfEdge(&'static str, String),
    /// One of its lists is too long.
    #[error("{0} has more than {NAMES_MAX} names; join them, as in \"utm_*\"")]
    TooMany(&'static str),
    /// Both lists.
    #[error(
        "query_keep already leaves out everything else; remove query_drop, or write query_drop alone"
    )]
    KeepAndDrop,
    /// Everything is left out, and some of it again.
    #[error(
        "query = \"drop\" already leaves out everything; remove query_drop, or the line with query"
    )]
    DropTwice,
    /// A query for an origin that gets none.
    #[error(
        "a bucket gets no query, so every URL that differs only there is one file already; remove query, query_keep and query_drop"
    )]
    QueryOfBucket,
    /// Cookies for an origin that gets none.
    #[error("a bucket gets no cookies; remove cookies = true")]
    CookiesOfBucket,
    /// A header that no request can have.
    #[error("{0} has {1:?}, which is not the name of a header")]
    HeaderName(&'static str, String),
    /// A header that a rule is not for, and why.
    #[error("{0} can't have {1}: {2}")]
    Header(&'static str, String, &'static str),
    /// A list of headers is too long.
    #[error("{0} has more than {1} names; leave some out")]
    TooManyHeaders(&'static str, usize),
    /// A header that the origin doesn't get can make no difference to its responses.
    #[error("headers_drop and headers_vary both have {0}; leave it out of one of them")]
    DropAndVary(String),
    /// A time.
    #[error("{0} must be 0 to {SECONDS_MAX}")]
    Seconds(&'static str),
    /// Two lifetimes, of which one never counts.
    #[error(
        "fresh_seconds already counts whatever the origin says; remove fresh_default_seconds, or fresh_seconds"
    )]
    FreshTwice,
    /// A setting for what is kept, and nothing is kept.
    #[error("cache = false keeps nothing; remove {0}")]
    KeptNot(&'static str),
    /// Headers for an origin that gets none.
    #[error("a bucket gets no headers of viewers; remove headers_drop and headers_vary")]
    HeadersOfBucket,
    /// Each viewer would fetch whole objects from a bucket.
    #[error("a bucket's objects are the same for all viewers; remove cache = false")]
    PassedBucket,
}
