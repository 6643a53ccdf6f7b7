// Makes elements. Text is always set as text, so that no title can become markup.

type Attributes = Record<string, string | number | boolean | ((event: Event) => void)>;

/** An element with attributes, listeners (`onclick`) and children. `false` leaves an attribute out, `true` sets it empty. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string | null)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** Outlines of 24 by 24, drawn for this player. */
const SHAPES = {
  play: "M8 5.2v13.6c0 .8.9 1.3 1.6.8l10-6.8c.6-.4.6-1.2 0-1.6l-10-6.8C8.9 3.9 8 4.4 8 5.2z",
  pause: "M6.5 4.5h3.5v15h-3.5zM14 4.5h3.5v15h-3.5z",
  back: "M14.7 5.3 8 12l6.7 6.7 1.4-1.4L10.8 12l5.3-5.3z",
  forward: "m9.3 5.3-1.4 1.4L13.2 12l-5.3 5.3 1.4 1.4L16 12z",
  next: "M5.5 6.2v11.6c0 .8.9 1.2 1.5.8l8.2-5.8c.6-.4.6-1.2 0-1.6L7 5.4c-.6-.4-1.5 0-1.5.8zM16.5 5H19v14h-2.5z",
  replay: "M12 5V1.5L6.8 6 12 10.5V7a5.5 5.5 0 1 1-5.5 5.5h-2A7.5 7.5 0 1 0 12 5z",
  skip: "M12 5V1.5L17.2 6 12 10.5V7a5.5 5.5 0 1 0 5.5 5.5h2A7.5 7.5 0 1 1 12 5z",
  loud: "M4 9v6h3.8l5.2 4.5v-15L7.8 9zm11.5-.8v1.9a2.3 2.3 0 0 1 0 3.8v1.9a4.3 4.3 0 0 0 0-7.6zm0-4v2a6 6 0 0 1 0 11.6v2a8 8 0 0 0 0-15.6z",
  quiet: "M4 9v6h3.8l5.2 4.5v-15L7.8 9zm11.5-.8v1.9a2.3 2.3 0 0 1 0 3.8v1.9a4.3 4.3 0 0 0 0-7.6z",
  muted: "M4 9v6h3.8l5.2 4.5v-15L7.8 9zm17.7.700-1.4-1.4-2.3 2.3-2.3-2.3-1.4 1.4 2.3 2.3-2.3 2.3 1.4 1.4 2.3-2.3 2.3 2.3 1.4-1.4-2.3-2.3z",
  captions:
    "M5 4.5h14A2.5 2.5 0 0 1 21.5 7v10a2.5 2.5 0 0 1-2.5 2.5H5A2.5 2.5 0 0 1 2.5 17V7A2.5 2.5 0 0 1 5 4.5zm0 2a.5.5 0 0 0-.5.5v10c0 .3.2.5.5.5h14a.5.5 0 0 0 .5-.5V7a.5.5 0 0 0-.5-.5zM6.5 12h4v2h-4zm6 0h5v2h-5zm-6-3.3h6v2h-6zm8 0h3v2h-3z",
  settings:
    "M4 6.5h8.2a3 3 0 0 1 5.6 0H20v2h-2.2a3 3 0 0 1-5.6 0H4zm11 2.2a1.2 1.2 0 1 0 0-2.4 1.2 1.2 0 0 0 0 2.4zM4 15.5h2.2a3 3 0 0 1 5.6 0H20v2h-8.2a3 3 0 0 1-5.6 0H4zm5 2.2a1.2 1.2 0 1 0 0-2.4 1.2 1.2 0 0 0 0 2.4z",
  inset: "M4 4.5h16A1.5 1.5 0 0 1 21.5 6v4.5h-2v-4h-15v11h5v2H4A1.5 1.5 0 0 1 2.5 18V6A1.5 1.5 0 0 1 4 4.5zM12 12.5h9.5v7H12z",
  widen: "M4 4h6v2H6v4H4zm10 0h6v6h-2V6h-4zM4 14h2v4h4v2H4zm14 0h2v6h-6v-2h4z",
  narrow: "M8 4h2v6H4V8h4zm6 0h2v4h4v2h-6zM4 14h6v6H8v-4H4zm10 0h6v2h-4v4h-2z",
  check: "m9.5 16.2-3.7-3.7-1.4 1.4 5.1 5.1L20 8.5l-1.4-1.4z",
  search: "M10.5 4a6.5 6.5 0 0 1 5.2 10.4l4.5 4.5-1.4 1.4-4.5-4.5A6.5 6.5 0 1 1 10.5 4zm0 2a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z",
  keyboard:
    "M4 5.5h16A1.5 1.5 0 0 1 21.5 7v10a1.5 1.5 0 0 1-1.5 1.5H4A1.5 1.5 0 0 1 2.5 17V7A1.5 1.5 0 0 1 4 5.5zm.5 2v9h15v-9zM6.5 9h2v2h-2zm3 0h2v2h-2zm3 0h2v2h-2zm3 0h2v2h-2zm-8 4h9v2h-9z",
} as const;

export type Shape = keyof typeof SHAPES;

/** A picture for a button; the button's label says what it does. */
export function icon(shape: Shape): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", SHAPES[shape]);
  svg.append(path);
  return svg;
}

/** The logo: a bore with a stream through it. */
export function mark(): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 32 32");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("mark");
  const ring = document.createElementNS(SVG, "circle");
  for (const [name, value] of Object.entries({ cx: 16, cy: 16, r: 12.5 })) ring.setAttribute(name, String(value));
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", "M13 10.6v10.8c0 .6.7 1 1.2.7l8.2-5.4c.5-.3.5-1 0-1.4l-8.2-5.4c-.5-.3-1.2 0-1.2.7z");
  svg.append(ring, path);
  return svg;
}
