// Explains why a viewer gets these nodes.

import { node } from "../dashboard/node";
import { get } from "./api";
import type { Explained } from "./shape";

const LABELS = {
  C: "No node of the best site has the title (C).",
  H: "The first choice has it, but takes no new viewers (H).",
};

/** Texts for the reasons in crates/fleet/steering/src/decision.rs. */
const REASONS: Record<string, string> = {
  playing: "the viewer plays from it",
  prefix: "its site announces the viewer's prefix",
  near: "its site is near the one that announces the viewer's prefix",
  region: "its site is in the viewer's region",
  anywhere: "it is at some other site",
};

export class Explain {
  readonly element: HTMLElement;
  private readonly address = node("input");
  private readonly title = node("input");
  private readonly answer = node("div", "explained");

  constructor() {
    Object.assign(this.address, { required: true, placeholder: "192.0.2.7", autocomplete: "off", spellcheck: false });
    Object.assign(this.title, { required: true, placeholder: "films/a", autocomplete: "off", spellcheck: false });
    this.answer.setAttribute("aria-live", "polite");
    const fields = [node("label", "", "Viewer's address ", this.address), node("label", "", "Title ", this.title)];
    const form = node("form", "", ...fields, node("button", "", "Explain"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.ask();
    });
    this.element = node("section", "panel", node("h2", "", "Why a viewer gets these nodes"), form, this.answer);
  }

  /** Puts this title into the form. */
  about(title: string): void {
    this.title.value = title;
    this.address.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  private async ask(): Promise<void> {
    try {
      const told = await get<Explained>("explain", { address: this.address.value.trim(), title: this.title.value.trim() });
      const nodes = told.nodes.map(({ node: name, site, reason }) => node("li", "", node("strong", "", name), ` at ${site}: ${REASONS[reason] ?? reason}`));
      const label = told.label === null ? "" : LABELS[told.label];
      const by = told.matched === null ? "No site announces this address." : `Matched ${told.matched}.`;
      const none = nodes.length === 0 ? "No node can serve it." : "";
      this.answer.replaceChildren(
        node("ol", "", ...nodes),
        node("p", "", [none, by, label, `Snapshot ${told.snapshot}.`].filter((words) => words !== "").join(" ")),
        node("pre", "", told.text),
      );
    } catch (error) {
      this.answer.replaceChildren(node("p", "bad", error instanceof Error ? error.message : String(error)));
    }
  }
}
