// HLS by hls.js.

import Hls, { ErrorDetails, ErrorTypes, Events } from "hls.js";
import type { ErrorData, FragmentLoaderContext, LoaderContext, LoadPolicy, MediaPlaylist, PlaylistLoaderContext, RetryConfig } from "hls.js";
import { PATIENCE_MS, Servers, type Part, type Purpose } from "./servers";
import { ofAnotherGroup, purposesOfHls } from "./tracks";
import { BEHIND_SECONDS, BUFFER_SECONDS, PROBLEMS, collectorOf, hasHdrScreen, problemOf, type Engine, type Quality, type Start, type Track } from "./engine";

/** hls.js takes a request that ended without a status for one that CORS forbids, and tries a lower quality. Here it is a server that is away. */
const shouldRetry: RetryConfig["shouldRetry"] = (policy, count, _isTimeout, response, retry) =>
  retry || (response?.code === 0 && count < (policy?.maxNumRetry ?? 0));

/** Retries for about two minutes, as long as the buffer lasts: a restarting server is back long before. */
const PATIENT: LoadPolicy = {
  default: {
    maxTimeToFirstByteMs: 10_000,
    maxLoadTimeMs: 60_000,
    timeoutRetry: { maxNumRetry: 10, retryDelayMs: 0, maxRetryDelayMs: 0 },
    errorRetry: { maxNumRetry: 60, retryDelayMs: 500, maxRetryDelayMs: 2000, backoff: "linear", shouldRetry },
  },
};

/** The name of chapters in EXT-X-SESSION-DATA. */
const CHAPTERS = "com.apple.hls.chapters";

/** How long to wait before the next requests when no server answers. */
const AGAIN_MS = 1000;

/** The time for which hls.js avoids a pathway that failed: five minutes, longer than the buffer lasts if all have failed. The name is private. */
interface PenaltyBox {
  penalizedPathways: Record<string, number>;
}

export function isSupported(): boolean {
  return Hls.isSupported();
}

export class HlsEngine implements Engine {
  readonly name = "hls";
  private readonly hls: Hls;
  private readonly servers: Servers;
  private recoveries = 0;
  private penaltyBox: PenaltyBox | undefined;
  private loadedAt = performance.now();
  private again = 0;

  constructor(private readonly start: Start) {
    this.servers = new Servers(start.video, {
      ahead: () => this.hls.mainForwardBufferInfo?.len ?? 0,
      connected: (isConnected) => start.events.connected(isConnected),
      // hls.js tries other sizes, and then gives up by itself.
      refused: () => {},
    });
    const Steering = Hls.DefaultConfig.contentSteeringController;
    const keep = (box: PenaltyBox): void => void (this.penaltyBox = box);
    // On several servers, Servers ends silent requests, and has to know of each.
    const policy = start.isSpread ? { default: { ...PATIENT.default, maxTimeToFirstByteMs: PATIENCE_MS * 2 } } : PATIENT;
    this.hls = new Hls({
      // Nothing is repackaged: the browser accepts the files as they are.
      enableWorker: false,
      startPosition: start.at > 0 ? start.at : -1,
      maxBufferLength: BUFFER_SECONDS,
      maxMaxBufferLength: BUFFER_SECONDS,
      // Two minutes of the largest size; hls.js copes with the browser's own limit.
      maxBufferSize: 256 << 20,
      backBufferLength: BEHIND_SECONDS,
      // By default hls.js never chooses HDR. It leaves out codecs that the browser lacks.
      videoPreference: { preferHDR: hasHdrScreen() },
      fragLoadPolicy: policy,
      playlistLoadPolicy: policy,
      preserveManualLevelOnError: true,
      cmcd: { sessionId: start.sessionId, contentId: start.contentId, useHeaders: !start.isSpread },
      ...(start.isSpread && { xhrSetup: (request, url, context) => this.send(request, url, context) }),
      ...(Steering && {
        contentSteeringController: class extends Steering {
          constructor(hls: Hls) {
            super(hls);
            keep(this as unknown as PenaltyBox);
          }
        },
      }),
    });
    for (const event of [Events.MANIFEST_PARSED, Events.LEVELS_UPDATED] as const) {
      this.hls.on(event, () => this.keepOneGroup());
    }
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
    this.hls.on(Events.MANIFEST_LOADED, (_, { sessionData, url }) => {
      const uri = sessionData?.[CHAPTERS]?.["URI"];
      if (uri !== undefined) start.events.chapters(new URL(uri, url).href);
    });
    this.hls.on(Events.FRAG_LOADED, () => {
      this.loadedAt = performance.now();
      connected(true);
    });
    this.hls.on(Events.ERROR, (_, data) => this.onError(data));
    if (start.isSpread) this.listenForServers();
    this.hls.loadSource(start.url);
    this.hls.attachMedia(start.video);
  }

