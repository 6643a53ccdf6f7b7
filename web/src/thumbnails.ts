// Thumbnails of positions in a film: a WebVTT file gives the sheet and the part of it for each time.

import { libraryUrl } from "./titles";

interface Cue {
  end: number;
  sheet: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A time as in WebVTT: hours may be missing. */
function seconds(text: string): number {
  return text.trim().split(":").reduce((sum, part) => sum * 60 + Number.parseFloat(part), 0);
}

function parse(text: string, base: string): Cue[] {
  const cues: Cue[] = [];
  for (const block of text.replace(/\r\n?/g, "\n").split(/\n{2,}/)) {
    const lines = block.split("\n");
    const at = lines.findIndex((line) => line.includes("-->"));
    const part = /^(.+)#xywh=(\d+),(\d+),(\d+),(\d+)$/.exec(lines[at + 1]?.trim() ?? "");
    if (at < 0 || part === null) continue;
    const [x, y, width, height] = part.slice(2).map(Number) as [number, number, number, number];
    const end = seconds(lines[at]?.split("-->")[1]?.trim().split(/\s/)[0] ?? "");
    cues.push({ end, sheet: new URL(part[1] ?? "", base).href, x, y, width, height });
  }
  return cues;
}

export class Thumbnails {
  private constructor(private readonly cues: Cue[]) {}

  /** The thumbnails at `path` below the library; none if they cannot be loaded. */
  static async load(path: string): Promise<Thumbnails> {
    const url = libraryUrl(path);
    try {
      const response = await fetch(url);
      return new Thumbnails(response.ok ? parse(await response.text(), url) : []);
    } catch {
      return new Thumbnails([]);
    }
  }

  /** Shows the thumbnail for `time` in `place` at that element's width; returns whether there is one. */
  show(time: number, place: HTMLElement, width: number): boolean {
    const cue = this.cues.find((cue) => time < cue.end) ?? this.cues.at(-1);
    if (cue === undefined) return false;
    const scale = width / cue.width;
    place.style.height = `${cue.height * scale}px`;
    place.style.backgroundImage = `url("${cue.sheet}")`;
    place.style.backgroundPosition = `${-cue.x * scale}px ${-cue.y * scale}px`;
    void this.size(cue.sheet).then(([sheetWidth, sheetHeight]) => {
      place.style.backgroundSize = `${sheetWidth * scale}px ${sheetHeight * scale}px`;
    });
    return true;
  }

  private readonly sizes = new Map<string, Promise<[number, number]>>();

  private size(sheet: string): Promise<[number, number]> {
    const known = this.sizes.get(sheet);
    if (known !== undefined) return known;
    const asked = new Promise<[number, number]>((done) => {
      const image = new Image();
      image.onload = () => done([image.naturalWidth, image.naturalHeight]);
      image.src = sheet;
    });
    this.sizes.set(sheet, asked);
    return asked;
  }
}
