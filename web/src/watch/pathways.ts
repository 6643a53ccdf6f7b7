// A film that several servers have. The steering server decides which of them the player uses (content steering). This file decides when
// the player leaves one: at its first failure, or when it has sent nothing for four seconds. It doesn't use up the buffer of two minutes first,
// because that is for a failure of all servers.

/** How long a server may send nothing while a request is open. Lost packets arrive again within a second or two. */
const SILENCE_MS = 4000;

/** How long the player avoids a server that failed, unless all others have failed, too: longer than a steering answer holds (at most 60 s). */
export const AVOIDED_MS = 60_000;

/** How often to check for silence. */
const LOOKED_FOR_MS = 250;

/** Ends `request` as timed out when it has received no data for a while. Call it before the request is sent. */
export function endWhenSilent(request: XMLHttpRequest): void {
  const began = performance.now();
  let heard = began;
  const hear = (): void => {
    heard = performance.now();
  };
  request.addEventListener("readystatechange", hear);
  request.addEventListener("progress", hear);
  const timer = setInterval(() => {
    const now = performance.now();
    if (now - heard < SILENCE_MS) return;
    clearInterval(timer);
    // This time-out is already over (XMLHttpRequest, section 3.6.3), so the request ends now with a time-out event.
    request.timeout = Math.max(1, Math.floor(now - began));
  }, LOOKED_FOR_MS);
  request.addEventListener("loadend", () => clearInterval(timer));
}

/** What is known about each pathway. */
export class Pathways {
  private readonly failedAt = new Map<string, number>();

  fail(pathway: string): void {
    this.failedAt.set(pathway, performance.now());
  }

  hasFailed(pathway: string): boolean {
    return performance.now() - (this.failedAt.get(pathway) ?? -Infinity) < AVOIDED_MS;
  }

  /** `pathways` in their order, but those that failed recently come last, the one with the oldest failure first. */
  inOrder(pathways: readonly string[]): string[] {
    const all = [...new Set(pathways)];
    const failed = all.filter((pathway) => this.hasFailed(pathway));
    failed.sort((one, other) => (this.failedAt.get(one) ?? 0) - (this.failedAt.get(other) ?? 0));
    return [...all.filter((pathway) => !failed.includes(pathway)), ...failed];
  }
}
