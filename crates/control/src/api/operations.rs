//! The table of all that the operator's API can do.

use axum::http::Method;

use super::operation::FieldKind::{List, Number, Object, Text, Truth, Whole};
use super::operation::Needed::{Admin, Operate, OperateOrPartner, Read, ReadOrPartner};
use super::operation::{ApiField, Handler, Needed, Operation, maybe, needed};
use super::{BODY_BYTES_MAX, LARGE_BODY_BYTES_MAX};
use super::{certificates, gateways, nodes, operators, places, plans, routing, titles, viewing};

const NODE_STATE: &[ApiField] = &[
    needed("node", Text, "The node's name."),
    needed("state", Text, "joining, serving, draining, drained, lost or revoked."),
];

const NODES: &[ApiField] = &[
    needed("nodes", List, "Nodes with state, load, clock and what they hold."),
    maybe("frozen", Text, "Why silence is not taken for death now, if it is not."),
    maybe("store_problem", Text, "Why the store takes no changes now, if it does not."),
];

const SITE: &[ApiField] = &[
    needed("region", Text, "The region that it is in."),
    maybe("latitude", Number, "Degrees north."),
    maybe("longitude", Number, "Degrees east."),
    maybe("operator", Text, "The partner who runs it."),
    maybe("allowed", List, "Prefixes that it may announce."),
    maybe(
        "announced",
        List,
        "What it announces: {prefix, as_path_length, med}; for more than some hundred use a file.",
    ),
];

const POLICY: &[ApiField] = &[
    needed("scheme", Text, "http or https, of all nodes."),
    needed("port", Whole, "The port of all nodes."),
    needed("ttl_seconds", Whole, "How long a steering answer holds, 1 to 60."),
    needed("full_permille", Whole, "From this load on a node gets no new viewers, in thousandths."),
    needed("roomy_permille", Whole, "Until its load has fallen to this."),
];

const KEYS: &[ApiField] = &[needed(
    "keys",
    List,
    "Keys, the newest first: {id, state (waiting, signs, trusted or gone), and when it was made, signs, is told to nodes, ends}.",
)];

const PLACEMENT: &[ApiField] = &[
    maybe("floor_copies", Whole, "Copies of each title, in as many failure domains; 3."),
    maybe(
        "cut_offs",
        Object,
        "The most wanted titles of a region that nodes of each kind take for demand, in thousandths of the catalog: {storage_permille, \
         flash_permille, global_permille}; 1000, 200, 1000.",
    ),
    maybe("churn_bytes_max", Whole, "Most bytes that a plan moves; as many as are worth it."),
    maybe(
        "worth_permille",
        Whole,
        "What a move for demand must serve of its bytes in a day, in thousandths; 10.",
    ),
    maybe("margin_permille", Whole, "What it must be worth beside what it displaces; 1250."),
    maybe("further_permille", Whole, "What a further copy at a site counts beside the first; 125."),
    maybe("starts_min", Whole, "Titles with fewer starts in a region join the rest; 10."),
];

const PLAN: &[ApiField] = &[
    maybe(
        "planned_unix_seconds",
        Whole,
        "When titles were last placed by a plan that nodes follow, since 1970; null while every node holds everything.",
    ),
    needed("policy", Object, "How titles are placed, as /api/v1/placement has it."),
    needed("is_applied", Truth, "Whether this answer tells nodes something new."),
    needed(
        "regions",
        List,
        "What is expected in the coming day: {region, starts, bytes, new_titles, new_in_series, changed_permille, day_permille, since_unix_seconds}.",
    ),
    needed("watched_bytes", Whole, "What is expected to be watched in all."),
    maybe(
        "near_before_permille",
        Whole,
        "How much of it at sites that hold the title now, in thousandths.",
    ),
    maybe("near_after_permille", Whole, "How much of it at sites that would hold the title."),
    needed("moves", Object, "Copies to bring, by why (pin, floor, demand): {copies, bytes}."),
    needed("moved_bytes", Whole, "Bytes of all copies to bring."),
    needed("clusters", List, "{site, cluster, manifest, titles, brought, dropped}."),
    needed("first_moves", List, "The most urgent: {node, title, bytes, why, watched_bytes}."),
    needed("pins_unmet", Whole, "Copies that pins want and that find no room."),
    needed("floors_unmet", Whole, "Copies that the floor wants and that find no room."),
    needed("left_out", List, "Nodes that are no part of the plan: {node, why}."),
    needed(
        "bounded",
        List,
        "What nodes say of themselves and the plan does not count, a sentence each.",
    ),
    needed(
        "buy",
        List,
        "What binds, and what to buy next: {binds (copies, room or ceiling), site, lost, text}.",
    ),
];

