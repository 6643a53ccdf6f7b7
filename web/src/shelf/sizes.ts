// The sizes of cards. All cards of a page have the same size, so the place of any of 10,000 follows from its number.

export interface Sizes {
  columns: number;
  width: number;
  height: number;
  gapX: number;
  gapY: number;
  heading: number;
  /** Between two sections. */
  space: number;
}

/** A card's text below its poster, in rem: a name of up to two lines, and a line of facts (card.css). */
const TEXT_REM = 4.9;
/** The least width of a card, in rem, and as a share of a narrow window. */
const WIDTH_MIN_REM = 15.5;
const WIDTH_MIN_SHARE = 0.4;
/** Below this width, gaps are narrower (shelf.css). */
const NARROW_REM = 34;

/** The sizes on a page whose cards have `room` pixels of width. */
export function sizesFor(room: number, windowWidth: number, rem: number): Sizes {
  const isNarrow = windowWidth <= NARROW_REM * rem;
  const gapX = (isNarrow ? 0.9 : 1.25) * rem;
  const least = Math.min(WIDTH_MIN_REM * rem, WIDTH_MIN_SHARE * windowWidth);
  const columns = Math.max(1, Math.floor((room + gapX) / (least + gapX)));
  const width = (room - gapX * (columns - 1)) / columns;
  return {
    columns,
    width,
    height: Math.ceil((width * 9) / 16 + TEXT_REM * rem),
    gapX,
    gapY: (isNarrow ? 0.75 : 1.1) * rem,
    heading: 3.25 * rem,
    space: 1.5 * rem,
  };
}
