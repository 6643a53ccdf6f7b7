// DASH by dash.js.

import { Debug, MediaPlayer, type MediaInfo, type MediaPlayerClass, type Representation } from "dashjs";
import { AVOIDED_MS, endWhenSilent, Pathways } from "./pathways";
import { isForcedInDash, purposesOfDash, type Descriptor } from "./tracks";
import { BEHIND_SECONDS, BUFFER_SECONDS, PROBLEMS, hasHdrScreen, problemOf, type Engine, type Quality, type Start, type Track } from "./engine";

/** Retries: one each second, for as long as the buffer lasts. */
const RETRIES = BUFFER_SECONDS;

/** How long dash.js waits before another request, if another server may answer at once. */
const AGAIN_MS = 100;

/** dash.js accepts other settings than its types say. */
const IN_HEADERS = "headers" as "header";

/** The event with which dash.js excludes a server. Its types have no name for it. */
const SERVER_FAILED = "serviceLocationBlacklistAdd" as unknown as Parameters<MediaPlayerClass["trigger"]>[0];

/** A server of the film, as the manifest names it. */
interface Location {
  id: string;
  url: string;
}

/** The parts of dash.js's manifest and requests that are used here. */
interface Manifest {
  BaseURL?: { serviceLocation?: string; __text?: string }[];
}
interface XhrLoader {
  load(request: unknown, response: unknown): unknown;
  getXhr(): XMLHttpRequest | null;
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
  private readonly pathways = new Pathways();
  /** The servers that have the film; empty if only the manifest's server has it. */
  private locations: Location[] = [];

  constructor(private readonly start: Start) {
    const { events } = start;
    const again = start.isSpread ? AGAIN_MS : 1000;
    this.player = MediaPlayer().create();
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
        // Unless steering says for how long. By default, a server that failed would never come back.
        blacklistExpiryTime: AVOIDED_MS / 1000,
        text: { defaultEnabled: false },
        // The player itself remembers earlier choices.
        lastBitrateCachingInfo: { enabled: false },
        lastMediaSettingsCachingInfo: { enabled: false },
        retryAttempts: { MPD: 3, MediaSegment: RETRIES, InitializationSegment: RETRIES, IndexSegment: RETRIES },
        retryIntervals: { MPD: 1000, MediaSegment: again, InitializationSegment: again, IndexSegment: again },
        cmcd: { enabled: true, mode: start.isSpread ? "query" : IN_HEADERS, sid: start.sessionId, cid: start.contentId, applyParametersFromMpd: false },
      },
    });
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
      request.url = this.elsewhere(request.url ?? "");
      return Promise.resolve(request);
    });
    this.player.addResponseInterceptor((response) => {
      this.status = response.status ?? 0;
      const hasOther = (this.status >= 400 || this.status === 0) && this.leave(response.request?.url ?? "");
      if (!hasOther && (this.status >= 500 || this.status === 0)) events.connected(false);
      return Promise.resolve(response);
    });
    this.player.on(dash.ERROR, (event) => this.onError(event as Failure));
    // By itself, dash.js chooses the range that every screen shows: the manifest gives it the higher priority.
    if (hasHdrScreen()) this.player.setCustomInitialTrackSelectionFunction(forHdrScreen);
    this.player.initialize(start.video, start.url, false, start.at > 0 ? start.at : undefined);
  }

  /** Ends requests that bring no data, and reads from the manifest which other servers have the film. */
  private watchRequests(): void {
    this.player.extend(
      "XHRLoader",
      function (this: { parent: XhrLoader }) {
        const { parent } = this;
        const load = parent.load.bind(parent);
        return {
          load(request: unknown, response: unknown): unknown {
            const sent = load(request, response);
            const xhr = parent.getXhr();
            if (xhr !== null) endWhenSilent(xhr);
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
      this.locations = named.map(({ serviceLocation, __text }) => ({ id: serviceLocation ?? "", url: __text ?? "" }));
    });
  }

  private locationOf(url: string): Location | undefined {
    return this.locations.find((location) => url.startsWith(location.url));
  }

  /** The address of the same bytes at a server that has not failed: dash.js itself repeats a request at the server where it failed. */
  private elsewhere(url: string): string {
    const asked = this.locationOf(url);
    if (asked === undefined || !this.pathways.hasFailed(asked.id)) return url;
    const [best] = this.pathways.inOrder(this.locations.map(({ id }) => id));
    const location = this.locations.find(({ id }) => id === best) ?? asked;
    return location.url + url.slice(asked.url.length);
  }

  /**
   * Leaves the server of `url`, which failed. Returns whether there is another one that has not failed. dash.js is not told about the last server:
   * once it has excluded all, it never requests anything again (`_onURLResolutionFailed`), but it must try until one is back.
   */
  private leave(url: string): boolean {
    const failed = this.locationOf(url);
    if (failed === undefined || this.locations.length < 2) return false;
    this.pathways.fail(failed.id);
    const hasOther = this.locations.some(({ id }) => !this.pathways.hasFailed(id));
    if (hasOther) this.player.trigger(SERVER_FAILED, { entry: failed.id }, {});
    return hasOther;
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

  destroy(): void {
    this.player.destroy();
  }
}
