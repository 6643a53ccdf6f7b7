// The player: the picture, the controls over it, and what the buttons do. An engine (engine.ts) fetches the film.

import { initials } from "../card";
import { chapterAt, loadChapters, type Chapter } from "../chapters";
import { element, icon, type Shape } from "../element";
import { isFinished, keepPlace, places, remember, remembered, type EngineName } from "../memory";
import { shownName } from "../names";
import { phrase } from "../phrases";
import { Thumbnails } from "../thumbnails";
import { libraryUrl, shownHeight, type Title } from "../titles";
import { clock, rate, trackName } from "../words";
import { listenToDevice, showOnDevice } from "./device";
import { FileEngine } from "./engine-file";
import { PROBLEMS, problemName, uuid, type Engine, type EngineEvents, type Problem, type Quality, type Start, type Track } from "./engine";
import { Help } from "./help";
import { listen } from "./keyboard";
import { Menu, type Page } from "./menu";
import { Next } from "./next";
import { Reports } from "./reports";
import type { Series } from "./series";
import { Timebar } from "./timebar";
import { forcedFor, listed, memoryOf, recalled } from "./tracks";

const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
/** Controls hide this long after the last movement, while the film plays. */
const IDLE_MS = 3000;
/** A wait shorter than this shows no spinner. */
const WAIT_SHOWN_MS = 400;
/** How often the position is saved. */
const PLACE_KEPT_MS = 5000;

export class Player {
  readonly video = element("video", { playsinline: true, preload: "auto", tabindex: -1 });
  private readonly message = element("div", { class: "message", role: "alert", hidden: true });
  private readonly hint = element("div", { class: "hint", role: "status", hidden: true });
  private readonly said = element("div", { class: "unseen", "aria-live": "polite" });
  private readonly time = element("div", { class: "time" }, "0:00");
  private readonly chapter = element("div", { class: "chapter" });
  private readonly playButton = this.button("play", phrase("play"), () => this.toggle());
  private readonly nextButton = this.button("next", phrase("nextTitle"), () => {});
  private readonly bigButton = element("button", { class: "big", type: "button", "aria-label": phrase("play"), onclick: () => this.toggle() }, icon("play"));
  private readonly muteButton = this.button("loud", phrase("soundOff"), () => this.mute());
  private readonly volume = element("input", { type: "range", class: "volume", min: 0, max: 1, step: 0.05, value: 1, "aria-label": phrase("volume") });
  private readonly captionsButton = this.button("captions", phrase("captions"), () => {});
  private readonly settingsButton = this.button("settings", phrase("settings"), () => {});
  private readonly insetButton = this.button("inset", phrase("inset"), () => void this.inset());
  private readonly screenButton = this.button("widen", phrase("fullScreen"), () => void this.fullscreen());
  private readonly timebar = new Timebar(this.video, (seconds) => this.go(seconds));
  private readonly captionsMenu = new Menu(this.captionsButton, phrase("captions"), () => [this.captionsPage()], () => this.onMenu());
  private readonly settingsMenu = new Menu(this.settingsButton, phrase("settings"), () => this.settingsPages(), () => this.onMenu());
  private readonly help = new Help();
  private readonly next: Next;
  readonly element: HTMLElement;

  private readonly reports = new Reports(this.video, () => this.engine?.collector());
  private engine: Engine | null = null;
  /** Of each title's own session. */
  private sessionId = uuid();
  private idle = 0;
  private waiting = 0;
  private hasSettled = false;
  /** The position from which the film starts, until it has started. */
  private beginsAt: number | null = null;
  private readonly onOnline = () => void this.load(this.place(), this.engine === null || !this.video.paused);
  private chapters: Chapter[] = [];

