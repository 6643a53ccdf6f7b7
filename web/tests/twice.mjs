// Tests whose clock is the picture's. A browser that decodes in software on a busy machine may fall behind through nobody's fault, so a test
// that fails is tried once more, and its report says why. What is wrong every time fails all the same.

import { test as once } from "node:test";

/** As node:test's, for a name, options if there are any, and a test. */
export function test(name, ...rest) {
  const does = rest.pop();
  once(name, ...rest, async (context) => {
    try {
      await does(context);
    } catch (error) {
      context.diagnostic(`tried once more, since: ${error.message}`);
      console.error(`${name}: tried once more, since: ${error.stack}`);
      await does(context);
    }
  });
}
