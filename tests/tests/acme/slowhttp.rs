//! slowhttptest's four modes against the address for challenges: the authority's question is answered, and so are viewers.

use crate::library;
use fullbore_tests::{Launch, SlowAttack, free_port};
use tempfile::tempdir;

#[test]
fn slow_clients_keep_no_authority_from_the_address_for_challenges() {
    if !SlowAttack::is_possible() {
        return;
    }
    let (library, state) = (library(), tempdir().unwrap());
    let [listen, https, unused] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let config = format!(
        "[tls.acme]\ndomains = [\"a.example.org\"]\ndirectory = \"http://{unused}/dir\"\nlisten = \"{listen}\"\nredirect_http = true\n"
    );
    let launch = Launch::of(library.path()).config(&config).state(state.path());
    let server = launch.listen(&https).arguments("--workers 1").start();
    let challenge = format!("http://{listen}/.well-known/acme-challenge/x");
    let redirected = format!("http://{listen}/film.mp4");
    let film = format!("https://{}/film.mp4", server.address);
    let mut attack = SlowAttack::on(&[&challenge, &redirected], 150, 30);
    while attack.goes_on() {
        // There is no such challenge.
        attack.others_get(&challenge, "404");
        attack.others_get(&redirected, "308");
        attack.others_get(&film, "200");
    }
}