  /** A player of `title`. If it is in a `series`, the player continues with the next one in the same picture, and calls `opened` then. */
  constructor(
    private title: Title,
    header: HTMLElement,
    series: Series | null,
    private readonly opened: (title: Title) => void,
  ) {
    this.next = new Next(series, this.nextButton, {
      video: this.video,
      title: () => this.title,
      open: (title) => void this.open(title),
      say: (text) => this.say(text),
      isBusy: () => this.isBusy,
      isElsewhere: () => document.activeElement !== document.body && !this.element.contains(document.activeElement),
      focusControls: () => this.playButton.focus(),
    });
    const left = [this.button("replay", phrase("tenBack"), () => this.skip(-10)), this.button("skip", phrase("tenForward"), () => this.skip(10))];
    // A phone has other ways to do this, and no room.
    for (const button of [...left, this.insetButton]) button.classList.add("roomy");
    const row = element(
      "div",
      { class: "row" },
      this.playButton,
      this.nextButton,
      ...left,
      element("div", { class: "loudness" }, this.muteButton, this.volume),
      this.time,
      this.chapter,
      element("div", { class: "space" }),
      this.captionsButton,
      this.settingsButton,
      this.insetButton,
      this.screenButton,
    );
    const controls = element("div", { class: "controls", role: "group", "aria-label": phrase("player") }, this.timebar.element, row);
    const veil = element("div", { class: "veil", onclick: () => this.onVeil(), ondblclick: () => void this.fullscreen() });
    const wheel = element("div", { class: "wheel", "aria-hidden": "true" });
    this.element = element(
      "div",
      { class: "player", "data-state": "loading" },
      this.video,
      veil,
      wheel,
      this.hint,
      header,
      controls,
      this.next.offer.element,
      this.bigButton,
      this.captionsMenu.element,
      this.settingsMenu.element,
      this.help.element,
      this.message,
      this.said,
    );
    this.watchVideo();
    this.watchPointer();
    this.introduce();
    this.insetButton.hidden = !document.pictureInPictureEnabled;
    this.setVolume(remembered.volume());
    listenToDevice([
      ["play", () => void this.play()],
      ["pause", () => this.video.pause()],
      ["seekbackward", () => this.skip(-10)],
      ["seekforward", () => this.skip(10)],
    ]);
    listen({
      toggle: () => this.toggle(),
      skip: (seconds) => this.skip(seconds),
      goTo: (share) => this.go(share * (this.video.duration || 0)),
      louder: (by) => this.setVolume(Math.min(1, Math.max(0, this.video.volume + by))),
      mute: () => this.mute(),
      captions: () => this.toggleCaptions(),
      fullscreen: () => void this.fullscreen(),
      faster: (by) => this.faster(by),
      step: (side) => this.next.step(side),
      help: () => {
        this.next.offer.stop();
        this.help.toggle();
      },
      controls: () => this.playButton.focus(),
    });
  }

  // --- the title ------------------------------------------------------------------------------------------------------------

  /** Shows what is known of the title before it is loaded. */
  private introduce(): void {
    const { title, video } = this;
    this.next.reset();
    this.element.querySelector(":scope > .initials")?.remove();
    if (title.height === 0) video.after(initials(shownName(title)));
    if (title.poster === undefined) video.removeAttribute("poster");
    else video.poster = libraryUrl(title.poster);
    this.timebar.show(null);
    if (title.thumbnails !== undefined) {
      void Thumbnails.load(title.thumbnails).then((loaded) => {
        if (this.title === title) this.timebar.show(loaded);
      });
    }
    this.setChapters([]);
    if (title.chapters !== undefined) void this.showChapters(libraryUrl(title.chapters));
    showOnDevice(title);
  }

  /** Plays another title in the same picture, which stays in full screen. */
  private async open(title: Title): Promise<void> {
    this.keep();
    this.reports.leave();
    this.title = title;
    this.sessionId = uuid();
    this.introduce();
    this.opened(title);
    this.say(shownName(title));
    await this.load(places()[title.path]?.seconds ?? 0);
  }

  // --- the engine -------------------------------------------------------------------------------------------------------

  /** Loads the film and, if the browser allows it, plays it from `at` on. */
  async load(at: number, plays = true): Promise<void> {
    this.engine?.destroy();
    this.engine = null;
    this.hasSettled = false;
    this.beginsAt = at;
    removeEventListener("online", this.onOnline);
    this.message.hidden = true;
    this.reports.begin(this.sessionId);
    this.element.dataset.state = "loading";
    this.wait(true);
    try {
      this.engine = await this.makeEngine(at);
    } catch {
      return this.fail(PROBLEMS.unreachable);
    }
    this.element.dataset.engine = this.engine.name;
    this.update();
    if (plays) await this.play();
  }

