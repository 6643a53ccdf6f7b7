//! Keys that sign viewers' addresses: which one signs at a time, which ones nodes trust, and how keys roll.
//!
//! Nodes trust a key before it signs, and for as long as a token signed with it can be valid. So no viewer is refused during a roll:
//!
//! | from | a new key | the key before it |
//! |---|---|---|
//! | the roll | is sent to nodes | signs |
//! | `signs_from` | signs | no longer signs; nodes still trust it |
//! | `trusted_until` of the old key | signs | nodes forget it |
//!
//! The first key of a fleet goes the other way round: it signs at once, and nodes get it later (`told_from`). Until then, they serve with or
//! without a token, so that viewers who started without one can finish.
//!
//! A stolen key is distrusted instead: a new one replaces it at once, and all tokens of the old one become invalid.
//!
//! Read the table first, then [`roll`] and [`distrust`]. There is no clock here.

use std::cmp::Reverse;

use token::{Grant, KeyRing};

use store::records::{Stored, TokenKeyRecord};

/// When a rolled key starts to sign: default and minimum. Nodes have a new key after some ten seconds: a heartbeat (5 s) delivers it, and the
/// server checks its file every 2 s. The rest is for nodes that are disconnected for a while, and for clocks that differ.
pub(crate) const SIGNS_AFTER_SECONDS: u64 = 600;
pub(crate) const SIGNS_AFTER_SECONDS_MIN: u64 = 10;

/// The longest delay that an operator may request.
pub(crate) const SIGNS_AFTER_SECONDS_MAX: u64 = 7 * 24 * 3600;

/// Tolerated difference of clocks: a node's clock decides when a token expires, and a gateway's clock when trust in its key ends.
const CLOCKS_SECONDS: u64 = 600;

/// A key's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPhase {
    /// Nodes have it or are about to get it, but it does not sign yet.
    Waiting,
    /// It signs.
    Signs,
    /// It no longer signs, but its tokens are still valid.
    Trusted,
    /// Its tokens have expired.
    Gone,
}

impl KeyPhase {
    /// Its name in the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Signs => "signs",
            Self::Trusted => "trusted",
            Self::Gone => "gone",
        }
    }
}

/// The fleet's keys, the newest first.
pub(crate) struct TokenKeys(Vec<(KeyRing, TokenKeyRecord)>);

/// The key that signs now.
pub(crate) struct Signer {
    ring: KeyRing,
    trusted_until_unix_seconds: Option<u64>,
}

impl Signer {
    /// A token for a title. It never outlives the trust in its key.
    pub(crate) fn sign(&self, title: &str, expires_unix_seconds: u64) -> Option<String> {
        let until = self.trusted_until_unix_seconds.unwrap_or(u64::MAX);
        let expires_unix_seconds = expires_unix_seconds.min(until);
        self.ring.sign(&Grant { prefix: title.as_bytes(), expires_unix_seconds, client: None })
    }
}

impl TokenKeys {
    /// The keys in `records`; `problems` gets an entry for each invalid one.
    pub(crate) fn new(records: Vec<(String, TokenKeyRecord)>, problems: &mut Vec<String>) -> Self {
        let mut keys = Vec::new();
        for (name, record) in records {
            match KeyRing::parse(&key_pem(record.pkcs8.reveal())) {
                Ok(ring) => keys.push((name, ring, record)),
                Err(error) => problems
                    .push(format!("the key {name} for viewers' addresses cannot be used: {error}")),
            }
        }
        keys.sort_by(|(a, _, one), (b, _, other)| {
            let newest = |key: &TokenKeyRecord| Reverse(key.signs_from_unix_seconds);
            newest(one).cmp(&newest(other)).then_with(|| a.cmp(b))
        });
        Self(keys.into_iter().map(|(_, ring, record)| (ring, record)).collect())
    }

    /// Each key's ID, as used in tokens, with its record and its phase.
    pub(crate) fn phases(
        &self,
        now: u64,
    ) -> impl Iterator<Item = (&str, &TokenKeyRecord, KeyPhase)> {
        let signs = self.signing(now);
        self.0.iter().enumerate().map(move |(at, (ring, record))| {
            let phase = if !is_trusted(record, now) {
                KeyPhase::Gone
            } else if signs == Some(at) {
                KeyPhase::Signs
            } else if record.signs_from_unix_seconds > now {
                KeyPhase::Waiting
            } else {
                KeyPhase::Trusted
            };
            (ring.ids().next().unwrap_or_default(), record, phase)
        })
    }

    /// The newest key that may sign now.
    fn signing(&self, now: u64) -> Option<usize> {
        let signs = |key: &TokenKeyRecord| key.signs_from_unix_seconds <= now;
        self.0.iter().position(|(_, key)| signs(key) && is_trusted(key, now))
    }

