//! The keys with which nodes prove to each other that they copy titles: see `token::CopyRing`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use fleet_protocol::CopyKeys;
use identity::{Authority, AuthorityError, Caller, RefusalReason};
use token::{copy_key_days, copy_key_line};

use super::speaking::answer;
use super::{MachineApi, MachineRefusal};

pub(super) async fn copy_keys(
    State(api): State<Arc<MachineApi>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
) -> Response {
    let keys = api.node(&caller).await.map(|_| api.machines.clock.now().unix_seconds());
    let keys = keys.and_then(|now| {
        let text = text(&api.machines.authority, now);
        let broken = |why: AuthorityError| {
            MachineRefusal::new(RefusalReason::Unavailable, format!("copy keys: {why}"))
        };
        text.map(CopyKeys::new).map_err(broken)
    });
    answer(&api, &caller, keys.map(Json))
}

/// The keys of the days around `now`. They are derived from the authority, so all gateways give out the same ones, and the store has none of them.
fn text(authority: &Authority, now_unix_seconds: u64) -> Result<String, AuthorityError> {
    let mut text = String::new();
    for day in copy_key_days(now_unix_seconds) {
        let secret = authority.derive(&format!("copies of day {day}"))?;
        text.push_str(&copy_key_line(day, &secret));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use token::CopyRing;

    const NOON: u64 = 20_785 * 86_400 + 43_200;

    #[test]
    fn nodes_of_one_fleet_prove_copies_to_each_other_whichever_gateway_and_day_their_keys_are_of() {
        let films = "films".parse().unwrap();
        let make = || Authority::make(&films, NOON).unwrap();
        let (own, other) = (make(), make());
        let gateway = Authority::read(&films, &own.pkcs8(), own.certificate_pem()).unwrap();
        let ring =
            |authority: &Authority, now| CopyRing::parse(&text(authority, now).unwrap()).unwrap();
        let proof = ring(&own, NOON).prove(b"a/b", NOON).unwrap();
        let proves = |ring: CopyRing| ring.proves(proof.as_bytes(), b"a/b", NOON);
        assert!(proves(ring(&gateway, NOON)) && proves(ring(&gateway, NOON - 86_400)));
        assert!(!proves(ring(&other, NOON)), "another authority");
    }
}
