// The stream of events from the gateway. It is read with fetch, because EventSource sends no token.

import { ask } from "./api";
import type { Fleet } from "./shape";

/** An event comes every second. */
const STALE_MS = 3500;

/** How long to wait before another request for a stream that has ended, was refused, or is silent. */
const AGAIN_MS = 3000;

/** How long a stream may be silent before it is requested again. */
const SILENT_MS = 8000;

export interface Listener {
  fleet: (now: Fleet) => void;
  /** Milliseconds since the last event; none while data is fresh. */
  stale: (forMs: number | undefined) => void;
}

export class Feed {
  private heardAt = performance.now();
  private stream: AbortController | undefined;

  constructor(private readonly listener: Listener) {
    void this.listen();
    setInterval(() => this.look(), 500);
  }

  private look(): void {
    const silentMs = performance.now() - this.heardAt;
    this.listener.stale(silentMs > STALE_MS ? silentMs : undefined);
    if (silentMs > SILENT_MS) this.stream?.abort();
  }

  private async listen(): Promise<void> {
    for (;;) {
      this.stream = new AbortController();
      try {
        const response = await ask("fleet", { signal: this.stream.signal, headers: { Accept: "text/event-stream" } });
        if (response.body !== null) await this.read(response.body);
      } catch {
        // The page shows that its data is stale, and requests the stream again.
      }
      this.heardAt = Math.max(this.heardAt, performance.now() - SILENT_MS + AGAIN_MS);
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }

  private async read(body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value.replaceAll("\r", "");
      const events = text.split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) this.hear(event);
    }
  }

  private hear(event: string): void {
    const lines = event.split("\n");
    if (!lines.includes("event: fleet")) return;
    const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
    const now = JSON.parse(data.join("\n")) as Fleet;
    if (now.version !== 1) return;
    this.heardAt = performance.now();
    this.listener.fleet(now);
  }
}
