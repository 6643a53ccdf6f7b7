// Elements of the page, made by hand: there are few of them.

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

/** Sets a text if it is another: what does not change is not laid out anew. */
export function say(element: Node, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
