// The folder that the player plays through: the titles before and after the present one.

import { neighbours, type Neighbours } from "../names";
import type { Title } from "../titles";

export class Series {
  /** Of the title that was asked for last. Most viewers never ask, and comparing 10,000 names takes a while. */
  private known: { title: Title; neighbours: Neighbours } | null = null;

  /** `listAnew` fetches the list of titles again. */
  constructor(
    private titles: Title[],
    private readonly listAnew: () => Promise<Title[]>,
  ) {}

  around(title: Title): Neighbours {
    if (this.known?.title !== title) this.known = { title, neighbours: neighbours(title, this.titles) };
    return this.known.neighbours;
  }

  /** Finds titles that were added since the page was opened. If the server does not answer, the former list stays. */
  async renew(): Promise<void> {
    try {
      this.titles = await this.listAnew();
      this.known = null;
    } catch {
      // The film that plays matters more.
    }
  }
}
