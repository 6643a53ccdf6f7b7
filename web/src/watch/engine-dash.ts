// DASH by dash.js.

import { Debug, MediaPlayer, type MediaInfo, type MediaPlayerClass, type Representation } from "dashjs";
import { Servers, type Part } from "./servers";
import { isForcedInDash, purposesOfDash, type Descriptor } from "./tracks";
import { BEHIND_SECONDS, BUFFER_SECONDS, PROBLEMS, collectorOf, hasHdrScreen, problemOf, type Engine, type Quality, type Start, type Track } from "./engine";

/** Retries: one each second, for as long as the buffer lasts. */
const RETRIES = BUFFER_SECONDS;

/** How long dash.js waits before another request. */
const AGAIN_MS = 1000;

/** The same if another server may answer at once. */
const ELSEWHERE_MS = 100;

/** The longest wait of a timer: 24 days. */
const NEVER_MS = 2 ** 31 - 1;

/** dash.js accepts other settings than its types say. */
const IN_HEADERS = "headers" as "header";

/** The event after a steering answer. Its types have no name for it. */
const STEERED = "contentSteeringRequestCompleted" as unknown as Parameters<MediaPlayerClass["on"]>[0];

/** The parts of dash.js's manifest, requests and steering answers that are used here. */
interface Manifest {
  BaseURL?: { serviceLocation?: string; __text?: string }[];
}
interface DashRequest {
  url: string;
  customData?: { request?: { type?: string; mediaType?: string; duration?: number; range?: string | null; bandwidth?: number } };
}

/** Whether it is for picture or sound. */
function isNeeded({ customData }: DashRequest): boolean {
  return ["video", "audio"].includes(customData?.request?.mediaType ?? "");
}

interface XhrLoader {
  load(request: DashRequest, response: unknown): unknown;
  getXhr(): XMLHttpRequest | null;
}
interface SteeringAnswer {
  pathwayPriority?: string[];
  pathwayClones?: { ID: string; "BASE-ID": string; "URI-REPLACEMENT": { HOST?: string } }[];
}

interface TrackInfo {
  lang?: string | null;
  labels?: { text: string }[] | null;
  roles?: Descriptor[] | null;
  accessibility?: Descriptor[] | null;
}

function trackOf({ lang, labels, roles, accessibility }: TrackInfo, id: number): Track {
  const purposes = purposesOfDash(roles, accessibility);
  return { id, language: lang ?? "", label: labels?.[0]?.text ?? "", purposes, isForced: isForcedInDash(roles) };
}

/** The scheme of transfer characteristics (ISO/IEC 23091-2), and its values for PQ and HLG. */
const TRANSFER = "urn:mpeg:mpegB:cicp:TransferCharacteristics";
const HDR_TRANSFERS = ["16", "18"];

function isHdr({ essentialProperties, supplementalProperties }: MediaInfo): boolean {
  const properties = [essentialProperties, supplementalProperties].flat() as (Descriptor | undefined)[];
  return properties.some((property) => property?.schemeIdUri === TRANSFER && HDR_TRANSFERS.includes(String(property.value)));
}

/** On a screen of high dynamic range: pictures of that range, if the browser plays them (dash.js has left out others), and the main sound. */
function forHdrScreen(tracks: MediaInfo[]): MediaInfo[] {
  const isMain = ({ roles }: MediaInfo) => (roles as Descriptor[] | null)?.some(({ value }) => value === "main") ?? false;
  const wanted = tracks.filter((track) => (track.type === "video" ? isHdr(track) : isMain(track)));
  return wanted.length > 0 ? wanted : tracks;
}

/** The parts of an error of dash.js that are used here. */
interface Failure {
  error?: { code?: number; data?: { response?: { status?: number } } };
}

/** The codes of MediaPlayer's errors: no manifest (MANIFEST_LOADER_LOADING_FAILURE, DOWNLOAD_ERROR_ID_MANIFEST), no segment. */
const CODES_OF_NETWORK = [11, 25, 26, 27, 28, 29];
/** The browser cannot decode the film: MANIFEST_ERROR_ID_NOSTREAMS, CAPABILITY_MEDIASOURCE, media errors of the browser. */
const CODES_OF_DECODING = [32, 34, 23, 24];

export class DashEngine implements Engine {
  readonly name = "dash";
  private readonly player: MediaPlayerClass;
  private texts: TrackInfo[] = [];
  private text: number | null = null;
  private choice: number | null = null;
  private status = 0;
  private readonly servers: Servers;

