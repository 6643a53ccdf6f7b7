//! Restarting where a server was a moment ago: on the same addresses, however it ended.

use fullbore_tests::tool::Ran;
use fullbore_tests::{Launch, Plain, Server, Signal};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use tempfile::{TempDir, tempdir};

/// How often a server is restarted. When there was a bug, nearly every start failed.
const TIMES: usize = 6;

/// Addresses that no other test uses: this process's own on the loopback network, and ports that no connection gets.
fn own_addresses(first_port: u16) -> (SocketAddr, SocketAddr) {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 1, high, low);
    ((host, first_port).into(), (host, first_port + 1).into())
}

fn library() -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("note.txt"), "this is the note").unwrap();
    folder
}

/// Starts servers one after another on the same addresses, each ended by `signal`.
fn start_again_and_again(signal: Signal, arguments: &str, first_port: u16) -> Vec<Server> {
    let (folder, state) = (library(), tempdir().unwrap());
    let (listen, admin) = own_addresses(first_port);
    let start = || {
        let launch = Launch::of(folder.path()).arguments(arguments).state(state.path());
        launch.listen(&listen.to_string()).admin(&admin.to_string()).start()
    };
    let mut ended = Vec::new();
    for _ in 0..TIMES {
        let mut server = start();
        // A viewer who stays: the connection ends with the server. (Over TLS the viewer would have to do a handshake
        // first.)
        let viewer = arguments.contains("--tls off").then(|| Plain::connect(listen));
        assert_eq!(server.admin_page("/healthz").0, 200);
        server.signal(signal);
        server.wait_closely();
        if signal == Signal::TERM {
            for address in [listen, admin] {
                let free =
                    TcpListener::bind(address).map_err(|error| format!("{address}: {error}"));
                drop(free.expect("its addresses end with it"));
            }
        }
        drop(viewer);
        ended.push(server);
    }
    assert_eq!(start().admin_page("/healthz").0, 200);
    ended
}

#[test]
fn after_sigterm_its_addresses_are_free_at_once() {
    for (arguments, first_port) in [("--tls off", 20_000), ("", 20_010)] {
        for server in start_again_and_again(Signal::TERM, arguments, first_port) {
            let said = server.stderr.lines();
            assert!(!said.iter().any(|line| line.contains("is taken")), "{said:?}");
        }
    }
}

#[test]
fn after_sigkill_the_next_server_waits_for_its_addresses() {
    for (arguments, first_port) in [("--tls off", 20_020), ("", 20_030)] {
        start_again_and_again(Signal::KILL, arguments, first_port);
    }
}

/// Runs the program on these addresses until it exits because one of them is in use.
fn refused(listen: SocketAddr, admin: SocketAddr) -> Ran {
    let folder = library();
    let launch = Launch::of(folder.path()).arguments("--tls off").admin(&admin.to_string());
    let ran = launch.listen(&listen.to_string()).run();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.is_empty(), "{}", ran.text());
    ran
}

#[test]
fn a_port_whose_holder_stays_is_named_whoever_has_it() {
    let folder = library();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = Server::start(folder.path(), "--tls off");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let holders = [taken.local_addr().unwrap(), running.address, running.admin];
    // All at the same time: each waits in vain for the first server to exit.
    std::thread::scope(|scope| {
        for address in holders {
            for (flag, listen, admin) in [("--listen", address, any), ("--admin", any, address)] {
                scope.spawn(move || {
                    let said = refused(listen, admin).stderr;
                    let lines: Vec<&str> = said.lines().collect();
                    let [waiting, failed] = lines[..] else { panic!("{said}") };
                    assert!(waiting.contains(&format!("{address} is taken; waiting")), "{said}");
                    for part in [flag, &format!("cannot listen on {address}")] {
                        assert!(failed.contains(part), "{part:?} is not in: {failed}");
                    }
                });
            }
        }
    });
}

#[test]
fn a_port_that_an_outgoing_connection_has_is_told_from_others() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    // The kernel chooses its port, as for any connection that a program opens.
    let connection = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let held = connection.local_addr().unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let said = refused(held, any).stderr;
    for part in ["outgoing connections", &format!("ip_local_reserved_ports={}", held.port())] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    // A port that Linux never assigns by itself.
    let (listen, _) = own_addresses(20_040);
    let holder = TcpListener::bind(listen).unwrap();
    let said = refused(listen, any).stderr;
    assert!(said.contains("cannot listen") && !said.contains("outgoing connections"), "{said}");
    drop(holder);
}
