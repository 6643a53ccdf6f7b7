// The keys of headsets and lock screens, and what these show.

import { shownName } from "../names";
import { libraryUrl, type Title } from "../titles";

/** Connects keys. The device doesn't offer those that do nothing (null). */
export function listenToDevice(does: [MediaSessionAction, (() => void) | null][]): void {
  if (!("mediaSession" in navigator)) return;
  for (const [action, handler] of does) navigator.mediaSession.setActionHandler(action, handler);
}

export function showOnDevice(title: Title): void {
  if (!("mediaSession" in navigator)) return;
  const artwork = title.poster === undefined ? [] : [{ src: libraryUrl(title.poster) }];
  navigator.mediaSession.metadata = new MediaMetadata({ title: shownName(title), artwork });
}
