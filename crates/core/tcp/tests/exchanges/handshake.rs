//! Opening: SYN-RECEIVED and SYN-SENT, options, half-open connections, cookies.

use fullbore_tcp::Config;

use crate::script::{plain, play};

/// RFC 9293 section 3.5, RFC 7323 section 1.3, RFC 2018 section 2: the answer has the options that the SYN offers.
#[test]
fn a_syn_is_answered_with_the_options_that_it_offers() {
    let config = Config { timestamps: true, ..plain() };
    play(
        config,
        "
        < S 0:0(0) win 65535 <mss 1460,sackOK,TS val 700 ecr 0,wscale 7>
        > S. 0:0(0) ack 1 win 16384 <mss 1460,sackOK,TS val 0 ecr 700,wscale 0>
        +10ms < . 1:1(0) ack 1 win 512 <TS val 710 ecr 0>
        event accepted
        count accepted 1
        ",
    );
}

/// RFC 9293 section 3.7.1: without the MSS option a peer takes 536 bytes.
#[test]
fn a_syn_without_options_gets_none_but_the_segment_size() {
    play(
        plain(),
        "
        < S 0:0(0) win 65535
        > S. 0:0(0) ack 1 win 16384 <mss 1460>
        < . 1:1(0) ack 1 win 65535
        write 1000
        > P. 1:1001(1000) ack 1
        ",
    );
    let config = Config { tso_bytes_max: 0, ..plain() };
    play(
        config,
        "
        < S 0:0(0) win 65535
        > S. 0:0(0) ack 1
        < . 1:1(0) ack 1 win 65535
        write 1000
        > . 1:537(536) ack 1
        > P. 537:1001(464) ack 1
        ",
    );
}

/// RFC 6298 section 2.1 and 5.5: after one second, then after twice the time before.
#[test]
fn a_lost_syn_ack_is_sent_again_until_it_is_given_up() {
    play(
        plain(),
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        +1s > S. 0:0(0) ack 1
        +2s > S. 0:0(0) ack 1
        +4s > S. 0:0(0) ack 1
        +8s > S. 0:0(0) ack 1
        +16s
        count half_open_expired 1
        < . 1:1(0) ack 1 win 65535
        > R 1:1(0)
        ",
    );
}

#[test]
fn a_syn_that_comes_again_is_answered_again() {
    play(
        plain(),
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        +500ms < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < . 1:1(0) ack 1 win 65535
        event accepted
        ",
    );
}

/// RFC 9293 section 3.10.7.4, SYN-RECEIVED.
#[test]
fn a_reset_ends_a_half_open_connection_only_with_the_right_number() {
    play(
        plain(),
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < R 5:5(0)
        < . 1:1(0) ack 1 win 65535
        event accepted
        ",
    );
    play(
        plain(),
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < R 1:1(0)
        count reset_received 1
        +5s < . 1:1(0) ack 1 win 65535
        > R 1:1(0)
        ",
    );
}

/// RFC 9293 section 3.10.7.4: <SEQ=SEG.ACK><CTL=RST>, and the connection continues.
#[test]
fn a_wrong_acknowledgement_of_the_syn_ack_is_reset() {
    play(
        plain(),
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < . 1:1(0) ack 7 win 65535
        > R 7:7(0)
        < . 1:1(0) ack 1 win 65535
        event accepted
        ",
    );
}

#[test]
fn the_request_may_come_with_the_last_segment_of_the_handshake() {
    play(
        plain(),
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < P. 1:101(100) ack 1 win 65535
        > . 1:1(0) ack 101
        event readable
        read 100
        ",
    );
}

/// The bare ACK was lost; the data after it has the same acknowledgement number.
#[test]
fn data_ahead_of_a_gap_completes_the_handshake() {
    play(
        plain(),
        "
        < S 0:0(0) win 65535 <mss 1460,sackOK>
        > S. 0:0(0) ack 1
        < P. 101:201(100) ack 1 win 65535
        > . 1:1(0) ack 1 <sack 101:201>
        event accepted
        < P. 1:101(100) ack 1 win 65535
        > . 1:1(0) ack 201
        read 200
        ",
    );
}

/// RFC 9293 section 3.10.7.1.
#[test]
fn segments_for_nobody_are_reset_and_resets_are_not() {
    play(
        plain(),
        "
        < . 5:5(0) ack 9 win 0
        > R 9:9(0)
        < F 5:15(10) win 0
        > R. 0:0(0) ack 16
        < R 5:5(0)
        < S. 0:0(0) ack 1
        > R 1:1(0)
        count no_connection 4
        ",
    );
    let nobody = Config { listen: vec![], ..plain() };
    play(nobody, "< FS 0:0(0) win 1\ncount syn_malformed 1");
}