  private async makeEngine(at: number): Promise<Engine> {
    const { title, video, sessionId } = this;
    const events: EngineEvents = {
      changed: () => this.update(),
      connected: (isConnected) => this.connection(isConnected),
      failed: (problem) => this.fail(problem),
      // The list of titles has it already, except on several servers.
      chapters: (url) => void (this.title.chapters === undefined && this.chapters.length === 0 && this.showChapters(url)),
    };
    const start = (path: string): Start => ({ video, url: libraryUrl(path), at, contentId: title.path.slice(0, 64), sessionId, isSpread: title.watch !== undefined, events });
    const wanted = this.wantedEngine();
    if (wanted === "dash" && title.dash !== undefined) {
      const { DashEngine } = await import("./engine-dash");
      return new DashEngine(start(title.dash));
    }
    if (title.hls !== undefined) {
      const { HlsEngine, isSupported } = await import("./engine-hls");
      return isSupported() ? new HlsEngine(start(title.hls)) : new FileEngine(start(title.hls));
    }
    return new FileEngine(start(title.file ?? title.path));
  }

  private wantedEngine(): EngineName {
    const { hls, dash } = this.title;
    return dash !== undefined && (remembered.engine() === "dash" || hls === undefined) ? "dash" : "hls";
  }

  private chooseEngine(name: EngineName): void {
    remember("engine", name);
    const isPlaying = !this.video.paused;
    void this.load(this.place(), isPlaying);
  }

  /** The player engine changed state. */
  private update(): void {
    const { engine } = this;
    if (engine === null) return;
    this.settle(engine);
    this.element.dataset.quality = String(this.video.videoHeight);
    this.keepForced(engine);
    this.captionsButton.hidden = listed(engine.captions()).length === 0;
    this.captionsButton.classList.toggle("on", this.chosenCaption() !== null);
    this.captionsMenu.refresh();
    this.settingsMenu.refresh();
  }

  /** Applies the choices of earlier visits, once the film's tracks are known. */
  private settle(engine: Engine): void {
    if (this.hasSettled || (engine.sounds().length === 0 && engine.captions().length === 0)) return;
    this.hasSettled = engine.captions().length > 0 || (this.title.subtitle_languages?.length ?? 0) === 0;
    const sound = recalled(engine.sounds(), remembered.sound());
    if (sound !== undefined && engine.sound() !== sound.id) engine.chooseSound(sound.id);
    const caption = recalled(engine.captions(), remembered.captions());
    // Deferred, because hls.js makes its own choice after it has announced the tracks.
    if (this.hasSettled) queueMicrotask(() => engine.chooseCaption((caption ?? this.forced(engine))?.id ?? null));
  }

  /** The captions to show if the viewer has chosen none. */
  private forced(engine: Engine): Track | undefined {
    const sounds = engine.sounds();
    const sound = sounds.find(({ id }) => id === engine.sound()) ?? sounds[0];
    return forcedFor(engine.captions(), sound?.language ?? "");
  }

  /** After a change of the sound, shows its forced captions in place of the former's. */
  private keepForced(engine: Engine): void {
    if (!this.hasSettled || this.chosenCaption() !== null) return;
    const wanted = this.forced(engine)?.id ?? null;
    if (engine.caption() !== wanted) engine.chooseCaption(wanted);
  }

  /** The captions that the viewer has chosen. Forced ones are shown without a choice, and don't count. */
  private chosenCaption(): number | null {
    const { engine } = this;
    const shown = engine?.caption() ?? null;
    return engine?.captions().some(({ id, isForced }) => id === shown && !isForced) ? shown : null;
  }

  private async showChapters(url: string): Promise<void> {
    const { title } = this;
    const chapters = await loadChapters(url, (number) => phrase("chapter", { number }));
    if (this.title === title) this.setChapters(chapters);
  }

  private setChapters(chapters: Chapter[]): void {
    this.chapters = chapters;
    this.timebar.showChapters(this.chapters);
    this.nameChapter();
    this.settingsMenu.refresh();
  }

  private nameChapter(): void {
    this.chapter.textContent = chapterAt(this.chapters, this.video.currentTime)?.title ?? "";
  }

  /** The position to continue from. An engine goes to where the film begins only when it has loaded something there. */
  private place(): number {
    return this.beginsAt ?? this.video.currentTime;
  }

