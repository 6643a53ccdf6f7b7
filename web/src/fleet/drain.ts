// Draining a node, with a reason that other operators see.

import { node } from "../dashboard/node";
import { post } from "./api";
import type { Node } from "./shape";

function hours(text: string): number | null {
  const hours = Number.parseFloat(text);
  return hours > 0 ? Math.round(Date.now() / 1000 + hours * 3600) : null;
}

/** Asks for a reason, then drains `of`. If the gateway refuses, the dialog stays open and shows its error. */
export function drain(of: Node): void {
  const reason = node("input");
  Object.assign(reason, { required: true, maxLength: 200, placeholder: "disk swap" });
  const back = node("input");
  Object.assign(back, { type: "number", min: "0", step: "any", placeholder: "never" });
  const said = node("p", "bad");
  said.setAttribute("role", "alert");
  const cancel = node("button", "", "Cancel");
  cancel.type = "button";
  const words = `${of.name} gets no new viewers, and its ${of.connections} connections leave within a minute or two.`;
  const fields = [node("label", "", "Why ", reason), node("label", "", "Comes back by itself after hours ", back)];
  const form = node("form", "", node("h2", "", `Drain ${of.name}`), node("p", "", words), ...fields, said, node("div", "row", cancel, node("button", "strong", "Drain")));
  const dialog = node("dialog", "", form);
  document.body.append(dialog);
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = { reason: reason.value.trim(), returns_unix_seconds: hours(back.value) };
    post(`nodes/${encodeURIComponent(of.name)}/drain`, body).then(
      () => dialog.close(),
      (error: unknown) => (said.textContent = error instanceof Error ? error.message : String(error)),
    );
  });
  dialog.showModal();
}

export function undrain(of: Node): Promise<void> {
  return post(`nodes/${encodeURIComponent(of.name)}/undrain`, {});
}
