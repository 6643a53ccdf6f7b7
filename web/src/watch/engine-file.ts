// A file that the browser plays itself: a file of the library, or HLS if the browser supports it.

import { PROBLEMS, problemOf, type Engine, type Purpose, type Quality, type Start, type Track } from "./engine";

/** Safari has a kind of its own for forced captions, and shows them by itself. */
function isForced({ kind }: { kind: string }): boolean {
  return kind === "forced";
}

export class FileEngine implements Engine {
  readonly name = "file";
  private readonly onError = () => void this.explain();

  constructor(private readonly start: Start) {
    const { video, url, at } = start;
    video.src = at > 0 ? `${url}#t=${at}` : url;
    video.addEventListener("error", this.onError);
  }

  /** The browser does not say why it cannot load a file; requesting it again shows why. */
  private async explain(): Promise<void> {
    const { events, url, video } = this.start;
    if (video.error?.code === MediaError.MEDIA_ERR_DECODE) return events.failed(PROBLEMS.broken);
    try {
      const { ok, status } = await fetch(url, { method: "HEAD" });
      events.failed(ok ? PROBLEMS.undecodable : problemOf(status));
    } catch {
      events.failed(PROBLEMS.unreachable);
    }
  }

  qualities(): Quality[] {
    return [];
  }
  chosen(): number | null {
    return null;
  }
  choose(): void {}
  sounds(): Track[] {
    return [];
  }
  sound(): number | null {
    return null;
  }
  chooseSound(): void {}

  captions(): Track[] {
    const tracks = [...this.start.video.textTracks].map(({ language, label, kind }, id) => {
      const purposes: Purpose[] = kind === "captions" ? ["hearing"] : [];
      return { id, language, label, purposes, isForced: isForced({ kind }) };
    });
    return tracks.filter(({ isForced }) => !isForced);
  }
  caption(): number | null {
    const shown = [...this.start.video.textTracks].findIndex((track) => track.mode === "showing" && !isForced(track));
    return shown < 0 ? null : shown;
  }
  chooseCaption(id: number | null): void {
    [...this.start.video.textTracks].forEach((track, index) => {
      if (!isForced(track)) track.mode = index === id ? "showing" : "disabled";
    });
    this.start.events.changed();
  }

  /** The browser's own requests have no session. */
  collector(): undefined {
    return undefined;
  }

  destroy(): void {
    const { video } = this.start;
    video.removeEventListener("error", this.onError);
    video.removeAttribute("src");
    video.load();
  }
}