  constructor(private readonly start: Start) {
    const { events } = start;
    this.player = MediaPlayer().create();
    this.servers = new Servers(start.video, {
      ahead: () => this.player.getBufferLength("video") || 0,
      connected: (isConnected) => {
        this.retryAfter(isConnected ? ELSEWHERE_MS : AGAIN_MS);
        events.connected(isConnected);
      },
      refused: (status) => this.refuse(status),
    });
    if (start.isSpread) this.watchRequests();
    this.player.updateSettings({
      debug: { logLevel: Debug.LOG_LEVEL_NONE },
      streaming: {
        buffer: {
          bufferTimeDefault: BUFFER_SECONDS,
          bufferTimeAtTopQuality: BUFFER_SECONDS,
          bufferTimeAtTopQualityLongForm: BUFFER_SECONDS,
          bufferToKeep: BEHIND_SECONDS,
          fastSwitchEnabled: true,
        },
        abr: {
          throughput: {
            // The last five ranges count, as in "A control-theoretic approach for dynamic adaptive video streaming" (SIGCOMM 2015).
            // By default dash.js weighs by the time a range took: then ten seconds of a bad link outweigh a minute of a good one.
            averageCalculationMode: "throughputCalculationModeHarmonicMean",
            sampleSettings: { vod: 5, enableSampleSizeAdjustment: false },
            ewma: {},
          },
        },
        // By default, a server that failed would never come back.
        blacklistExpiryTime: 60,
        text: { defaultEnabled: false },
        // The player itself remembers earlier choices.
        lastBitrateCachingInfo: { enabled: false },
        lastMediaSettingsCachingInfo: { enabled: false },
        retryAttempts: { MPD: 3, MediaSegment: RETRIES, InitializationSegment: RETRIES, IndexSegment: RETRIES },
        retryIntervals: { MPD: AGAIN_MS },
        cmcd: { enabled: true, mode: start.isSpread ? "query" : IN_HEADERS, sid: start.sessionId, cid: start.contentId, applyParametersFromMpd: false },
      },
    });
    this.retryAfter(start.isSpread ? ELSEWHERE_MS : AGAIN_MS);
    const dash = MediaPlayer.events;
    for (const event of [dash.STREAM_INITIALIZED, dash.QUALITY_CHANGE_RENDERED, dash.TRACK_CHANGE_RENDERED]) {
      this.player.on(event, () => events.changed());
    }
    this.player.on(dash.TEXT_TRACKS_ADDED, (event) => {
      this.texts = (event as unknown as { tracks: TrackInfo[] }).tracks;
      events.changed();
    });
    this.player.on(dash.FRAGMENT_LOADING_COMPLETED, (event) => {
      const { response, error } = event as unknown as { response?: unknown; error?: unknown };
      if (response !== undefined && response !== null && !error) events.connected(true);
    });
    // dash.js measures by the first timing that the browser keeps of an address. Here a whole size is one address, requested range
    // by range, so the timing of its very first range would count forever. So old timings are cleared.
    this.player.addRequestInterceptor((request) => {
      performance.clearResourceTimings();
      return Promise.resolve(request);
    });
    this.player.addResponseInterceptor((response) => {
      this.status = response.status ?? 0;
      // Of several servers, one failure means nothing.
      if (!start.isSpread && (this.status >= 500 || this.status === 0)) events.connected(false);
      return Promise.resolve(response);
    });
    this.player.on(dash.ERROR, (event) => this.onError(event as Failure));
    // By itself, dash.js chooses the range that every screen shows: the manifest gives it the higher priority.
    if (hasHdrScreen()) this.player.setCustomInitialTrackSelectionFunction(forHdrScreen);
    this.player.initialize(start.video, start.url, false, start.at > 0 ? start.at : undefined);
  }

  private retryAfter(ms: number): void {
    this.player.updateSettings({ streaming: { retryIntervals: { MediaSegment: ms, InitializationSegment: ms, IndexSegment: ms } } });
  }

  /** dash.js would ask for two minutes for what no server has. Later requests alone take other numbers of attempts, but all take other waits. */
  private refuse(status: number): void {
    this.servers.end();
    this.retryAfter(NEVER_MS);
    this.start.events.failed(problemOf(status));
  }

