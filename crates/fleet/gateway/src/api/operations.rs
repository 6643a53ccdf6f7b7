//! The table of the operator's API: all of its operations.

use super::operation::FieldKind::{List, Number, Object, Text, Truth, Whole};
use super::operation::Needed::{Admin, Operate, OperateOrPartner, Read, ReadOrPartner};
use super::operation::{ApiField, Operation, get, maybe, needed, post, put, with_large_body};
use super::{
    certificates, experience, gateways, issues, nodes, open_caching, operators, places, plans,
    purges, routing, titles, viewing,
};

const NODE_STATE: &[ApiField] = &[
    needed("node", Text, "The node's name."),
    needed("state", Text, "joining, serving, draining, drained, lost or revoked."),
];

const NODES: &[ApiField] = &[
    needed("nodes", List, "Nodes with state, load, clock and number of titles."),
    maybe("frozen", Text, "Why silent nodes are not declared lost at present, if they are not."),
    maybe("store_problem", Text, "Why the store accepts no changes at present, if it does not."),
];

const SITE: &[ApiField] = &[
    needed("region", Text, "Its region."),
    maybe("latitude", Number, "Degrees north."),
    maybe("longitude", Number, "Degrees east."),
    maybe("operator", Text, "The partner who runs it."),
    maybe("allowed", List, "Prefixes that it may announce."),
    maybe(
        "announced",
        List,
        "Announced prefixes: {prefix, as_path_length, med}; use a file for more than a few hundred.",
    ),
];

const POLICY: &[ApiField] = &[
    needed("scheme", Text, "Scheme of all nodes' addresses: http or https."),
    needed("port", Whole, "Port of all nodes."),
    needed("ttl_seconds", Whole, "Lifetime of a steering answer, 1 to 60."),
    needed("full_permille", Whole, "Load from which a node gets no new viewers, in thousandths."),
    needed("roomy_permille", Whole, "Load at which it gets new viewers again, in thousandths."),
];

const KEYS: &[ApiField] = &[needed(
    "keys",
    List,
    "Keys, newest first: {id, state (waiting, signs, trusted or gone), and when it was made, signs, goes to nodes and ends}.",
)];

const PLACEMENT: &[ApiField] = &[
    maybe(
        "floor_copies",
        Whole,
        "Copies of each title, each in another failure domain; default 3.",
    ),
    maybe(
        "cut_offs",
        Object,
        "The share of a region's most popular titles that nodes of each kind take for demand, in thousandths of the catalog: \
         {storage_permille, flash_permille, global_permille}; default 1000, 200, 1000.",
    ),
    maybe("churn_bytes_max", Whole, "Most bytes that a plan moves; no limit by default."),
    maybe(
        "worth_permille",
        Whole,
        "The least share of its bytes that a move for demand must serve per day, in thousandths; default 10.",
    ),
    maybe(
        "margin_permille",
        Whole,
        "Its least value compared with the title that it displaces, in thousandths; default 1250.",
    ),
    maybe(
        "further_permille",
        Whole,
        "Value of a further copy at a site compared with the first, in thousandths; default 125.",
    ),
    maybe(
        "starts_min",
        Whole,
        "Titles with fewer starts in a region are counted together; default 10.",
    ),
];

const PLAN: &[ApiField] = &[
    maybe(
        "planned_unix_seconds",
        Whole,
        "When an applied plan last used demand to place titles, since 1970; null while every node holds every title.",
    ),
    needed("policy", Object, "The placement policy, as in /api/v1/placement."),
    needed("is_applied", Truth, "Whether this request changed what nodes hold."),
    needed(
        "regions",
        List,
        "Expected demand in the next 24 hours: {region, starts, bytes, new_titles, new_in_series, changed_permille, day_permille, since_unix_seconds}.",
    ),
    needed("watched_bytes", Whole, "Total expected demand."),
    maybe(
        "near_before_permille",
        Whole,
        "Share of it at sites that hold the title now, in thousandths.",
    ),
    maybe("near_after_permille", Whole, "The same share after the plan."),
    needed("moves", Object, "Copies to fetch, by reason (pin, floor, demand): {copies, bytes}."),
    needed("moved_bytes", Whole, "Bytes of all copies to fetch."),
    needed("clusters", List, "{site, cluster, manifest, titles, brought, dropped}."),
    needed("first_moves", List, "The most urgent moves: {node, title, bytes, why, watched_bytes}."),
    needed("pins_unmet", Whole, "Copies that pins require and that find no room."),
    needed("floors_unmet", Whole, "Copies that the floor requires and that find no room."),
    needed("left_out", List, "Nodes excluded from the plan: {node, why}."),
    needed(
        "bounded",
        List,
        "Implausible figures of nodes that the plan caps or ignores, one sentence each.",
    ),
    needed(
        "buy",
        List,
        "Bottlenecks, and what to buy next: {binds (copies, room or ceiling), site, lost, text}.",
    ),
];

