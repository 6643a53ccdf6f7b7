// Requests to the gateway. If the gateway requires a token, the operator gives it once. It stays in this tab and is sent to the gateway only.

import { node } from "../dashboard/node";

const KEPT = "fullbore.operator";

/** The page's `<base>` is the gateway's own folder, `/-/`; its API is next to that folder. */
const API = new URL("../api/v1/", document.baseURI);

export class Refused extends Error {}

function kept(): string | null {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function keep(token: string): void {
  try {
    sessionStorage.setItem(KEPT, token);
  } catch {
    // Storage is forbidden: the page asks for the token again when it is loaded again.
  }
}

let given = kept();
let asking: Promise<void> | null = null;

/** A response of the API that is not an error. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (given !== null) headers.set("Authorization", `Bearer ${given}`);
  const response = await fetch(new URL(path, API), { ...init, headers });
  if (response.status === 401) {
    await (asking ??= askOperator().finally(() => (asking = null)));
    return ask(path, init);
  }
  if (!response.ok) throw new Refused(await told(response));
  return response;
}

/** The sentence in an error response. */
async function told(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {
    // The response is not from the gateway, but from a proxy, perhaps.
  }
  return `The gateway answers with error ${response.status}.`;
}

export async function get<T>(path: string, query: Record<string, string>): Promise<T> {
  const response = await ask(`${path}?${new URLSearchParams(query)}`);
  return (await response.json()) as T;
}

export async function post(path: string, body: unknown): Promise<void> {
  await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** Asks the operator for a token, and waits until he gives one. */
function askOperator(): Promise<void> {
  const input = node("input");
  Object.assign(input, { type: "password", autocomplete: "off", required: true });
  const again = given === null ? "" : "This token is not valid here, or no longer valid. ";
  const words = node("p", "", `${again}Paste the token of an operator of this fleet.`);
  const form = node("form", "", node("h2", "", "Who are you?"), words, node("label", "", "Token ", input), node("button", "", "Open"));
  const dialog = node("dialog", "", form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => {
    // Without a token there is nothing to show.
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      given = input.value.trim();
      keep(given);
      dialog.remove();
      done();
    });
  });
}
