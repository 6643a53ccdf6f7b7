// The titles of a fleet, as its gateway lists them, and the manifests from which they play. The page is at `/watch?title=films/a`.

import { phrase } from "../phrases";
import { isFleet, libraryUrl, Unreachable, type Title } from "../titles";

export { isFleet };

interface Listed {
  titles: { title: string; duration_seconds?: number }[];
}

/** The title that the address names. */
export function wantedOfFleet(): Title | undefined {
  const name = new URLSearchParams(location.search).get("title") ?? "";
  return name === "" ? undefined : titleOf(name);
}

/** A gateway makes the manifests itself. They name three nodes, from which everything else comes. */
function titleOf(name: string, seconds?: number): Title {
  const path = name.split("/").map(encodeURIComponent).join("/");
  return {
    name,
    path,
    hls: `play/${path}/master.m3u8`,
    dash: `play/${path}/manifest.mpd`,
    watch: `${location.pathname}?title=${encodeURIComponent(name)}`,
    ...(seconds !== undefined && { duration_seconds: seconds }),
  };
}

/** All titles that the gateway lists. */
export async function fleetTitles(): Promise<Title[]> {
  let response: Response;
  try {
    response = await fetch(libraryUrl("api/v1/titles"));
  } catch {
    throw new Unreachable(phrase("noAnswer"));
  }
  if (!response.ok) throw new Unreachable(phrase("answersError", { status: String(response.status) }));
  const { titles } = (await response.json()) as Listed;
  return titles.map(({ title, duration_seconds }) => titleOf(title, duration_seconds));
}