/// RFC 4987 section 3.6: options travel in the timestamp, the segment size in the sequence number.
#[test]
fn without_room_for_half_open_connections_cookies_do() {
    let config = Config { half_open_max: 0, timestamps: true, ..plain() };
    play(
        config.clone(),
        "
        +3s < S 0:0(0) win 65535 <mss 1400,sackOK,TS val 700 ecr 0,wscale 7>
        > S. 0:0(0) ack 1
        count syn_cookies_sent 1
        +10ms < . 1:1(0) ack 1 win 500 <TS val 710 ecr 0>
        event accepted
        count syn_cookies_accepted 1
        write 3000
        > P. 1:3001(3000) ack 1
        ",
    );
    // Without timestamps only the segment size survives.
    play(
        config,
        "
        < S 0:0(0) win 65535 <mss 1400,sackOK,wscale 7>
        > S. 0:0(0) ack 1 <mss 1460>
        < P. 1:11(10) ack 1 win 65535
        > . 1:1(0) ack 11
        event accepted
        ",
    );
}

#[test]
fn a_guessed_cookie_is_not_answered() {
    let config = Config { half_open_max: 0, ..plain() };
    play(
        config,
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < . 1:1(0) ack 2 win 65535
        < P. 11:21(10) ack 1 win 65535       # has overtaken what is before it
        count syn_cookies_refused 2
        < P. 1:11(10) ack 1 win 65535
        > . 1:1(0) ack 11
        event accepted
        reset
        > R. 1:1(0) ack 11
        event ended ResetByUs
        +150s < . 1:1(0) ack 1 win 65535     # the cookie is too old by now
        > R 1:1(0)
        ",
    );
}

/// RFC 9293 section 3.10.7.3.
#[test]
fn an_active_open_completes() {
    let config = Config { timestamps: true, ..plain() };
    play(
        config,
        "
        connect
        > S 0:0(0) win 16384 <mss 1460,sackOK,TS val 0 ecr 0,wscale 0>
        +20ms < S. 0:0(0) ack 1 win 65535 <mss 1000,sackOK,TS val 9 ecr 0,wscale 3>
        > . 1:1(0) ack 1 win 16384 <TS val 20 ecr 9>
        event connected
        write 500
        > P. 1:501(500) ack 1
        ",
    );
}

#[test]
fn an_active_open_is_refused_by_a_reset_that_acknowledges_it() {
    play(
        plain(),
        "
        connect
        > S 0:0(0)
        < R. 0:0(0) ack 9          # for nothing that was sent
        < R. 0:0(0) ack 1
        event ended Refused
        ",
    );
}

/// RFC 6298 section 5.7 and RFC 3168 section 6.1.1.1: the second SYN does not ask for ECN.
#[test]
fn an_active_open_without_answer_is_given_up() {
    let config = Config { ecn: true, ..plain() };
    play(
        config,
        "
        connect
        > SEW 0:0(0)
        +1s > S 0:0(0)
        +2s > S 0:0(0)
        +4s > S 0:0(0)
        +8s > S 0:0(0)
        +16s
        event ended Unreachable
        ",
    );
}

/// RFC 9293 section 3.10.7.2 allows us to keep it or to have it sent again.
#[test]
fn data_on_a_syn_comes_again_after_the_handshake() {
    play(
        plain(),
        "
        < S 0:10(10) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < . 1:1(0) ack 1 win 65535
        event accepted
        < P. 1:11(10) ack 1 win 65535
        > . 1:1(0) ack 11
        read 10
        ",
    );
}

/// RFC 7323 section 2.2: a SYN's window is not scaled, all others are.
#[test]
fn windows_are_scaled_after_the_handshake() {
    play(
        Config { receive_bytes_max: 1 << 20, ..plain() },
        "
        < S 0:0(0) win 65535 <mss 1460,sackOK,wscale 7>
        > S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,wscale 5>
        < P. 1:65(64) ack 1 win 23
        > . 1:1(0) ack 65 win 32766
        event accepted
        write 5840
        > . 1:2921(2920) ack 65
        flight 2920
        ",
    );
}

/// A full server does not report it: the handshake may still succeed when another connection leaves.
#[test]
fn a_full_table_leaves_a_handshake_half_open() {
    play(
        Config { connections_max: 0, ..plain() },
        "
        < S 0:0(0) win 65535 <mss 1460>
        > S. 0:0(0) ack 1
        < . 1:1(0) ack 1 win 65535
        count connections_full 1
        +1s > S. 0:0(0) ack 1
        ",
    );
}

/// RFC 9293 section 3.5: two clients may open at once. A server refuses that.
#[test]
fn a_simultaneous_open_is_not_taken() {
    play(
        plain(),
        "
        connect
        > S 0:0(0)
        < S 0:0(0) win 65535 <mss 1460>
        count simultaneous_opens_refused 1
        +1s > S 0:0(0)
        ",
    );
}
