// The time bar: the position in the film, how much is loaded, and thumbnails of positions to seek to.

import { chapterAt, type Chapter } from "../chapters";
import { element } from "../element";
import { phrase, spoken } from "../phrases";
import type { Thumbnails } from "../thumbnails";
import { clock } from "../words";

/** The largest width of a preview, in pixels. */
const PREVIEW_WIDTH = 192;

export class Timebar {
  private readonly slider = element("input", {
    type: "range",
    min: 0,
    max: 1,
    step: "any",
    value: 0,
    "aria-label": phrase("timeInFilm"),
    class: "slider",
  });
  private readonly loaded = element("div", { class: "loaded" });
  private readonly played = element("div", { class: "played" });
  private readonly picture = element("div", { class: "picture" });
  private readonly marks = element("div", { class: "marks", "aria-hidden": "true" });
  private readonly pointedChapter = element("div", { class: "pointed-chapter", hidden: true });
  private readonly pointedTime = element("div", { class: "pointed-time" });
  private readonly preview = element("div", { class: "preview", hidden: true, "aria-hidden": "true" }, this.picture, this.pointedChapter, this.pointedTime);
  readonly element = element(
    "div",
    { class: "timebar" },
    element("div", { class: "track" }, this.loaded, this.played, this.marks),
    this.slider,
    this.preview,
  );
  private thumbnails: Thumbnails | null = null;
  private chapters: Chapter[] = [];
  private isHeld = false;

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly go: (seconds: number) => void,
  ) {
    this.slider.addEventListener("input", () => this.onInput());
    this.slider.addEventListener("change", () => {
      this.isHeld = false;
    });
    this.element.addEventListener("pointermove", (event) => this.point(event));
    this.element.addEventListener("pointerleave", () => {
      this.preview.hidden = true;
    });
    video.addEventListener("durationchange", () => this.mark());
    for (const name of ["timeupdate", "durationchange", "progress", "seeking", "seeked"]) {
      video.addEventListener(name, () => this.update());
    }
  }

  show(thumbnails: Thumbnails | null): void {
    this.thumbnails = thumbnails;
  }

  showChapters(chapters: Chapter[]): void {
    this.chapters = chapters;
    this.mark();
    this.paint(this.video.currentTime);
  }

  /** Puts a mark where each chapter but the first begins. */
  private mark(): void {
    const { chapters, duration } = this;
    const starts = chapters.map(({ start }) => start).filter((start) => start > 0 && start < duration);
    const marks = starts.map((start) => {
      const mark = element("span", { class: "mark" });
      mark.style.left = `${share(start, duration)}%`;
      return mark;
    });
    this.marks.replaceChildren(...marks);
  }

  private get duration(): number {
    return Number.isFinite(this.video.duration) ? this.video.duration : 0;
  }

  private onInput(): void {
    this.isHeld = true;
    const seconds = Number(this.slider.value);
    this.paint(seconds);
    this.go(seconds);
    this.isHeld = false;
  }

  private update(): void {
    if (this.isHeld) return;
    const { duration } = this;
    this.slider.max = String(duration || 1);
    this.slider.value = String(this.video.currentTime);
    this.paint(this.video.currentTime);
    this.loaded.style.width = `${share(this.loadedUntil(), duration)}%`;
  }

  private paint(seconds: number): void {
    this.played.style.width = `${share(seconds, this.duration)}%`;
    const chapter = chapterAt(this.chapters, seconds);
    const where = chapter === undefined ? "" : `, ${chapter.title}`;
    this.slider.setAttribute("aria-valuetext", phrase("timeOf", { at: spoken(seconds), of: spoken(this.duration) }) + where);
  }

  /** The end of the media that is loaded without a gap from here on. */
  private loadedUntil(): number {
    const { buffered, currentTime } = this.video;
    for (let index = 0; index < buffered.length; index += 1) {
      if (buffered.start(index) <= currentTime + 0.5 && currentTime <= buffered.end(index)) return buffered.end(index);
    }
    return 0;
  }

  private point(event: PointerEvent): void {
    const { duration } = this;
    if (duration === 0) return;
    const box = this.element.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    this.pointedTime.textContent = clock(part * duration);
    const chapter = chapterAt(this.chapters, part * duration);
    this.pointedChapter.textContent = chapter?.title ?? "";
    this.pointedChapter.hidden = chapter === undefined;
    this.preview.hidden = false;
    const width = Math.min(PREVIEW_WIDTH, box.width * 0.45);
    const hasPicture = this.thumbnails?.show(part * duration, this.picture, width) ?? false;
    this.picture.hidden = !hasPicture;
    this.picture.style.width = `${width}px`;
    this.pointedChapter.style.maxWidth = `${width}px`;
    const half = (hasPicture || chapter !== undefined ? width : 56) / 2;
    const center = Math.min(box.width - half, Math.max(half, part * box.width));
    this.preview.style.left = `${center}px`;
  }
}

function share(seconds: number, of: number): number {
  return of > 0 ? Math.min(100, (100 * seconds) / of) : 0;
}