    /// The key that signs now, if there is one.
    pub(crate) fn signer(&self, now: u64) -> Option<Signer> {
        let (_, record) = &self.0[self.signing(now)?];
        let ring = KeyRing::parse(&key_pem(record.pkcs8.reveal())).ok()?;
        Some(Signer { ring, trusted_until_unix_seconds: record.trusted_until_unix_seconds })
    }

    /// The public keys for nodes at this time, as the text of a key file; empty without keys.
    pub(crate) fn told(&self, now: u64) -> String {
        let is_told = |key: &TokenKeyRecord| key.told_from_unix_seconds.is_none_or(|at| at <= now);
        let told = self.0.iter().filter(|(_, key)| is_told(key) && is_trusted(key, now));
        told.map(|(ring, _)| ring.public_keys()).collect()
    }

    /// When the result of [`signer`](Self::signer) or [`told`](Self::told) may next change.
    pub(crate) fn changes_at(&self, now: u64) -> Option<u64> {
        let times = |key: &TokenKeyRecord| {
            let end = key.trusted_until_unix_seconds;
            [Some(key.signs_from_unix_seconds), key.told_from_unix_seconds, end]
        };
        let times = self.0.iter().flat_map(|(_, key)| times(key)).flatten();
        times.filter(|at| *at > now).min()
    }
}

fn is_trusted(key: &TokenKeyRecord, now: u64) -> bool {
    key.trusted_until_unix_seconds.is_none_or(|until| until > now)
}

/// The changes that a roll makes in the store.
#[derive(Debug)]
pub(crate) struct Roll {
    /// The new key.
    pub(crate) new: TokenKeyRecord,
    /// Keys that stop signing, with their end.
    pub(crate) ending: Vec<(String, TokenKeyRecord)>,
    /// Keys whose tokens have expired: their records can be deleted.
    pub(crate) gone: Vec<String>,
}

/// Plans a roll to the key `new` at `now`, the time of its creation. `after` is the delay that the operator requests; `token_seconds` is the
/// longest lifetime of tokens from any gateway.
///
/// # Errors
/// Why the roll is refused: a sentence for the operator.
pub(crate) fn roll(
    keys: &[Stored<TokenKeyRecord>],
    mut new: TokenKeyRecord,
    after: Option<u64>,
    token_seconds: u64,
) -> Result<Roll, String> {
    let now = new.made_unix_seconds;
    if after.is_some_and(|after| after > SIGNS_AFTER_SECONDS_MAX) {
        return Err("a roll may take at most seven days".to_owned());
    }
    let (live, gone): (Vec<_>, Vec<_>) =
        keys.iter().partition(|stored| is_trusted(&stored.record, now));
    let gone = gone.into_iter().map(|stored| stored.name.clone()).collect();
    if live.is_empty() {
        // Viewers without a token started before the fleet signed: they get as much time as those with one.
        let after = after.unwrap_or(token_seconds);
        new.told_from_unix_seconds = (after > 0).then_some(now + after);
        return Ok(Roll { new, ending: Vec::new(), gone });
    }
    let after = after.unwrap_or(SIGNS_AFTER_SECONDS);
    if after < SIGNS_AFTER_SECONDS_MIN {
        return Err(format!(
            "nodes must know a key before it signs: give them at least {SIGNS_AFTER_SECONDS_MIN} seconds"
        ));
    }
    for Stored { record, .. } in &live {
        let waits_for =
            record.signs_from_unix_seconds.max(record.told_from_unix_seconds.unwrap_or(0));
        if waits_for > now {
            let seconds = waits_for - now;
            return Err(format!(
                "the last roll is under way for {seconds} s more: roll again after that"
            ));
        }
    }
    new.signs_from_unix_seconds = now + after;
    let until = Some(now + after + token_seconds + CLOCKS_SECONDS);
    let ending =
        live.into_iter().filter(|stored| stored.record.trusted_until_unix_seconds.is_none());
    let ended = |stored: &Stored<TokenKeyRecord>| {
        let record = TokenKeyRecord { trusted_until_unix_seconds: until, ..stored.record.clone() };
        (stored.name.clone(), record)
    };
    Ok(Roll { new, ending: ending.map(ended).collect(), gone })
}

