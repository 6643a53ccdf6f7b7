//! Counters that have a label: one metric, a count for each reason, status or suite.

use crate::metric::{Kind, Metric};

macro_rules! families {
    ($($family:ident $name:ident by $label:ident $help:literal;)*) => {
        /// Families of counters that have a label.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Family {
            $(#[doc = $help] $family,)*
        }

        impl Family {
            /// Every family.
            pub const ALL: &'static [Self] = &[$(Self::$family,)*];

            /// The family's metric.
            pub const fn metric(self) -> &'static Metric {
                match self {
                    $(Self::$family => {
                        const METRIC: Metric = Metric::new(
                            Kind::Counter,
                            concat!("fullbore_", stringify!($name)),
                            $help,
                        )
                        .by(stringify!($label));
                        &METRIC
                    })*
                }
            }
        }
    };
}

families! {
    Ends connections_ended_total by reason "Connections ended, by reason.";
    ConnectionsRefused connections_refused_total by reason "Connections refused, by reason.";
    MovesRefused connections_move_refused_total by reason "Connections that stayed with their worker although their film's disk is in another silo, by reason (--silo disk).";
    Handshakes handshakes_total by suite "TLS handshakes done, by version and cipher suite.";
    Resumptions handshakes_by_kind_total by kind "TLS handshakes done, full or resumed.";
    Homes connections_by_home_total by home "Connections accepted on a machine with several silos, by whether the network card on which they arrived is of the worker's own silo.";
    Responses responses_total by status "Responses, by status.";
    Refusals requests_refused_total by reason "Requests refused, by reason.";
    Routes connections_by_route_total by route "Connections established, by route.";
    KernelTlsRefusals kernel_tls_refused_total by reason "Connections that the kernel did not encrypt, by reason.";
    KernelTlsWithheld kernel_tls_withheld_total by reason "Connections that the kernel does not encrypt because of the network device by which they leave, by reason.";
    NicTls card_tls_connections_total by got "Connections whose keys were meant for a network card that encrypts, by where the keys went: the card, the kernel on the CPU, or unclear if the kernel's counters do not show it.";
    NicTlsCostly card_tls_costly_total by reason "Connections that a network card encrypts and that retransmit too much, by whether it is bytes or segments. They end with their next response.";
    Tcp tcp_events_total by event "Events in the server's own TCP, including refused segments (bypass).";
    TcpPayload tcp_payload_bytes_total by kind "Payload of the server's own TCP, by what happened to it (bypass).";
    Held bypass_held_total by reason "Byte ranges that the server's own TCP requested and then did not send in full, by reason (bypass).";
    Copied bypass_copied_bytes_total by to "Bytes to be sent that the server copied in its own memory, by where to (bypass).";
    Frames frames_total by event "Frames of the network device, by event (bypass).";
    FramesRefused frames_refused_total by reason "Frames refused, by reason (bypass).";
    EdgeLookups edge_lookups_total by result "Files looked up by a caching edge, by result.";
    EdgeFailures edge_failures_total by reason "Objects that a caching edge could not fetch or keep, by reason.";
    EdgeRetries edge_retries_total by reason "Requests of a caching edge to its origin that were retried, by reason.";
    EdgeOriginAnswers edge_origin_answers_total by origin "Requests that an origin of a caching edge answered, by its place in the order of preference.";
    EdgeOriginFailures edge_origin_failures_total by origin "Requests that an origin of a caching edge did not answer, or with an error of its own, by its place in the order of preference.";
    EdgeAhead edge_ahead_bytes_total by result "Bytes that a caching edge fetched ahead of viewers, that viewers have taken of them, and that were wasted.";
    EdgePurges edge_purges_total by kind "Purges that a caching edge carried out, by what they name and whether they are soft.";
    EdgePurged edge_purged_total by kind "Objects that purges removed from a caching edge's cache or marked as stale: films in blocks, and other responses.";
    EdgeDropped edge_dropped_total by reason "Responses stored before a restart that a caching edge dropped because a file was damaged: the head, or the body.";
}
