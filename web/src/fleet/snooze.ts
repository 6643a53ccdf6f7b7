// Snoozing an issue, with a reason that other operators see.

import { node } from "../dashboard/node";
import { post } from "./api";
import { formDialog } from "./dialog";
import type { Issue } from "./shape";

/** Asks for how long and why, then snoozes the issue. */
export function snooze(issue: Issue): void {
  const reason = node("input");
  Object.assign(reason, { required: true, maxLength: 200, placeholder: "the disk comes on Monday" });
  const hours = node("input");
  Object.assign(hours, { type: "number", min: "1", max: `${90 * 24}`, value: "24", required: true });
  const words = `${issue.text} While it is snoozed, it is not counted.`;
  const fields = [node("label", "", "Why ", reason), node("label", "", "For hours ", hours)];
  formDialog("Snooze", words, fields, () =>
    post("issues/snooze", { id: issue.id, seconds: Math.round(hours.valueAsNumber * 3600), reason: reason.value.trim() }),
  );
}

export function wake(issue: Issue): Promise<void> {
  return post("issues/wake", { id: issue.id });
}