  private fail(problem: Problem): void {
    this.reports.fail(problemName(problem));
    this.wait(false);
    this.hint.hidden = true;
    this.element.dataset.state = "failed";
    // A network that was gone for longer than the engine tries: the film continues by itself.
    if (problem === PROBLEMS.unreachable) addEventListener("online", this.onOnline);
    const again = element("button", { type: "button", class: "again", onclick: () => void this.load(this.place()) }, phrase("tryAgain"));
    this.message.replaceChildren(element("h2", {}, problem.what), element("p", {}, problem.advice), again);
    this.message.hidden = false;
    // A remote has no other way to it.
    again.focus();
  }

  private connection(isConnected: boolean): void {
    this.hint.hidden = isConnected;
    if (!isConnected && this.hint.textContent === "") this.hint.textContent = phrase("connectionLost");
    if (isConnected) this.hint.textContent = "";
  }

  // --- what buttons and keys do ---------------------------------------------------------------------------------------------

  private async play(): Promise<void> {
    try {
      await this.video.play();
    } catch (error) {
      // Browsers play sound only after the viewer has asked for it: show the large button.
      if (error instanceof DOMException && error.name === "NotAllowedError") this.state();
    }
  }

  private toggle(): void {
    if (this.video.ended) this.video.currentTime = 0;
    if (this.video.paused) void this.play();
    else this.video.pause();
  }

  private go(seconds: number): void {
    const { duration } = this.video;
    if (!Number.isFinite(duration)) return;
    this.video.currentTime = Math.min(Math.max(0, seconds), Math.max(0, duration - 0.1));
    this.stir();
  }

  private skip(seconds: number): void {
    this.go(this.video.currentTime + seconds);
    this.say(`${clock(this.video.currentTime)}`);
  }

  private mute(): void {
    this.video.muted = !this.video.muted;
    if (!this.video.muted && this.video.volume === 0) this.setVolume(0.5);
  }

  private setVolume(volume: number): void {
    this.video.volume = volume;
    if (volume > 0) this.video.muted = false;
    remember("volume", String(Math.round(volume * 100) / 100));
    this.stir();
  }

