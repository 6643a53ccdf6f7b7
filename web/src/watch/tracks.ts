// The purposes of sounds and captions, as the two kinds of manifests tell them, and which captions are shown unasked.

import type { Purpose, Track } from "./engine";

/** In the order of the menu. Tracks without any come first. */
const ORDER: Purpose[] = ["original", "dub", "hearing", "description", "commentary", "songs"];

/** Tags of CHARACTERISTICS in HLS (RFC 8216 section 4.3.4.1, and Apple's authoring specification). */
const CHARACTERISTICS: Record<string, Purpose> = {
  "public.auxiliary-content": "commentary",
  "public.accessibility.describes-video": "description",
  "public.accessibility.transcribes-spoken-dialog": "hearing",
  "public.accessibility.describes-music-and-sound": "hearing",
  "public.accessibility.enhances-speech-intelligibility": "hearing",
  "public.translation.dubbed": "dub",
  "public.original-content": "original",
};

/** Values of Role in DASH (ISO/IEC 23009-1 section 5.8.5.5). */
const ROLES: Record<string, Purpose> = {
  commentary: "commentary",
  description: "description",
  caption: "hearing",
  "enhanced-audio-intelligibility": "hearing",
  dub: "dub",
  karaoke: "songs",
};

/** Values of Accessibility in DASH, in the scheme of TV-Anytime. */
const AUDIO_PURPOSE = "urn:tva:metadata:cs:AudioPurposeCS:2007";
const AUDIO_PURPOSES: Record<string, Purpose> = { "1": "description", "2": "hearing" };

export interface Descriptor {
  schemeIdUri?: string | null;
  value?: string | null;
}

function known(purposes: (Purpose | undefined)[]): Purpose[] {
  return ORDER.filter((purpose) => purposes.includes(purpose));
}

export function purposesOfHls(characteristics: string | undefined): Purpose[] {
  return known((characteristics ?? "").split(",").map((tag) => CHARACTERISTICS[tag.trim()]));
}

export function purposesOfDash(roles: Descriptor[] | null | undefined, accessibility: Descriptor[] | null | undefined): Purpose[] {
  const ofRoles = (roles ?? []).map(({ value }) => ROLES[value ?? ""]);
  const needs = (accessibility ?? []).filter(({ schemeIdUri }) => schemeIdUri === AUDIO_PURPOSE);
  return known([...ofRoles, ...needs.map(({ value }) => AUDIO_PURPOSES[value ?? ""])]);
}

export function isForcedInDash(roles: Descriptor[] | null | undefined): boolean {
  return (roles ?? []).some(({ value }) => value === "forced-subtitle");
}

/** A size of a playlist, as hls.js has it, with the groups of sounds that it names. */
interface Grouped {
  uri: string;
  videoCodec?: string | undefined;
  audioGroups?: (string | undefined)[] | undefined;
}

/**
 * The index of a size that is also listed with the group of sounds of the first one, or -1. Playlists list each size once for each codec of sounds. A
 * title of sound has no sizes, so it keeps one group.
 */
export function ofAnotherGroup(levels: readonly Grouped[]): number {
  const groupOf = (level: Grouped | undefined) => level?.audioGroups?.[0];
  const wanted = groupOf(levels[0]);
  if (wanted === undefined) return -1;
  const uris = new Set(levels.filter((level) => groupOf(level) === wanted).map(({ uri }) => uri));
  return levels.findIndex((level) => groupOf(level) !== wanted && (uris.has(level.uri) || level.videoCodec === undefined));
}

/** The tracks that a viewer chooses from, by kind. Forced captions are not among them: they come with the sound. */
export function listed(tracks: Track[]): Track[] {
  const rank = ({ purposes }: Track) => Math.max(-1, ...purposes.map((purpose) => ORDER.indexOf(purpose)));
  return tracks.filter(({ isForced }) => !isForced).sort((a, b) => rank(a) - rank(b));
}

function primary(language: string): string {
  return language.toLowerCase().split("-")[0] ?? "";
}

/** The captions to show if the viewer wants none: the forced ones in the language that is spoken. */
export function forcedFor(captions: Track[], spoken: string): Track | undefined {
  const forced = captions.filter(({ isForced }) => isForced);
  const exact = forced.find(({ language }) => language.toLowerCase() === spoken.toLowerCase());
  return exact ?? forced.find(({ language }) => primary(language) === primary(spoken) || language === "" || primary(spoken) === "");
}

/** How a choice is remembered: by language and purpose. Null for what suits this film only, such as its commentary. */
export function memoryOf({ language, purposes }: Track): string | null {
  if (purposes.includes("commentary") || purposes.includes("songs")) return null;
  const needs = purposes.filter((purpose) => purpose === "description" || purpose === "hearing");
  return [language, ...needs].join(" ");
}

/** The track that a remembered choice means here, if any: for the same needs, or else for none. */
export function recalled(tracks: Track[], memory: string | null): Track | undefined {
  if (memory === null || memory === "") return undefined;
  const choices = listed(tracks).filter(({ language }) => language !== "");
  return choices.find((track) => memoryOf(track) === memory) ?? choices.find((track) => memoryOf(track) === memory.split(" ")[0]);
}
