// The fleet's page: all nodes, live.

import "../base.css";
import "../dashboard/dashboard.css";
import "./fleet.css";
import { node, say } from "../dashboard/node";
import { Buying } from "./buying";
import { drain, undrain } from "./drain";
import { Viewing } from "./experience";
import { Explain } from "./explain";
import { Feed } from "./feed";
import { History } from "./history";
import { Issues } from "./issues";
import { Moves } from "./moves";
import { Purges } from "./purges";
import type { Fleet } from "./shape";
import { Sites } from "./sites";
import { Titles } from "./titles";
import { Totals } from "./totals";

const state = node("p", "state", "Connecting");
state.setAttribute("role", "status");
const about = node("p", "about");
const alarm = node("p", "alarm");
alarm.setAttribute("role", "alert");
alarm.hidden = true;
const history = new History();
const totals = new Totals();
const warnOf = (error: unknown): void => warn(error instanceof Error ? error.message : String(error));
const sites = new Sites({ drain, undrain: (of) => void undrain(of).catch(warnOf) });
const issues = new Issues(warnOf);
const viewing = new Viewing();
const moves = new Moves();
const explain = new Explain();
const titles = new Titles((title) => explain.about(title));
const beside = node("div", "beside", moves.element, titles.element, explain.element, new Purges().element, new Buying().element);
const brand = node("h1", "", "Fullbore", node("span", "unseen", ": fleet"));
const main = node("main", "", totals.element, issues.element, viewing.element, node("div", "halves", sites.element, beside));
document.getElementById("fleet")?.replaceChildren(node("header", "", brand, state, about), alarm, main);

let warned = "";
let isFirst = true;

/** Shows why an operator's last action failed, until the next event. */
function warn(words: string): void {
  warned = words;
  alarm.hidden = false;
  say(alarm, words);
}

function tellAlarm({ frozen, store, leader }: Fleet): void {
  const said = [
    frozen,
    store.problem === null ? null : `The store accepts no changes: ${store.problem}`,
    leader === null ? "No gateway leads at present." : null,
    warned === "" ? null : warned,
  ].filter((words) => words !== null);
  warned = "";
  alarm.hidden = said.length === 0;
  say(alarm, said.join(" "));
}

function show(kind: string, words: string): void {
  state.dataset["kind"] = kind;
  say(state, words);
}

function tell(now: Fleet): void {
  history.push(now);
  totals.tell(now);
  sites.tell(now, history);
  moves.tell(now);
  issues.tell(now);
  tellAlarm(now);
  const lead = now.leader === now.gateway ? "leads" : `led by ${now.leader ?? "no gateway"}`;
  say(about, `${now.fullbore}, gateway ${now.gateway} (${lead}), store ${now.store.engine}, epoch ${now.epoch}, snapshot ${now.snapshot}`);
  const critical = now.issue_counts?.critical ?? 0;
  const wrong = critical === 0 ? "" : `${critical} critical, `;
  document.title = `${wrong}${now.nodes.filter(({ state }) => state === "serving").length} of ${now.nodes.length} nodes – Fullbore`;
  if (now.frozen === null) show("live", "Live");
  else show("draining", "Frozen: nodes keep their states");
  // After the first event it is certain that the gateway answers and accepts the token.
  if (isFirst) {
    void titles.search();
    viewing.begin();
  }
  isFirst = false;
}

new Feed({
  fleet: tell,
  stale: (forMs) => {
    document.body.classList.toggle("stale", forMs != null);
    // Updated in steps of five seconds, so that screen readers do not announce it every second.
    if (forMs != null) show("stale", `No data for ${forMs < 5000 ? 3 : Math.floor(forMs / 5000) * 5} s; reconnecting`);
  },
});