/// Plans the replacement of all keys by `new` at `now`, the time of its creation: tokens of the old keys become invalid. Viewers with such a token
/// are refused, and so are viewers with a new one at nodes that do not have the new key yet, which takes seconds.
///
/// # Errors
/// If there is no key to distrust: a sentence for the operator.
pub(crate) fn distrust(
    keys: &[Stored<TokenKeyRecord>],
    mut new: TokenKeyRecord,
) -> Result<Roll, String> {
    let now = new.made_unix_seconds;
    let live = || keys.iter().filter(|stored| is_trusted(&stored.record, now));
    if live().next().is_none() {
        return Err("this fleet does not sign viewers' addresses, so there is no key to distrust"
            .to_owned());
    }
    // If nodes do not require tokens yet, viewers without one keep the time that they were given.
    let is_told = |stored: &Stored<TokenKeyRecord>| {
        stored.record.told_from_unix_seconds.is_none_or(|at| at <= now)
    };
    if !live().any(is_told) {
        new.told_from_unix_seconds =
            live().filter_map(|stored| stored.record.told_from_unix_seconds).max();
    }
    let gone = keys.iter().map(|stored| stored.name.clone()).collect();
    Ok(Roll { new, ending: Vec::new(), gone })
}

/// Encodes PKCS #8 as the PEM block of a key file (RFC 7468).
fn key_pem(pkcs8: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(pkcs8);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use store::records::PrivateBytes;

    const NOW: u64 = 1_790_000_000;
    const TOKENS: u64 = 3600;

    fn drawn(now: u64) -> TokenKeyRecord {
        let (_, pkcs8) = fleet_protocol::SigningKey::draw().unwrap();
        TokenKeyRecord {
            pkcs8: PrivateBytes::new(pkcs8),
            made_unix_seconds: now,
            signs_from_unix_seconds: now,
            told_from_unix_seconds: None,
            trusted_until_unix_seconds: None,
        }
    }

    /// A store of keys, which rolls as the gateway does.
    #[derive(Default)]
    struct Store(Vec<Stored<TokenKeyRecord>>);

    impl Store {
        fn roll(&mut self, now: u64, after: Option<u64>) -> Result<(), String> {
            let Roll { new, ending, gone } = roll(&self.0, drawn(now), after, TOKENS)?;
            self.0.retain(|stored| !gone.contains(&stored.name));
            for (name, record) in ending {
                self.0.iter_mut().find(|stored| stored.name == name).unwrap().record = record;
            }
            self.0.push(Stored { name: format!("k{now}"), record: new, revision: 0 });
            Ok(())
        }

        fn distrust(&mut self, now: u64) -> Result<(), String> {
            let Roll { new, ending, gone } = distrust(&self.0, drawn(now))?;
            assert!(ending.is_empty());
            self.0.retain(|stored| !gone.contains(&stored.name));
            self.0.push(Stored { name: format!("k{now}"), record: new, revision: 0 });
            Ok(())
        }

        fn keys(&self) -> TokenKeys {
            let records = self.0.iter().map(|one| (one.name.clone(), one.record.clone()));
            let mut problems = Vec::new();
            let keys = TokenKeys::new(records.collect(), &mut problems);
            assert_eq!(problems, Vec::<String>::new());
            keys
        }

        fn token(&self, now: u64) -> Option<String> {
            self.keys().signer(now)?.sign("films/a", now + TOKENS)
        }

        /// Whether a node that got its keys at `told` serves an address with this token at `now`. Without keys, nodes require none.
        fn plays(&self, token: Option<&str>, told: u64, now: u64) -> bool {
            let any = IpAddr::from([192, 0, 2, 1]);
            let told = self.keys().told(told);
            if told.is_empty() {
                return true;
            }
            let ring = KeyRing::parse(&told).unwrap();
            token.is_some_and(|token| ring.check(token.as_bytes(), b"films/a/b", any, now).is_ok())
        }
    }

    #[test]
    fn nobody_is_refused_while_signing_begins_and_keys_roll() {
        let mut store = Store::default();
        assert_eq!(store.token(NOW), None);
        store.roll(NOW, None).unwrap();
        // It signs at once. Viewers without a token play on until tokens issued now would have expired.
        let first = store.token(NOW).expect("it signs");
        assert!(store.plays(None, NOW + TOKENS - 1, NOW + TOKENS - 1));
        assert!(!store.plays(None, NOW + TOKENS, NOW + TOKENS), "then a token is required");
        assert!(store.plays(Some(&first), NOW + TOKENS - 1, NOW + TOKENS - 1));
        let rolled = NOW + 2 * TOKENS;
        let before = store.token(rolled - 1).unwrap();
        store.roll(rolled, Some(60)).unwrap();
        let during = store.token(rolled + 59).unwrap();
        let after = store.token(rolled + 60).unwrap();
        let id = |token: &str| token.split('.').nth(2).unwrap().to_owned();
        assert_eq!(id(&before), id(&during));
        assert_ne!(id(&during), id(&after));
        // Each token works to its last second, including at a node that has just got the keys, or has not had an update for a minute.
        for (token, signed) in
            [(&before, rolled - 1), (&during, rolled + 59), (&after, rolled + 60)]
        {
            for age in [0, 60, TOKENS / 2, TOKENS - 1] {
                let now = signed + age;
                for told in [now, now.saturating_sub(60).max(rolled)] {
                    assert!(store.plays(Some(token), told, now), "{age} s after {signed}");
                }
            }
            assert!(!store.plays(Some(token), signed + TOKENS, signed + TOKENS));
        }
    }

    #[test]
    fn an_old_key_is_forgotten_when_its_last_token_has_ended() {
        let mut store = Store::default();
        store.roll(NOW, Some(0)).unwrap();
        store.roll(NOW + 1, Some(60)).unwrap();
        let end = NOW + 1 + 60 + TOKENS + CLOCKS_SECONDS;
        let told = |store: &Store, now| store.keys().told(now).matches("BEGIN").count();
        assert_eq!((told(&store, end - 1), told(&store, end)), (2, 1));
        let phases: Vec<_> = store.keys().phases(end).map(|(_, _, phase)| phase).collect();
        assert_eq!(phases, [KeyPhase::Signs, KeyPhase::Gone]);
        store.roll(end, None).unwrap();
        assert_eq!(store.0.len(), 2, "its record is gone");
    }

    #[test]
    fn a_token_never_outlives_the_trust_in_its_key() {
        let mut store = Store::default();
        store.roll(NOW, Some(0)).unwrap();
        store.roll(NOW + 1, Some(60)).unwrap();
        // A gateway whose tokens live longer than configured in the store.
        let token =
            store.keys().signer(NOW + 2).unwrap().sign("films/a", NOW + 10 * TOKENS).unwrap();
        let expires: u64 = token.split('.').next().unwrap().parse().unwrap();
        assert_eq!(expires, NOW + 1 + 60 + TOKENS + CLOCKS_SECONDS);
    }

    #[test]
    fn what_changes_with_time_is_known_before() {
        let mut store = Store::default();
        assert_eq!(store.keys().changes_at(NOW), None);
        store.roll(NOW, Some(100)).unwrap();
        assert_eq!(store.keys().changes_at(NOW), Some(NOW + 100));
        assert_eq!(store.keys().changes_at(NOW + 100), None);
        store.roll(NOW + 200, Some(60)).unwrap();
        assert_eq!(store.keys().changes_at(NOW + 200), Some(NOW + 260));
        let end = NOW + 260 + TOKENS + CLOCKS_SECONDS;
        assert_eq!(store.keys().changes_at(NOW + 260), Some(end));
    }

    #[test]
    fn a_distrusted_keys_tokens_end_at_once_also_in_the_middle_of_a_roll() {
        let mut store = Store::default();
        assert!(store.distrust(NOW).unwrap_err().contains("no key"));
        store.roll(NOW, Some(0)).unwrap();
        store.roll(NOW + 1, Some(60)).unwrap();
        let stolen = store.token(NOW + 2);
        store.distrust(NOW + 3).unwrap();
        let fresh = store.token(NOW + 3);
        for later in [3, 61, TOKENS - 1] {
            assert!(!store.plays(stolen.as_deref(), NOW + later, NOW + later), "{later}");
            assert!(store.plays(fresh.as_deref(), NOW + later, NOW + later), "{later}");
        }
        assert_eq!(store.0.len(), 1, "records of the others are gone");
        store.roll(NOW + 4, None).unwrap();
    }

    #[test]
    fn viewers_without_a_token_keep_their_time_when_the_first_key_is_distrusted() {
        let mut store = Store::default();
        store.roll(NOW, Some(100)).unwrap();
        store.distrust(NOW + 50).unwrap();
        assert!(store.token(NOW + 50).is_some());
        assert!(store.plays(None, NOW + 99, NOW + 99));
        assert!(!store.plays(None, NOW + 100, NOW + 100));
    }

    #[test]
    fn one_roll_at_a_time_and_none_too_fast() {
        let mut store = Store::default();
        store.roll(NOW, Some(100)).unwrap();
        assert!(store.roll(NOW + 50, Some(60)).unwrap_err().contains("under way for 50 s"));
        assert!(store.roll(NOW + 100, Some(9)).unwrap_err().contains("10 seconds"));
        store.roll(NOW + 100, Some(10)).unwrap();
        assert!(store.roll(NOW + 109, None).unwrap_err().contains("under way for 1 s"));
        assert_eq!(store.0.len(), 2);
    }
}
