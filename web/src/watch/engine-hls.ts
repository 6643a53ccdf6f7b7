// HLS by hls.js.

import Hls, { ErrorDetails, ErrorTypes, Events, type ErrorData, type LoadPolicy } from "hls.js";
import { BEHIND_SECONDS, BUFFER_SECONDS, PROBLEMS, problemOf, type Engine, type Quality, type Start, type Track } from "./engine";

/** Retries for about two minutes, as long as the buffer lasts: a restarting server is back long before. */
const PATIENT: LoadPolicy = {
  default: {
    maxTimeToFirstByteMs: 10_000,
    maxLoadTimeMs: 60_000,
    timeoutRetry: { maxNumRetry: 10, retryDelayMs: 0, maxRetryDelayMs: 0 },
    errorRetry: { maxNumRetry: 60, retryDelayMs: 500, maxRetryDelayMs: 2000, backoff: "linear" },
  },
};

export function isSupported(): boolean {
  return Hls.isSupported();
}

export class HlsEngine implements Engine {
  readonly name = "hls";
  private readonly hls: Hls;
  private recoveries = 0;

  constructor(private readonly start: Start) {
    this.hls = new Hls({
      // Nothing is repackaged: the browser accepts the files as they are.
      enableWorker: false,
      startPosition: start.at > 0 ? start.at : -1,
      maxBufferLength: BUFFER_SECONDS,
      maxMaxBufferLength: BUFFER_SECONDS,
      // Two minutes of the largest size; hls.js copes with the browser's own limit.
      maxBufferSize: 256 << 20,
      backBufferLength: BEHIND_SECONDS,
      fragLoadPolicy: PATIENT,
      playlistLoadPolicy: PATIENT,
      cmcd: { sessionId: start.sessionId, contentId: start.contentId, useHeaders: true },
    });
    const { changed, connected } = start.events;
    for (const event of [
      Events.MANIFEST_PARSED,
      Events.LEVEL_SWITCHED,
      Events.AUDIO_TRACKS_UPDATED,
      Events.AUDIO_TRACK_SWITCHED,
      Events.SUBTITLE_TRACKS_UPDATED,
      Events.SUBTITLE_TRACK_SWITCH,
    ] as const) {
      this.hls.on(event, () => changed());
    }
    this.hls.on(Events.FRAG_LOADED, () => connected(true));
    this.hls.on(Events.ERROR, (_, data) => this.onError(data));
    this.hls.loadSource(start.url);
    this.hls.attachMedia(start.video);
  }

  private onError(data: ErrorData): void {
    const { events } = this.start;
    if (!data.fatal) {
      if (data.type === ErrorTypes.NETWORK_ERROR) events.connected(false);
      return;
    }
    if (data.type === ErrorTypes.NETWORK_ERROR) {
      events.failed(problemOf(data.response?.code ?? 0));
    } else if (data.type === ErrorTypes.MEDIA_ERROR && this.recoveries < 2) {
      this.recoveries += 1;
      this.hls.recoverMediaError();
      return;
    } else {
      const isCodec =
        data.details === ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR || data.details === ErrorDetails.BUFFER_ADD_CODEC_ERROR;
      events.failed(isCodec ? PROBLEMS.undecodable : PROBLEMS.broken);
    }
    this.hls.stopLoad();
  }

  qualities(): Quality[] {
    return this.hls.levels
      .map(({ width, height, bitrate }, id) => ({ id, width, height, bitsPerSecond: bitrate }))
      .filter(({ height }) => height > 0)
      .sort((a, b) => a.bitsPerSecond - b.bitsPerSecond);
  }

  chosen(): number | null {
    return this.hls.autoLevelEnabled ? null : this.hls.loadLevel;
  }

  choose(quality: number | null): void {
    // Media loaded ahead in another size is loaded again, but the part about to be shown is kept, so that there is no gap.
    this.hls.nextLevel = quality ?? -1;
    this.start.events.changed();
  }

  sounds(): Track[] {
    return this.hls.audioTracks.map(({ lang, name }, id) => ({ id, language: lang ?? "", label: name }));
  }

  sound(): number | null {
    return this.hls.audioTrack < 0 ? null : this.hls.audioTrack;
  }

  chooseSound(id: number): void {
    this.hls.audioTrack = id;
  }

  captions(): Track[] {
    return this.hls.subtitleTracks.map(({ lang, name }, id) => ({ id, language: lang ?? "", label: name }));
  }

  caption(): number | null {
    return this.hls.subtitleTrack < 0 || !this.hls.subtitleDisplay ? null : this.hls.subtitleTrack;
  }

  chooseCaption(id: number | null): void {
    this.hls.subtitleDisplay = id !== null;
    this.hls.subtitleTrack = id ?? -1;
    this.start.events.changed();
  }

  destroy(): void {
    this.hls.destroy();
  }
}
