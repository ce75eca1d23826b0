// The engine's worker. The page sends its compiled module first, so that it is fetched and compiled once.
import init, { worker_main } from "./engine.js";

addEventListener(
  "message",
  async ({ data: module }) => {
    try {
      await init({ module_or_path: module });
      worker_main();
    } catch (error) {
      // A rejected promise would stay in here; a reported error reaches the page.
      reportError(error);
    }
  },
  { once: true },
);
