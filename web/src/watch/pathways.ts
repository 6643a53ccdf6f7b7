// A film that several servers have. Which one it is fetched from is decided elsewhere (content steering); here is when one is left: at its
// first failure, or when it has been silent for four seconds. The buffer of two minutes is no reason to wait: it is for when all fail.

/** How long a server may send nothing while it owes something. Packets that are lost come again within a second or two. */
const SILENCE_MS = 4000;

/** How long a server that failed is taken only if all others failed, too: longer than a steering answer holds (at most 60 s). */
export const AVOIDED_MS = 60_000;

/** How often silence is looked for. */
const LOOKED_FOR_MS = 250;

/** Ends `request` as one that timed out when it has brought nothing for a while. Call it before the request is sent. */
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
    // A moment that has passed (XMLHttpRequest, section 3.6.3): the request ends now, and its owner hears of a time-out.
    request.timeout = Math.max(1, Math.floor(now - began));
  }, LOOKED_FOR_MS);
  request.addEventListener("loadend", () => clearInterval(timer));
}

/** What is remembered of each pathway. */
export class Pathways {
  private readonly failedAt = new Map<string, number>();

  fail(pathway: string): void {
    this.failedAt.set(pathway, performance.now());
  }

  hasFailed(pathway: string): boolean {
    return performance.now() - (this.failedAt.get(pathway) ?? -Infinity) < AVOIDED_MS;
  }

  /** `pathways` in their order, but those that failed lately at the end, the one whose failure is longest ago first. */
  inOrder(pathways: readonly string[]): string[] {
    const all = [...new Set(pathways)];
    const failed = all.filter((pathway) => this.hasFailed(pathway));
    failed.sort((one, other) => (this.failedAt.get(one) ?? 0) - (this.failedAt.get(other) ?? 0));
    return [...all.filter((pathway) => !failed.includes(pathway)), ...failed];
  }
}