  private faster(by: number): void {
    const at = SPEEDS.indexOf(this.video.playbackRate);
    const speed = SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, at + by))];
    if (speed !== undefined) this.setSpeed(speed);
  }

  private setSpeed(speed: number): void {
    // Loading another stream or title sets the former to the latter.
    this.video.playbackRate = speed;
    this.video.defaultPlaybackRate = speed;
    this.say(phrase("speedNow", { speed }));
    this.stir();
  }

  private chooseCaption(track: Track | null): void {
    const memory = track === null ? "" : memoryOf(track);
    if (memory !== null) remember("captions", memory);
    const { engine } = this;
    engine?.chooseCaption((track ?? this.forced(engine))?.id ?? null);
    this.say(track === null ? phrase("captionsOff") : phrase("captionsNow", { name: this.nameOf(track) }));
  }

  private toggleCaptions(): void {
    const { engine } = this;
    if (engine === null) return;
    const tracks = listed(engine.captions());
    const wanted = tracks.find(({ language }) => navigator.languages.some((own) => own.startsWith(language))) ?? tracks[0];
    this.chooseCaption(this.chosenCaption() === null ? (wanted ?? null) : null);
    this.stir();
  }

  private async fullscreen(): Promise<void> {
    try {
      if (document.fullscreenElement !== null) await document.exitFullscreen();
      else if (this.element.requestFullscreen !== undefined) await this.element.requestFullscreen();
      // On Apple's phones only the video element can go full screen.
      else (this.video as unknown as { webkitEnterFullscreen?(): void }).webkitEnterFullscreen?.();
    } catch {
      this.say(phrase("noFullScreen"));
    }
  }

  private async inset(): Promise<void> {
    try {
      if (document.pictureInPictureElement !== null) await document.exitPictureInPicture();
      else await this.video.requestPictureInPicture();
    } catch {
      this.say(phrase("noInset"));
    }
  }

  private say(text: string): void {
    this.said.textContent = text;
  }

  // --- menus ---------------------------------------------------------------------------------------------------------------

  private nameOf({ id, label, language: tag, purposes }: Track): string {
    return trackName(tag, label, purposes.length > 0) || phrase("track", { number: id + 1 });
  }

  /** A track's line in a menu: its name, and next to it its kind. */
  private line(track: Track): { label: string; detail?: string } {
    const kinds = track.purposes.map((purpose) => phrase(purpose)).join(", ");
    return { label: this.nameOf(track), ...(kinds !== "" && { detail: kinds }) };
  }

  private captionsPage(): Page {
    const tracks = listed(this.engine?.captions() ?? []);
    const chosen = this.chosenCaption();
    const off = { label: phrase("off"), isChosen: chosen === null, choose: () => this.chooseCaption(null) };
    const rest = tracks.map((track) => ({
      ...this.line(track),
      isChosen: chosen === track.id,
      choose: () => this.chooseCaption(track),
    }));
    return { title: phrase("captions"), value: "", choices: () => [off, ...rest] };
  }

  private settingsPages(): Page[] {
    const pages = [this.qualityPage(), this.soundPage(), this.chaptersPage(), this.speedPage(), this.enginePage(), this.next.page()];
    return pages.filter((page) => page.choices().length > 1);
  }

  private qualityPage(): Page {
    const { engine } = this;
    const qualities = engine?.qualities() ?? [];
    const chosen = engine?.chosen() ?? null;
    const shown = qualities.find(({ height }) => height === this.video.videoHeight) ?? null;
    const name = ({ width, height, isHdr }: Quality) => shownHeight(width, height) + (isHdr ? " HDR" : "");
    const shownName = shown === null ? "" : name(shown);
    const automatic = {
      label: phrase("automatic"),
      detail: chosen === null ? shownName : "",
      isChosen: chosen === null,
      choose: () => engine?.choose(null),
    };
    const sizes = [...qualities].reverse().map((quality) => ({
      label: name(quality),
      detail: rate(quality.bitsPerSecond),
      isChosen: chosen === quality.id,
      choose: () => engine?.choose(quality.id),
    }));
    const chosenOne = qualities.find(({ id }) => id === chosen);
    const value = chosenOne === undefined ? `${phrase("automatic")}${shownName && ` · ${shownName}`}` : name(chosenOne);
    return { title: phrase("quality"), value, choices: () => (sizes.length > 0 ? [automatic, ...sizes] : []) };
  }

  private soundPage(): Page {
    const { engine } = this;
    const chosen = engine?.sound() ?? null;
    const sounds = listed(engine?.sounds() ?? []);
    const current = sounds.find(({ id }) => id === chosen);
    const choices = sounds.map((track) => ({
      ...this.line(track),
      isChosen: chosen === track.id,
      choose: () => {
        const memory = memoryOf(track);
        if (memory !== null) remember("sound", memory);
        engine?.chooseSound(track.id);
      },
    }));
    return { title: phrase("language"), value: current === undefined ? "" : this.nameOf(current), choices: () => choices };
  }

  private chaptersPage(): Page {
    const current = chapterAt(this.chapters, this.video.currentTime);
    const choices = this.chapters.map((chapter) => ({
      label: chapter.title,
      detail: clock(chapter.start),
      isChosen: chapter === current,
      choose: () => this.go(chapter.start),
    }));
    return { title: phrase("chapters"), value: current?.title ?? "", choices: () => choices };
  }

  private speedPage(): Page {
    const current = this.video.playbackRate;
    const name = (speed: number) => (speed === 1 ? phrase("normal") : `${speed}×`);
    const choices = SPEEDS.map((speed) => ({ label: name(speed), isChosen: speed === current, choose: () => this.setSpeed(speed) }));
    return { title: phrase("speed"), value: name(current), choices: () => choices };
  }

  private enginePage(): Page {
    const { hls, dash } = this.title;
    const current = this.engine?.name;
    const names: [EngineName, string][] = [
      ["hls", "HLS"],
      ["dash", "DASH"],
    ];
    const there = names.filter(([name]) => (name === "hls" ? hls : dash) !== undefined);
    const choices = there.map(([name, label]) => ({ label, isChosen: name === current, choose: () => this.chooseEngine(name) }));
    return { title: phrase("streaming"), value: current?.toUpperCase() ?? "", choices: () => choices };
  }

  // --- what the film does ------------------------------------------------------------------------------------------------

  private watchVideo(): void {
    const { video } = this;
    const on = (names: string, does: () => void) => {
      for (const name of names.split(" ")) video.addEventListener(name, does);
    };
    on("play pause ended emptied", () => this.state());
    on("playing", () => {
      this.wait(false);
      this.state();
    });
    on("waiting seeking", () => this.wait(true));
    on("canplay seeked", () => this.wait(false));
    on("timeupdate durationchange", () => {
      this.time.textContent = `${clock(video.currentTime)} / ${clock(video.duration)}`;
      this.nameChapter();
    });
    on("loadeddata", () => (this.beginsAt = null));
    on("resize", () => this.update());
    on("volumechange", () => this.loudness());
    on("pause ended", () => this.keep());
    window.setInterval(() => this.keep(), PLACE_KEPT_MS);
    addEventListener("pagehide", () => this.keep());
    this.volume.addEventListener("input", () => this.setVolume(Number(this.volume.value)));
    document.addEventListener("fullscreenchange", () => {
      const isFull = document.fullscreenElement !== null;
      this.setButton(this.screenButton, isFull ? "narrow" : "widen", phrase(isFull ? "leaveFullScreen" : "fullScreen"));
    });
  }

  private state(): void {
    const { video } = this;
    if (this.element.dataset.state === "failed") return;
    const isPlaying = !video.paused && !video.ended;
    this.element.dataset.state = video.ended ? "ended" : isPlaying ? "playing" : "paused";
    if (!isPlaying) this.wait(false);
    this.setButton(this.playButton, isPlaying ? "pause" : "play", phrase(isPlaying ? "pause" : "play"));
    this.stir();
  }

  private loudness(): void {
    const { muted, volume } = this.video;
    this.setButton(this.muteButton, muted || volume === 0 ? "muted" : "loud", phrase(muted ? "soundOn" : "soundOff"));
    this.volume.value = muted ? "0" : String(volume);
    this.volume.style.setProperty("--share", `${muted ? 0 : volume * 100}%`);
    this.volume.setAttribute("aria-valuetext", `${Math.round((muted ? 0 : volume) * 100)}%`);
  }

  private wait(isWaiting: boolean): void {
    window.clearTimeout(this.waiting);
    if (!isWaiting) {
      this.element.classList.remove("waiting");
      return;
    }
    this.waiting = window.setTimeout(() => this.element.classList.add("waiting"), WAIT_SHOWN_MS);
  }

  private keep(): void {
    const { duration } = this.video;
    if (!Number.isFinite(duration) || this.video.readyState === 0) return;
    keepPlace(this.title.path, this.place(), duration);
    if (isFinished(this.place(), duration)) void this.next.finish();
  }

  // --- what is shown when -----------------------------------------------------------------------------------------------

  private watchPointer(): void {
    for (const name of ["pointermove", "pointerdown", "keydown", "focusin"]) {
      this.element.addEventListener(name, () => this.stir());
    }
    document.addEventListener("keydown", () => this.stir());
    document.addEventListener("pointerdown", ({ target }) => {
      for (const menu of [this.captionsMenu, this.settingsMenu]) {
        const isOutside = target instanceof Node && !menu.element.contains(target) && !(target as Element).closest("[aria-haspopup]");
        if (isOutside) menu.close(false);
      }
    });
  }

  /** Whether the viewer uses a menu or reads the help. */
  private get isBusy(): boolean {
    return this.captionsMenu.isOpen || this.settingsMenu.isOpen || this.help.isOpen;
  }

  /** A viewer who uses a menu has time. */
  private onMenu(): void {
    this.next.offer.stop();
    this.stir();
  }

  /** Shows the controls, and hides them again after a while if the viewer does not use them. */
  private stir(): void {
    window.clearTimeout(this.idle);
    this.element.classList.remove("idle");
    this.idle = window.setTimeout(() => {
      if (!this.video.paused && !this.isBusy) this.element.classList.add("idle");
    }, IDLE_MS);
  }

  /** A tap shows the controls first; a mouse has shown them by moving. */
  private onVeil(): void {
    if (this.next.offer.isShown) return this.next.offer.cancel();
    const isTouch = matchMedia("(hover: none)").matches;
    if (isTouch && this.element.classList.contains("idle")) this.stir();
    else this.toggle();
  }

  private button(shape: Shape, label: string, does: () => void): HTMLButtonElement {
    return element("button", { type: "button", class: "control", "aria-label": label, title: label, onclick: does }, icon(shape));
  }

  private setButton(button: HTMLButtonElement, shape: Shape, label: string): void {
    if (button.getAttribute("aria-label") === label) return;
    button.setAttribute("aria-label", label);
    button.title = label;
    button.replaceChildren(icon(shape));
  }
}