const REASON: &[ApiField] = &[needed("reason", Text, "Why; others will read it.")];

const fn get(
    path: &'static str,
    role: Needed,
    summary: &'static str,
    query: &'static [ApiField],
    answer: &'static [ApiField],
    handler: Handler,
) -> Operation {
    let (method, body_bytes_max) = (Method::GET, BODY_BYTES_MAX);
    Operation { method, path, role, summary, query, body: &[], body_bytes_max, answer, handler }
}

const fn post(
    path: &'static str,
    role: Needed,
    summary: &'static str,
    body: &'static [ApiField],
    answer: &'static [ApiField],
    handler: Handler,
) -> Operation {
    let (method, body_bytes_max) = (Method::POST, BODY_BYTES_MAX);
    Operation { method, path, role, summary, query: &[], body, body_bytes_max, answer, handler }
}

const fn put(
    path: &'static str,
    summary: &'static str,
    body: &'static [ApiField],
    handler: Handler,
) -> Operation {
    let (method, role, body_bytes_max) = (Method::PUT, Admin, BODY_BYTES_MAX);
    let (query, answer) = (&[], body);
    Operation { method, path, role, summary, query, body, body_bytes_max, answer, handler }
}

/// An operation whose body may be large.
const fn with_large_body(mut operation: Operation) -> Operation {
    operation.body_bytes_max = LARGE_BODY_BYTES_MAX;
    operation
}

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
            needed("reason", Text, "Why; others will read it."),
            maybe("returns_unix_seconds", Whole, "When it serves again by itself, since 1970."),
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
        "Take a node out of the fleet for good: its certificate is worth nothing any more",
        REASON,
        NODE_STATE,
        |call| Box::pin(nodes::revoke(call)),
    ),
    post(
        "/api/v1/nodes/{node}/ceiling",
        Operate,
        "Say what a node may carry at most, whatever it says of itself",
        &[needed("bits_per_second", Whole, "The ceiling; 0 for what the node says.")],
        NODE_STATE,
        |call| Box::pin(nodes::ceiling(call)),
    ),
    post(
        "/api/v1/believe-silence",
        Admin,
        "Say that nodes that fell silent at once are dead, while the gateway doubts that",
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
    put("/api/v1/sites/{site}", "Make or change a site", SITE, |call| {
        Box::pin(places::put_site(call))
    }),
    get(
        "/api/v1/sites/{site}/announced",
        ReadOrPartner,
        "Say which prefixes a site announces, by which file and which nodes, and what of it is not believed",
        &[],
        &[
            needed("site", Text, "Its name."),
            needed("allowed", List, "Prefixes that it may announce."),
            needed("allows_all", Truth, "Whether it may announce anything."),
            needed("prefixes", Whole, "How many it announces, by its file and its feeds."),
            needed("refused", Whole, "How many more are outside its allow-list."),
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
            needed("prefixes", Whole, "How many the file has."),
            needed("refused", Whole, "How many of them are outside the allow-list."),
            maybe("first_refused", Text, "The first of these."),
        ],
        |call| Box::pin(routing::announce(call)),
    )),
    post(
        "/api/v1/sites/{site}/allowed",
        Operate,
        "Say which prefixes a site may announce",
        &[needed("allowed", List, "Prefixes; what is within one of them is allowed.")],
        &[
            needed("site", Text, "Its name."),
            needed("allowed", List, "Prefixes that it may announce."),
            needed("refused", Whole, "How many of its file are outside."),
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
        "Make or change a cluster",
        &[needed("site", Text, "The site that it is at.")],
        |call| Box::pin(places::put_cluster(call)),
    ),
    get("/api/v1/policy", Read, "Say how viewers are answered", &[], POLICY, |call| {
        Box::pin(places::policy(call))
    }),
    put("/api/v1/policy", "Change how viewers are answered", POLICY, |call| {
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
            maybe("site", Text, "The site of the cluster, if that is to be made."),
            maybe("region", Text, "The region of the site, if that is to be made."),
            maybe("rack", Text, "Its rack, if the site has several."),
            maybe("node", Text, "The only name that it may take."),
            maybe("host", Text, "The only host that it may have; a gateway's own, too."),
            maybe("kind", Text, "storage, flash or global."),
            maybe("ceiling_bits_per_second", Whole, "What it may carry at most, whatever it says."),
            maybe("seconds", Whole, "How long the invitation holds; a day if left out."),
        ],
        &[
            needed("id", Text, "The invitation."),
            needed("token", Text, "What the box joins with. It is told once."),
            needed("command", Text, "The command to run on the box."),
            needed("expires_unix_seconds", Whole, "When it ends, since 1970."),
        ],
        |call| Box::pin(places::invite(call)),
    ),
    get(
        "/api/v1/titles",
        Read,
        "List titles",
        &[
            maybe("search", Text, "Only titles whose paths contain this."),
            maybe("limit", Whole, "At most so many; 50 if left out."),
        ],
        &[
            needed("total", Whole, "How many there are."),
            needed("titles", List, "Titles with how many nodes hold them."),
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
                "Where nodes copy it from: file:///LIBRARY, s3://BUCKET/PREFIX or https://HOST/PATH.",
            ),
            needed("record", Text, "Its title.json, in base64."),
            needed("hls", Text, "Its HLS playlist, in base64."),
            needed("dash", Text, "Its DASH manifest, in base64."),
            maybe("series", Text, "The series that it belongs to, whatever its record says."),
            maybe("now", Truth, "Whether nodes bring it at once, whatever their windows say."),
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
        "Say where a title must be, whatever is watched",
        &[
            needed("title", Text, "Its path."),
            needed(
                "pins",
                List,
                "{scope, copies}: so many copies at each site of a scope, which is \"everywhere\", {\"region\": NAME} or {\"site\": NAME}. \
                 None takes earlier pins away.",
            ),
        ],
        &[needed("title", Text, "Its path."), needed("pins", List, "Its pins.")],
        |call| Box::pin(plans::pin(call)),
    ),
    get("/api/v1/placement", Read, "Say how titles are placed", &[], PLACEMENT, |call| {
        Box::pin(plans::policy(call))
    }),
    put(
        "/api/v1/placement",
        "Change how titles are placed, from the next plan on; what is left out gets its default",
        PLACEMENT,
        |call| Box::pin(plans::put_policy(call)),
    ),
    get(
        "/api/v1/plan",
        Read,
        "Say what would move if titles were placed by what is watched, and how much would then be watched nearby",
        &[maybe("moves", Whole, "List at most so many moves; 20 if left out.")],
        PLAN,
        |call| Box::pin(plans::plan(call)),
    ),
    post(
        "/api/v1/plan/apply",
        Operate,
        "Plan, and have nodes hold what the plan says; nothing changes if they do already",
        &[maybe("moves", Whole, "List at most so many moves; 20 if left out.")],
        PLAN,
        |call| Box::pin(plans::apply(call)),
    ),
    post(
        "/api/v1/plan/undo",
        Operate,
        "Have every node hold everything that is published again",
        &[],
        &[needed("is_undone", Truth, "Whether there was a plan.")],
        |call| Box::pin(plans::undo(call)),
    ),
    get(
        "/api/v1/where",
        Read,
        "Say which nodes hold a title, and which have sent a receipt for its withdrawal",
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
                "What regions watched of it, on average of the last days: {region, starts_a_day, bytes_a_day}.",
            ),
        ],
        |call| Box::pin(titles::at_nodes(call)),
    ),
    get(
        "/api/v1/explain",
        Read,
        "Say where a viewer would be sent now, and why",
        &[
            needed("address", Text, "The viewer's IP address. It is kept nowhere."),
            needed("title", Text, "The title."),
            maybe("playing", Text, "The node that the viewer plays from, if it plays already."),
            maybe(
                "viewer",
                Text,
                "The viewer's number, as the decision log has it: up to 16 hexadecimal digits. It decides among nodes that are equally good.",
            ),
        ],
        &[
            needed("snapshot", Whole, "The snapshot that decides."),
            needed("nodes", List, "Up to three nodes: {node, site, reason}."),
            maybe("matched", Text, "The prefix that matched the address."),
            maybe("label", Text, "C or H, if it is not the first choice."),
            needed("text", Text, "All of it in words."),
            needed("title", Text, "The title."),
        ],
        |call| Box::pin(viewing::explain(call)),
    ),
    get(
        "/api/v1/replay",
        Read,
        "Make the decisions of the last 24 hours again, and say which come out otherwise",
        &[
            maybe("since_unix_seconds", Whole, "Only those since then."),
            maybe("title", Text, "Only those of this title."),
        ],
        &[
            needed("same", Whole, "How many came out the same."),
            needed("different", Whole, "How many did not."),
            needed("without_snapshot", Whole, "How many are of a snapshot that the log lacks."),
            needed("broken_lines", Whole, "How many lines cannot be read."),
            needed("differences", List, "Some of those that did not come out the same."),
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
        "Forget a gateway that is gone for good: nodes speak to it no more",
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
        "Sign viewers' addresses with a new key, or begin to sign them",
        &[maybe(
            "seconds",
            Whole,
            "When the new key begins to sign; 600 if left out. A first key signs at once, and after this time nodes refuse addresses without a token; \
             as long as tokens work if left out.",
        )],
        KEYS,
        |call| Box::pin(gateways::roll_keys(call)),
    ),
    post(
        "/api/v1/keys/distrust",
        Admin,
        "Sign viewers' addresses with a new key at once; addresses that were signed before end",
        &[],
        KEYS,
        |call| Box::pin(gateways::distrust_keys(call)),
    ),
    get(
        "/api/v1/certificates",
        Read,
        "List the certificates that viewers see of nodes, as far as nodes have requested them",
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
        "Say what to have signed for a node: a PKCS #10 request for its host",
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
        "Give a node the certificate that an authority has issued for its request",
        &[needed(
            "chain",
            Text,
            "Certificates in PEM, the node's first, each followed by its issuer's.",
        )],
        &[
            needed("node", Text, "The node."),
            needed("host", Text, "Its host."),
            needed("expires_unix_seconds", Whole, "When it ends, since 1970."),
        ],
        |call| Box::pin(certificates::put(call)),
    ),
    get(
        "/api/v1/audit",
        Admin,
        "Say who changed what, newest first",
        &[maybe("limit", Whole, "At most so many lines; 100 if left out.")],
        &[
            needed("lines", List, "Lines: {who, what, subject, detail, unix_millis}."),
            needed("unreadable", Whole, "How many lines cannot be read."),
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
        "Add an operator, and draw a token unless told otherwise",
        &[
            needed("id", Text, "Their name."),
            needed("role", Text, "read, operate, admin or partner."),
            maybe("sites", List, "A partner's sites."),
            maybe(
                "token",
                Truth,
                "False for somebody who will show a certificate; true if left out.",
            ),
        ],
        &[
            needed("id", Text, "Their name."),
            maybe("token", Text, "Their token, if they get one. It is told once."),
        ],
        |call| Box::pin(operators::add(call)),
    ),
    post(
        "/api/v1/operators/{operator}/revoke",
        Admin,
        "Take an operator out for good: token and certificate are worth nothing any more",
        REASON,
        &[needed("id", Text, "Their name.")],
        |call| Box::pin(operators::revoke(call)),
    ),
];
