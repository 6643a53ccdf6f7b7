//! A machine drawn with its flows: for each node its disks, memory, cores, memory again and cards, with the flow between each two.

use super::Chart;
use crate::report::number::{THIN_SPACE, significant};
use crate::report::svg::{Anchor, Svg};

/// More nodes than this would be a wall of boxes. In larger machines the nodes are alike.
const NODES_MAX: usize = 8;

const ROW: f64 = 92.0;
const BOX: f64 = 46.0;
/// Space above a row's boxes, for its name.
const NAME: f64 = 24.0;
/// Thickness of the widest arrow.
const ARROW_MAX: f64 = 12.0;
/// A part used more than this is drawn as scarce.
const SCARCE: f64 = 0.98;

/// A node's flows, in GB/s.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) disks: f64,
    pub(crate) cores: f64,
    pub(crate) from_disks: f64,
    pub(crate) cpu_reads: f64,
    pub(crate) cpu_writes: f64,
    pub(crate) to_cards: f64,
    /// Utilisation of memory, cores and cards, 0 to 1.
    pub(crate) used: [f64; 3],
}

/// `None` if there are no nodes.
pub(crate) fn chart(slug: &str, title: &str, nodes: &[Node], between: f64) -> Option<Chart> {
    if nodes.is_empty() {
        return None;
    }
    let told = |(at, node): (usize, &Node)| {
        format!(
            "node {at}: disks read {} GB/s, cores read {} and write {}, cards send {}",
            significant(node.from_disks),
            significant(node.cpu_reads),
            significant(node.cpu_writes),
            significant(node.to_cards)
        )
    };
    let mut description: Vec<_> = nodes.iter().enumerate().map(told).collect();
    description.push(format!("{} GB/s cross between nodes", significant(between)));
    Some(Chart::new(slug, title, &description.join("; "), |width| draw(width, nodes, between)))
}

fn draw(width: f64, nodes: &[Node], between: f64) -> Svg {
    let shown = &nodes[..nodes.len().min(NODES_MAX)];
    let mut svg = Svg::new(width, shown.len() as f64 * ROW + 30.0);
    let all = shown
        .iter()
        .flat_map(|node| [node.from_disks, node.cpu_reads, node.cpu_writes, node.to_cards]);
    let most = all.fold(0.0, f64::max).max(1e-9);
    for (at, node) in shown.iter().enumerate() {
        let row = Row { width, top: at as f64 * ROW, thickness: ARROW_MAX / most };
        row.draw(&mut svg, at, node);
    }
    let hidden = nodes.len() - shown.len();
    let mut note = format!("between nodes: {}{THIN_SPACE}GB/s", significant(between));
    if hidden > 0 {
        note.push_str(&format!("; {hidden} more nodes are not drawn"));
    }
    if nodes.len() > 1 {
        svg.text("note", 0.0, svg.height - 8.0, Anchor::Start, &note);
    }
    svg
}

/// Five boxes with arrows between them.
struct Row {
    width: f64,
    top: f64,
    /// Pixels per GB/s.
    thickness: f64,
}

impl Row {
    fn draw(&self, svg: &mut Svg, at: usize, node: &Node) {
        let is_wide = self.width >= 600.0;
        svg.text("group", 0.0, self.top + 15.0, Anchor::Start, &format!("node {at}"));
        let [memory, cores, cards] = node.used;
        let count = |count: f64, name: &str| {
            if is_wide { format!("{count:.0} {name}") } else { name.to_owned() }
        };
        let boxes = [
            (count(node.disks, "disks"), None),
            ("memory".to_owned(), Some(memory)),
            (count(node.cores, "cores"), Some(cores)),
            ("memory".to_owned(), None),
            ("cards".to_owned(), Some(cards)),
        ];
        for (column, (name, used)) in boxes.iter().enumerate() {
            self.place(svg, column, name, *used);
        }
        self.arrow(svg, (0, 1), node.from_disks);
        if node.cpu_reads > 0.0 {
            self.arrow(svg, (1, 2), node.cpu_reads);
            self.arrow(svg, (2, 3), node.cpu_writes);
            self.arrow(svg, (3, 4), node.to_cards);
        } else {
            // No core touches a byte: the card reads what the disk wrote.
            self.detour(svg, node.to_cards);
        }
    }

    fn box_width(&self) -> f64 {
        self.width / 7.6
    }

    fn left(&self, column: usize) -> f64 {
        column as f64 * (self.width - self.box_width()) / 4.0
    }

    fn place(&self, svg: &mut Svg, column: usize, name: &str, used: Option<f64>) {
        let (x, y, width) = (self.left(column), self.top + NAME, self.box_width());
        let filled = used.unwrap_or(0.0).clamp(0.0, 1.0);
        let class = if filled >= SCARCE { "behind" } else { "tone1" };
        for (from, to) in [
            ((x, y), (x + width, y)),
            ((x + width, y), (x + width, y + BOX)),
            ((x + width, y + BOX), (x, y + BOX)),
            ((x, y + BOX), (x, y)),
        ] {
            svg.line("one", from, to);
        }
        svg.rect(class, x + 1.0, y + BOX - 7.0, (width - 2.0) * filled, 6.0);
        let middle = x + width / 2.0;
        svg.text("label", middle, y + 16.0, Anchor::Middle, name);
        if let Some(used) = used {
            let said = format!("{:.0}{THIN_SPACE}%", used * 100.0);
            svg.text("value", middle, y + 33.0, Anchor::Middle, &said);
        }
    }

    fn arrow(&self, svg: &mut Svg, (from, to): (usize, usize), gbytes: f64) {
        if gbytes <= 0.0 {
            return;
        }
        let (begin, end) = (self.left(from) + self.box_width() + 2.0, self.left(to) - 2.0);
        let middle = self.top + NAME + BOX / 2.0 + 4.0;
        let half = (gbytes * self.thickness / 2.0).max(0.75);
        svg.rect("ours", begin, middle - half, end - begin - 7.0, 2.0 * half);
        let head = half + 3.0;
        svg.polygon(
            "ours",
            &[(end - 8.0, middle - head), (end, middle), (end - 8.0, middle + head)],
        );
        let at = (begin + end) / 2.0;
        svg.text("tick", at, middle - head - 2.0, Anchor::Middle, &significant(gbytes));
    }

    fn detour(&self, svg: &mut Svg, gbytes: f64) {
        let half = (gbytes * self.thickness / 2.0).max(0.75);
        let (from, to) =
            (self.left(1) + self.box_width() / 2.0, self.left(4) + self.box_width() / 2.0);
        let bottom = self.top + NAME + BOX;
        let middle = bottom + 2.0 + half;
        svg.rect("ours", from, middle - half, to - from, 2.0 * half);
        svg.polygon("ours", &[(to - 6.0, bottom + 8.0), (to, bottom), (to + 6.0, bottom + 8.0)]);
        let at = (from + to) / 2.0;
        svg.text("tick", at, bottom - 2.0 - BOX, Anchor::Middle, &significant(gbytes));
    }
}