const REASON: &[ApiField] = &[needed("reason", Text, "The reason, for other operators.")];

/// All operations.
pub static OPERATIONS: &[Operation] = &[
    get("/api/v1/nodes", ReadOrPartner, "List nodes", &[], NODES, |call| {
        Box::pin(nodes::list(call))
    }),
    post(
        "/api/v1/nodes/{node}/drain",
        OperateOrPartner,
        "Send no new viewers to a node, and let its own leave",
        &[
            needed("reason", Text, "The reason, for other operators."),
            maybe(
                "returns_unix_seconds",
                Whole,
                "When it returns to service by itself, since 1970.",
            ),
        ],
        NODE_STATE,
        |call| Box::pin(nodes::drain(call)),
    ),
    post(
        "/api/v1/nodes/{node}/undrain",
        OperateOrPartner,
        "Send viewers to a node again",
        &[],
        NODE_STATE,
        |call| Box::pin(nodes::undrain(call)),
    ),
    post(
        "/api/v1/nodes/{node}/revoke",
        Admin,
        "Revoke a node: it leaves the fleet permanently, and its certificate becomes useless",
        REASON,
        NODE_STATE,
        |call| Box::pin(nodes::revoke(call)),
    ),
    post(
        "/api/v1/nodes/{node}/ceiling",
        Operate,
        "Limit a node's capacity, whatever it reports itself",
        &[needed("bits_per_second", Whole, "The ceiling; 0 uses the node's own figure.")],
        NODE_STATE,
        |call| Box::pin(nodes::ceiling(call)),
    ),
    post(
        "/api/v1/believe-silence",
        Admin,
        "Confirm that nodes that fell silent at once are dead, if the gateway suspects its own connection",
        &[],
        NODES,
        |call| Box::pin(nodes::believe_silence(call)),
    ),
    get(
        "/api/v1/sites",
        Read,
        "List sites",
        &[],
        &[needed("sites", List, "Sites with region, position and prefixes.")],
        |call| Box::pin(places::sites(call)),
    ),
    put("/api/v1/sites/{site}", "Create or change a site", SITE, |call| {
        Box::pin(places::put_site(call))
    }),
    get(
        "/api/v1/sites/{site}/announced",
        ReadOrPartner,
        "Show which prefixes a site announces, by which file and which nodes, and which are refused",
        &[],
        &[
            needed("site", Text, "Its name."),
            needed("allowed", List, "Prefixes that it may announce."),
            needed("allows_all", Truth, "Whether it may announce any prefix."),
            needed(
                "prefixes",
                Whole,
                "Number of prefixes that it announces, by its file and its feeds.",
            ),
            needed("refused", Whole, "Number of further prefixes outside its allow-list."),
            needed("file", Object, "{prefixes, refused, first_refused, since_unix_seconds}."),
            needed("feeds", List, "{node, believed, refused, first_refused, silent_millis}."),
        ],
        |call| Box::pin(routing::announced(call)),
    ),
    with_large_body(post(
        "/api/v1/sites/{site}/announced",
        OperateOrPartner,
        "Replace the file of prefixes that a site announces",
        &[needed("file", Text, "The file: a prefix per line; an empty one announces nothing.")],
        &[
            needed("site", Text, "Its name."),
            needed("prefixes", Whole, "Number of prefixes in the file."),
            needed("refused", Whole, "Number of them outside the allow-list."),
            maybe("first_refused", Text, "The first of those."),
        ],
        |call| Box::pin(routing::announce(call)),
    )),
    post(
        "/api/v1/sites/{site}/allowed",
        Operate,
        "Set which prefixes a site may announce",
        &[needed("allowed", List, "Prefixes; everything within one of them is allowed.")],
        &[
            needed("site", Text, "Its name."),
            needed("allowed", List, "Prefixes that it may announce."),
            needed("refused", Whole, "Number of prefixes in its file that are outside."),
        ],
        |call| Box::pin(routing::allow(call)),
    ),
    get(
        "/api/v1/clusters",
        Read,
        "List clusters",
        &[],
        &[needed("clusters", List, "Clusters with their sites.")],
        |call| Box::pin(places::clusters(call)),
    ),
    put(
        "/api/v1/clusters/{cluster}",
        "Create or change a cluster",
        &[needed("site", Text, "Its site.")],
        |call| Box::pin(places::put_cluster(call)),
    ),
    get("/api/v1/policy", Read, "Show the steering policy", &[], POLICY, |call| {
        Box::pin(places::policy(call))
    }),
    put("/api/v1/policy", "Change the steering policy", POLICY, |call| {
        Box::pin(places::put_policy(call))
    }),
    get(
        "/api/v1/invites",
        Admin,
        "List invitations, used and unused",
        &[],
        &[needed("invites", List, "Invitations without their secrets.")],
        |call| Box::pin(places::invites(call)),
    ),
    post(
        "/api/v1/invites",
        Admin,
        "Invite a box to join the fleet, once",
        &[
            needed("cluster", Text, "The cluster that it joins."),
            maybe("site", Text, "The site of a new cluster."),
            maybe("region", Text, "The region of a new site."),
            maybe("rack", Text, "Its rack, if the site has several."),
            maybe("node", Text, "The only name with which it may join."),
            maybe(
                "host",
                Text,
                "The only host with which it may join; this may be a gateway's own.",
            ),
            maybe("kind", Text, "storage, flash or global."),
            maybe("ceiling_bits_per_second", Whole, "Limit on its capacity, whatever it reports."),
            maybe("seconds", Whole, "Lifetime of the invitation; default one day."),
        ],
        &[
            needed("id", Text, "The invitation."),
            needed("token", Text, "The token with which the box joins. It is shown only once."),
            needed("command", Text, "The command to run on the box."),
            needed("expires_unix_seconds", Whole, "When it expires, since 1970."),
        ],
        |call| Box::pin(places::invite(call)),
    ),
    get(
        "/api/v1/titles",
        Read,
        "List titles",
        &[
            maybe("search", Text, "Only titles whose paths contain this."),
            maybe("limit", Whole, "Most titles to list; default 50."),
        ],
        &[
            needed("total", Whole, "Total number."),
            needed("titles", List, "Titles with the number of nodes that hold them."),
        ],
        |call| Box::pin(titles::list(call)),
    ),
    with_large_body(post(
        "/api/v1/titles/publish",
        Operate,
        "Publish a version of a title",
        &[
            needed("title", Text, "Its path in the library."),
            needed(
                "origin",
                Text,
                "The library that nodes copy it from: file:///LIBRARY, s3://BUCKET/PREFIX or https://HOST/PATH.",
            ),
            needed("record", Text, "Its title.json, in base64."),
            needed("hls", Text, "Its HLS playlist, in base64."),
            needed("dash", Text, "Its DASH manifest, in base64."),
            maybe("series", Text, "Its series, instead of the one in its record."),
            maybe("now", Truth, "Whether nodes fetch it immediately, even outside their windows."),
        ],
        &[
            needed("title", Text, "Its path."),
            needed("digest", Text, "The version."),
            needed("bytes", Whole, "Bytes of all its files."),
            needed("duration_seconds", Number, "Playing time."),
        ],
        |call| Box::pin(titles::publish(call)),
    )),
    post(
        "/api/v1/titles/withdraw",
        Operate,
        "Withdraw a title: nodes remove it and send receipts",
        &[needed("title", Text, "Its path."), maybe("reason", Text, "Why.")],
        &[needed("title", Text, "Its path."), needed("digest", Text, "The version.")],
        |call| Box::pin(titles::withdraw(call)),
    ),
    post(
        "/api/v1/titles/pin",
        Operate,
        "Pin a title: set where copies must be, regardless of demand",
        &[
            needed("title", Text, "Its path."),
            needed(
                "pins",
                List,
                "{scope, copies}: number of copies at each site of a scope, which is \"everywhere\", {\"region\": NAME} or {\"site\": NAME}. \
                 An empty list removes earlier pins.",
            ),
        ],
        &[needed("title", Text, "Its path."), needed("pins", List, "Its pins.")],
        |call| Box::pin(plans::pin(call)),
    ),
    get("/api/v1/placement", Read, "Show the placement policy", &[], PLACEMENT, |call| {
        Box::pin(plans::policy(call))
    }),
    put(
        "/api/v1/placement",
        "Change the placement policy, from the next plan on; omitted fields get their defaults",
        PLACEMENT,
        |call| Box::pin(plans::put_policy(call)),
    ),
    get(
        "/api/v1/plan",
        Read,
        "Show which copies a new plan would move, and how much demand would then be served nearby",
        &[maybe("moves", Whole, "Most moves to list; default 20.")],
        PLAN,
        |call| Box::pin(plans::plan(call)),
    ),
    post(
        "/api/v1/plan/apply",
        Operate,
        "Make a plan and apply it; nothing changes if nodes already follow it",
        &[maybe("moves", Whole, "Most moves to list; default 20.")],
        PLAN,
        |call| Box::pin(plans::apply(call)),
    ),
    post(
        "/api/v1/plan/undo",
        Operate,
        "Undo the plan: every node holds every published title again",
        &[],
        &[needed("is_undone", Truth, "Whether there was a plan.")],
        |call| Box::pin(plans::undo(call)),
    ),
    get(
        "/api/v1/where",
        Read,
        "Show which nodes hold a title, and which have sent a receipt for its withdrawal",
        &[needed("title", Text, "Its path.")],
        &[
            needed("title", Text, "Its path."),
            needed("state", Text, "published or withdrawn."),
            needed(
                "nodes",
                List,
                "Nodes: {node, site, state, holds, why (everything, pin, floor, demand, spare or null), moves (comes, goes or null), receipt}.",
            ),
            needed(
                "watched",
                List,
                "Its demand by region, averaged over the last days: {region, starts_a_day, bytes_a_day}.",
            ),
        ],
        |call| Box::pin(titles::at_nodes(call)),
    ),
    get(
        "/api/v1/open-caching/advertisement",
        ReadOrPartner,
        "Say to an upstream CDN which networks the sites serve, by which protocols, and how much they can send (RFC 8008, RFC 9808)",
        open_caching::ADVERTISED,
        open_caching::ADVERTISEMENT,
        |call| Box::pin(open_caching::advertisement(call)),
    ),
    get(
        "/api/v1/issues",
        ReadOrPartner,
        "List what is wrong in the fleet, since when and what to do; and what was wrong",
        issues::LISTED,
        issues::ISSUES,
        |call| Box::pin(issues::list(call)),
    ),
    get(
        "/api/v1/qoe",
        ReadOrPartner,
        "Show what viewers experience, by title, site, region, network, player or node",
        experience::ASKED,
        experience::EXPERIENCE,
        |call| Box::pin(experience::list(call)),
    ),
    post(
        "/api/v1/issues/snooze",
        OperateOrPartner,
        "Snooze an open issue: it is not counted, and pages show it last",
        issues::SNOOZE,
        issues::SNOOZED,
        |call| Box::pin(issues::snooze(call)),
    ),
    post(
        "/api/v1/issues/wake",
        OperateOrPartner,
        "End the snooze of an issue",
        issues::WAKE,
        issues::SNOOZED,
        |call| Box::pin(issues::wake(call)),
    ),
    get(
        "/api/v1/purges",
        Read,
        "List the latest purges of the fleet's edges, newest first, and how far nodes are with them",
        purges::LISTED,
        &[needed("purges", List, "Orders, with the fields of an answer to an order.")],
        |call| Box::pin(purges::list(call)),
    ),
    post(
        "/api/v1/purges",
        Operate,
        "Have every edge of the fleet purge URLs, a prefix or tags",
        purges::ORDER,
        purges::ORDERED,
        |call| Box::pin(purges::order(call)),
    ),
    get(
        "/api/v1/explain",
        Read,
        "Show where a viewer would be sent now, and why",
        &[
            needed("address", Text, "The viewer's IP address. It is not stored."),
            needed("title", Text, "The title."),
            maybe("playing", Text, "The node that the viewer is playing from, if any."),
            maybe(
                "viewer",
                Text,
                "The viewer's number from the decision log: up to 16 hexadecimal digits. It selects among equally good nodes.",
            ),
        ],
        &[
            needed("snapshot", Whole, "The snapshot used for the decision."),
            needed("nodes", List, "Up to three nodes: {node, site, reason}."),
            maybe("matched", Text, "The prefix that matched the address."),
            maybe("label", Text, "C or H, if it is not the first choice."),
            needed("text", Text, "The explanation in words."),
            needed("title", Text, "The title."),
        ],
        |call| Box::pin(viewing::explain(call)),
    ),
    get(
        "/api/v1/replay",
        Read,
        "Replay the decisions of the last 24 hours, and show which ones differ",
        &[
            maybe("since_unix_seconds", Whole, "Only decisions since then, since 1970."),
            maybe("title", Text, "Only decisions on this title."),
        ],
        &[
            needed("same", Whole, "Number of decisions with the same result."),
            needed("different", Whole, "Number of decisions with another result."),
            needed(
                "without_snapshot",
                Whole,
                "Number of decisions whose snapshot is missing from the log.",
            ),
            needed("broken_lines", Whole, "Number of unreadable lines."),
            needed("differences", List, "Some of the decisions that differ."),
        ],
        |call| Box::pin(viewing::replay(call)),
    ),
    get(
        "/api/v1/gateways",
        Read,
        "List gateways",
        &[],
        &[needed("gateways", List, "Gateways: {name, machines, answers, is_told}.")],
        |call| Box::pin(gateways::list(call)),
    ),
    post(
        "/api/v1/gateways/{gateway}/remove",
        Admin,
        "Remove a gateway that is gone for good: nodes stop contacting it",
        &[],
        &[needed("name", Text, "Its name.")],
        |call| Box::pin(gateways::remove(call)),
    ),
    get("/api/v1/keys", Read, "List the keys that sign viewers' addresses", &[], KEYS, |call| {
        Box::pin(gateways::keys(call))
    }),
    post(
        "/api/v1/keys/roll",
        Admin,
        "Roll to a new key for viewers' addresses, or start signing them",
        &[maybe(
            "seconds",
            Whole,
            "Delay until the new key signs; default 600. A first key signs at once, and after the delay nodes refuse addresses without a token; \
             its default is the lifetime of tokens.",
        )],
        KEYS,
        |call| Box::pin(gateways::roll_keys(call)),
    ),
    post(
        "/api/v1/keys/distrust",
        Admin,
        "Distrust the present keys: a new one signs at once, and addresses signed earlier become invalid",
        &[],
        KEYS,
        |call| Box::pin(gateways::distrust_keys(call)),
    ),
    get(
        "/api/v1/certificates",
        Read,
        "List nodes' certificates for viewers, and requests for them",
        &[],
        &[needed(
            "certificates",
            List,
            "{node, host, state (own: the node has its own; requested, issued), requested_unix_seconds, expires_unix_seconds}.",
        )],
        |call| Box::pin(certificates::list(call)),
    ),
    get(
        "/api/v1/certificates/{node}/request",
        Read,
        "Get a node's certificate request to be signed: PKCS #10 for its host",
        &[],
        &[
            needed("node", Text, "The node."),
            needed("host", Text, "Its host."),
            needed("request", Text, "The request, PEM."),
        ],
        |call| Box::pin(certificates::request(call)),
    ),
    post(
        "/api/v1/certificates/{node}/chain",
        Operate,
        "Upload the certificate that an authority issued for a node's request",
        &[needed(
            "chain",
            Text,
            "Certificates in PEM, the node's first, each followed by its issuer's.",
        )],
        &[
            needed("node", Text, "The node."),
            needed("host", Text, "Its host."),
            needed("expires_unix_seconds", Whole, "When it expires, since 1970."),
        ],
        |call| Box::pin(certificates::put(call)),
    ),
    get(
        "/api/v1/audit",
        Admin,
        "List changes and their authors, newest first",
        &[maybe("limit", Whole, "Most lines to list; default 100.")],
        &[
            needed("lines", List, "Lines: {who, what, subject, detail, unix_millis}."),
            needed("unreadable", Whole, "Number of unreadable lines."),
        ],
        |call| Box::pin(operators::audit(call)),
    ),
    get(
        "/api/v1/operators",
        Admin,
        "List operators",
        &[],
        &[needed(
            "operators",
            List,
            "Operators: {id, role, has_token, made_unix_seconds, revoked}.",
        )],
        |call| Box::pin(operators::list(call)),
    ),
    post(
        "/api/v1/operators",
        Admin,
        "Add an operator, with a new token unless declined",
        &[
            needed("id", Text, "Their name."),
            needed("role", Text, "read, operate, admin or partner."),
            maybe("sites", List, "A partner's sites."),
            maybe("token", Truth, "False for an operator who uses a certificate; default true."),
        ],
        &[
            needed("id", Text, "Their name."),
            maybe("token", Text, "Their token, if they get one. It is shown only once."),
        ],
        |call| Box::pin(operators::add(call)),
    ),
    post(
        "/api/v1/operators/{operator}/revoke",
        Admin,
        "Revoke an operator permanently: token and certificate become useless",
        REASON,
        &[needed("id", Text, "Their name.")],
        |call| Box::pin(operators::revoke(call)),
    ),
];
