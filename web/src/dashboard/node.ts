// Makes the elements of the page by hand, because there are few.

type Child = Node | string;

/** An element with a class and children. */
export function node<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className = "",
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** Sets a text only if it differs, so that unchanged text causes no new layout. */
export function say(element: Node, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
