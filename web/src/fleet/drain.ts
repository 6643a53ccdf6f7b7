// Draining a node, with a reason that other operators see.

import { node } from "../dashboard/node";
import { post } from "./api";
import { formDialog } from "./dialog";
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
  const words = `${of.name} gets no new viewers, and its ${of.connections} connections leave within a minute or two.`;
  const fields = [node("label", "", "Why ", reason), node("label", "", "Comes back by itself after hours ", back)];
  const act = (): Promise<void> => {
    const body = { reason: reason.value.trim(), returns_unix_seconds: hours(back.value) };
    return post(`nodes/${encodeURIComponent(of.name)}/drain`, body);
  };
  formDialog("Drain", words, fields, act, `Drain ${of.name}`);
}

export function undrain(of: Node): Promise<void> {
  return post(`nodes/${encodeURIComponent(of.name)}/undrain`, {});
}
