// The stream of snapshots, with two things that a browser does not do by itself: it restarts a silent stream as if it had ended, and
// requests a refused one again.

import type { History, Snapshot } from "./shape";

/** A snapshot comes every second. */
const STALE_MS = 3500;

/** How long to wait before restarting a silent or refused stream. */
const AGAIN_MS = 5000;

export interface Listener {
  history: (history: History) => void;
  snapshot: (snapshot: Snapshot) => void;
  /** Milliseconds since the last snapshot; none while data is fresh. */
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
