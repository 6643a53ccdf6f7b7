// The stream of snapshots: what the browser does not do about it by itself. A stream that says nothing is as bad as one that
// has ended, and one that was refused is asked for again.

import type { History, Snapshot } from "./shape";

/** One comes each second. */
const STALE_MS = 3500;

/** Until a silent stream is begun anew, and one that was refused is asked for again. */
const AGAIN_MS = 5000;

export interface Listener {
  history: (history: History) => void;
  snapshot: (snapshot: Snapshot) => void;
  /** Milliseconds since the last snapshot; none while it is fresh. */
  stale: (forMs: number | undefined) => void;
}

export class Feed {
  private source: EventSource | undefined;
  private heardAt = performance.now();
  private askedAt = 0;

  constructor(
    private readonly address: URL,
    private readonly listener: Listener,
  ) {
    this.open();
    setInterval(() => this.look(), 500);
  }

  private open(): void {
    this.source?.close();
    this.askedAt = performance.now();
    const source = new EventSource(this.address);
    source.addEventListener("history", (event) => this.listener.history(JSON.parse(event.data)));
    source.addEventListener("snapshot", (event) => {
      this.heardAt = performance.now();
      this.listener.snapshot(JSON.parse(event.data));
    });
    this.source = source;
  }

  private look(): void {
    const now = performance.now();
    const silentMs = now - this.heardAt;
    this.listener.stale(silentMs > STALE_MS ? silentMs : undefined);
    if (silentMs > AGAIN_MS && now - this.askedAt > AGAIN_MS) this.open();
  }
}
