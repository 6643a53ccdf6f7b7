// A dialog with a form. If the gateway refuses, it stays open and shows the gateway's sentence.

import { node } from "../dashboard/node";

/** Shows the dialog. `act` sends the form; the dialog closes when that succeeds. */
export function formDialog(verb: string, words: string, fields: HTMLElement[], act: () => Promise<void>, title = verb): void {
  const said = node("p", "bad");
  said.setAttribute("role", "alert");
  const cancel = node("button", "", "Cancel");
  cancel.type = "button";
  const buttons = node("div", "row", cancel, node("button", "strong", verb));
  const form = node("form", "", node("h2", "", title), node("p", "", words), ...fields, said, buttons);
  const dialog = node("dialog", "", form);
  document.body.append(dialog);
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act().then(
      () => dialog.close(),
      (error: unknown) => (said.textContent = error instanceof Error ? error.message : String(error)),
    );
  });
  dialog.showModal();
}
