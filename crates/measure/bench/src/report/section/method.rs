//! How the figures were measured, how to check them by hand, and what they do not show.

use super::versus::repeat;
use super::{Section, Slugs};
use crate::report::html;
use crate::report::model::Versus;

/// A check by hand with standard tools, to be pasted as a whole.
const CHECK: &str = r#"# a library, in memory, and the server on core 0
mkdir -p library && for i in 0 1 2 3 4 5 6 7; do head -c 256M /dev/urandom > library/title-$i.mp4; done
taskset -c 0 fullbore serve library --workers 1 --listen 127.0.0.1:8443 & server=$!
sleep 2; cat library/* > /dev/null
# nanoseconds that its threads have had on a CPU
cpu() { cat /proc/$server/task/*/schedstat | awk '{ ns += $1 } END { printf "%.0f", ns }'; }
before=$(cpu)
# every file twice, eight at a time, by curl on core 1
taskset -c 1 curl -skZ --no-progress-meter --parallel-max 8 -o /dev/null -w '%{size_download}\n' \
  'https://127.0.0.1:8443/title-[0-7].mp4?[1-2]' | awk '{ bytes += $1 } END { printf "%.0f", bytes }' > bytes
echo "$(cat bytes) $before $(cpu)" | awk '{ print $1 * 8 / ($3 - $2), "Gb/s per CPU second" }'
kill $server"#;

/// The method, and how to check it.
pub(crate) fn section(runs: &[&Versus], slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("method"), "How it was measured");
    section.push(&html::list(&[
        "Servers and clients are pinned to cores of their own on one machine and talk over loopback. Sides take turns (A B, B A, A B …), so that what changes with time changes for both.".to_owned(),
        "Servers are compared by work per CPU second, from the scheduler's accounts of all their threads, so neither slow clients nor waiting count. Interrupt work that the kernel does for packets on the server's core (softirq) is partly charged to the running thread; its share is in the tables.".to_owned(),
        "Before each turn, every byte of some dozens of ranges is compared with the library. During the turn, each response's status and length are checked. After a single wrong byte or error on either side, nothing is compared.".to_owned(),
        "Figures are medians over the rounds, ± the median absolute deviation. Each round has a ratio, and the median of these is shown. A ratio within 5 % of 1, or within two of its deviations, is called level.".to_owned(),
    ]));
    let mut again: Vec<_> = runs.iter().filter_map(|versus| repeat(versus)).collect();
    again.dedup();
    if !again.is_empty() {
        section.push(&html::details(
            "The commands, to run it again",
            &html::commands(&again.join("\n")),
        ));
    }
    let note = "curl decrypts, so one core of it is slower than a fast server; and a server that waits for its clients sends less at a time \
                and does less per CPU second. Expect a fast one to show much less than above, and compare servers by the same means. \
                docs/bench.md has the same for nginx, which curl keeps up with.";
    let check = html::commands(CHECK) + &html::paragraph("aside", note);
    section.push(&html::details("Check it by hand", &check));
    section
}

/// Conclusions that the figures do not support.
pub(crate) fn limits(slugs: &mut Slugs) -> Section {
    let mut section = Section::new(slugs.take("not-shown"), "What this does not show");
    section.push(&html::list(&[
        "A network card. On loopback the kernel hands bytes from sender to receiver in memory: no offloads, no DMA, no loss, no delay. Sending without a copy and inline TLS in the card cannot show here, and a core that sends also does the receiver's packet work.".to_owned(),
        "A large machine. Results from a few cores with local memory say nothing about several NUMA nodes, or about a machine limited by memory bandwidth.".to_owned(),
        "Your viewers. Titles, sizes and the order of requests are synthetic; only the sizes of requests follow those of real players.".to_owned(),
        "Other settings of the other servers. Theirs are the best we know; the files are in crates/measure/bench/peers, and improvements are welcome.".to_owned(),
    ]));
    section
}