  private listenForServers(): void {
    this.hls.on(Events.MANIFEST_LOADED, (_, { levels, contentSteering }) => {
      const named = levels.map(({ url, attrs }) => ({ id: attrs["PATHWAY-ID"] ?? ".", origin: new URL(url).origin }));
      this.servers.name(named, contentSteering?.pathwayId);
    });
    this.hls.on(Events.STEERING_MANIFEST_LOADED, (_, { steeringManifest }) => {
      const clones = steeringManifest["PATHWAY-CLONES"] ?? [];
      const named = clones.map((clone) => ({ id: clone.ID, baseId: clone["BASE-ID"], host: clone["URI-REPLACEMENT"].HOST }));
      this.servers.steer(steeringManifest["PATHWAY-PRIORITY"] ?? [], named);
    });
  }

  /** Sends a request of hls.js to the server that is to answer it. */
  private send(request: XMLHttpRequest, url: string, context: LoaderContext): void {
    const purpose = this.purposeOf(context);
    const address = this.servers.addressOf(url, purpose.part);
    request.open("GET", address, true);
    this.servers.watch(request, address, purpose);
  }

  private purposeOf(context: LoaderContext): Purpose {
    const { frag } = context as Partial<FragmentLoaderContext>;
    const isOfCaptions = frag?.type === "subtitle" || (context as Partial<PlaylistLoaderContext>).type === "subtitleTrack";
    return { part: this.partOf(context), isNeeded: !isOfCaptions };
  }

  /** The part of the picture that hls.js requests, if it is one. */
  private partOf(context: LoaderContext): Part | undefined {
    const { frag } = context as Partial<FragmentLoaderContext>;
    if (frag?.type !== "main" || frag.sn === "initSegment") return undefined;
    const { rangeStart: firstByte = 0, rangeEnd: end = 0 } = context;
    const { levels } = this.hls;
    const guess = ((levels[frag.level]?.bitrate ?? 0) * frag.duration) / 8;
    const bitsPerSecondMax = Math.max(...levels.map(({ bitrate }) => bitrate));
    return { firstByte, bytes: end > firstByte ? end - firstByte : guess, seconds: frag.duration, bitsPerSecondMax };
  }

  /**
   * Keeps each size once, with the group of sounds of the smallest one, which has stereo in titles of ingest. hls.js would list each size once for
   * each group, and in playlists with several groups of one codec it would change between them when it changes sizes.
   */
  private keepOneGroup(): void {
    for (;;) {
      const other = ofAnotherGroup(this.hls.levels);
      if (other < 0) return;
      this.hls.removeLevel(other);
    }
  }

  private onError(data: ErrorData): void {
    const { events } = this.start;
    if (!data.fatal) {
      // Of several servers, one failure means nothing.
      if (data.type === ErrorTypes.NETWORK_ERROR && !this.start.isSpread) events.connected(false);
      return;
    }
    if (data.type === ErrorTypes.NETWORK_ERROR) {
      if (this.tryAll()) return;
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

  /** Tries all servers again when hls.js has given up on all, for as long as the buffer lasts. Returns whether it does. */
  private tryAll(): boolean {
    const silentMs = performance.now() - this.loadedAt;
    if (this.hls.pathways.length < 2 || silentMs > BUFFER_SECONDS * 1000) return false;
    this.start.events.connected(false);
    clearTimeout(this.again);
    this.again = window.setTimeout(() => {
      if (this.penaltyBox) this.penaltyBox.penalizedPathways = {};
      this.hls.startLoad();
    }, AGAIN_MS);
    return true;
  }

  qualities(): Quality[] {
    const { levels, loadLevel } = this.hls;
    // hls.js doesn't leave the range in which it began, and neither does a viewer by choosing a size.
    const range = levels[loadLevel]?.videoRange;
    return levels
      .map(({ width, height, bitrate, videoRange }, id) => ({ id, width, height, bitsPerSecond: bitrate, isHdr: videoRange !== "SDR" }))
      .filter(({ id, height }) => height > 0 && (range === undefined || levels[id]?.videoRange === range))
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

  private track({ lang, name, characteristics, forced }: MediaPlaylist, id: number): Track {
    return { id, language: lang ?? "", label: name, purposes: purposesOfHls(characteristics), isForced: forced };
  }

  sounds(): Track[] {
    return this.hls.audioTracks.map((track, id) => this.track(track, id));
  }

  sound(): number | null {
    return this.hls.audioTrack < 0 ? null : this.hls.audioTrack;
  }

  chooseSound(id: number): void {
    this.hls.audioTrack = id;
  }

  captions(): Track[] {
    return this.hls.subtitleTracks.map((track, id) => this.track(track, id));
  }

  caption(): number | null {
    return this.hls.subtitleTrack < 0 || !this.hls.subtitleDisplay ? null : this.hls.subtitleTrack;
  }

  chooseCaption(id: number | null): void {
    this.hls.subtitleDisplay = id !== null;
    this.hls.subtitleTrack = id ?? -1;
    this.start.events.changed();
  }

  collector(): string | undefined {
    return collectorOf(this.start.isSpread, this.servers);
  }

  destroy(): void {
    clearTimeout(this.again);
    this.servers.end();
    this.hls.destroy();
  }
}