  /** Sends requests to the servers that are to answer them, and reads from the manifest which servers have the film. */
  private watchRequests(): void {
    const { servers, start } = this;
    const purposeOf = (request: DashRequest) => ({ part: this.partOf(request), isNeeded: isNeeded(request) });
    this.player.extend(
      "XHRLoader",
      function (this: { parent: XhrLoader }) {
        const { parent } = this;
        const load = parent.load.bind(parent);
        return {
          load(request: DashRequest, response: unknown): unknown {
            const purpose = purposeOf(request);
            request.url = servers.addressOf(request.url, purpose.part);
            const sent = load(request, response);
            const xhr = parent.getXhr();
            if (xhr !== null) servers.watch(xhr, request.url, purpose, true);
            return sent;
          },
        };
      },
      true,
    );
    // dash.js first asks for steering when it sees playback begin, and this page has begun before dash.js has a manifest.
    let isSteered = false;
    this.player.on(MediaPlayer.events.STREAM_INITIALIZED, () => {
      if (!isSteered) void this.player.triggerSteeringRequest();
      isSteered = true;
    });
    this.player.on(MediaPlayer.events.MANIFEST_LOADED, (event) => {
      const { BaseURL } = (event as unknown as { data: Manifest }).data ?? {};
      const named = (BaseURL ?? []).filter(({ serviceLocation, __text }) => serviceLocation !== undefined && __text !== undefined);
      servers.name(named.map(({ serviceLocation, __text }) => ({ id: serviceLocation ?? "", origin: new URL(__text ?? "", start.url).origin })));
    });
    this.player.on(STEERED, (event) => {
      const answer = (event as unknown as { currentSteeringResponseData?: SteeringAnswer }).currentSteeringResponseData;
      const clones = answer?.pathwayClones ?? [];
      const named = clones.map((clone) => ({ id: clone.ID, baseId: clone["BASE-ID"], host: clone["URI-REPLACEMENT"].HOST }));
      servers.steer(answer?.pathwayPriority ?? [], named);
    });
  }

  /** The part of the picture that dash.js requests, if it is one. */
  private partOf({ customData }: DashRequest): Part | undefined {
    const { type, mediaType, duration, range, bandwidth } = customData?.request ?? {};
    if (type !== "MediaSegment" || mediaType !== "video" || !duration) return undefined;
    const [firstByte = 0, lastByte = 0] = (range ?? "").split("-").map(Number);
    const bytes = lastByte > firstByte ? lastByte + 1 - firstByte : ((bandwidth ?? 0) * duration) / 8;
    const rates = this.representations().map((representation) => representation.bandwidth);
    return { firstByte, bytes, seconds: duration, bitsPerSecondMax: Math.max(0, ...rates) };
  }

  private onError(event: Failure): void {
    const code = event.error?.code ?? 0;
    const status = event.error?.data?.response?.status ?? this.status;
    if (CODES_OF_NETWORK.includes(code)) this.start.events.failed(problemOf(status));
    else if (CODES_OF_DECODING.includes(code)) this.start.events.failed(PROBLEMS.undecodable);
    else this.start.events.failed(PROBLEMS.broken);
  }

  private representations(): Representation[] {
    return this.player.isReady() && this.player.getActiveStream() ? this.player.getRepresentationsByType("video") : [];
  }

  qualities(): Quality[] {
    const representations = this.representations();
    const track = representations.length > 0 ? this.player.getCurrentTrackFor("video") : null;
    const isOfHdr = track !== null && isHdr(track);
    return representations
      .map(({ index, width, height, bandwidth }) => ({ id: index, width, height, bitsPerSecond: bandwidth, isHdr: isOfHdr }))
      .sort((a, b) => a.bitsPerSecond - b.bitsPerSecond);
  }

  chosen(): number | null {
    return this.choice;
  }

  choose(quality: number | null): void {
    this.choice = quality;
    this.player.updateSettings({ streaming: { abr: { autoSwitchBitrate: { video: quality === null } } } });
    // Media loaded in another size is dropped: dash.js cannot keep only what is about to be shown.
    if (quality !== null) this.player.setRepresentationForTypeByIndex("video", quality, true);
    this.start.events.changed();
  }

  private audio() {
    return this.player.isReady() && this.player.getActiveStream() ? this.player.getTracksFor("audio") : [];
  }

  sounds(): Track[] {
    return this.audio().map(trackOf);
  }

  sound(): number | null {
    const tracks = this.audio();
    const current = tracks.length > 0 ? this.player.getCurrentTrackFor("audio") : null;
    const id = tracks.findIndex((track) => track.index === current?.index);
    return id < 0 ? null : id;
  }

  chooseSound(id: number): void {
    const track = this.audio()[id];
    if (track !== undefined) this.player.setCurrentTrack(track);
  }

  captions(): Track[] {
    return this.texts.map(trackOf);
  }

  caption(): number | null {
    return this.text;
  }

  chooseCaption(id: number | null): void {
    this.text = id;
    if (id !== null) this.player.enableText(true);
    this.player.setTextTrack(id ?? -1);
    this.start.events.changed();
  }

  collector(): string | undefined {
    return collectorOf(this.start.isSpread, this.servers);
  }

  destroy(): void {
    this.servers.end();
    this.player.destroy();
  }
}
