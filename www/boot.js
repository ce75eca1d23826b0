// What works before the engine or without it: permalinks, copying, downloads, reading offline; and loading the engine.
// All else is in the engine. `embed.js` starts this too, once its row is in place.
const RELEASE = "{{release}}";
const root = document.documentElement;

function say(text) {
  const status = document.getElementById("status");
  // Emptied first, so that the same text twice is announced twice.
  status.textContent = "";
  status.textContent = text;
}

/** The row of the scenario that the address names, if it names one. */
function named() {
  const row = document.getElementById(location.hash.slice(1));
  return row?.dataset.scenario ? row : null;
}

function openNamed() {
  const row = named();
  const evidence = row && document.getElementById(`evidence-${row.id}`);
  if (evidence) evidence.open = true;
}

/** Compiles while it streams in where the server names the type, and without a complaint where it does not. */
async function compiled(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`);
  const type = response.headers.get("content-type") ?? "";
  return type.split(";")[0].trim() === "application/wasm"
    ? WebAssembly.compileStreaming(response)
    : WebAssembly.compile(await response.arrayBuffer());
}

async function load() {
  root.dataset.engine = "loading";
  try {
    const [{ default: init, start }, module] = await Promise.all([
      import("./engine.js"),
      compiled(new URL("engine_bg.wasm", import.meta.url)),
    ]);
    await init({ module_or_path: module });
    start();
  } catch (error) {
    root.dataset.engine = "failed";
    say(`The engine did not load (${error.message}). The recorded results stand.`);
    console.error(error);
  }
}

/** Lets this page, should it be the last of a release that is over, make way for the release that waits. */
async function makeWay() {
  const offline = navigator.serviceWorker;
  // From then on nothing of this page's release can be had.
  if (offline.controller) offline.addEventListener("controllerchange", () => location.reload());
  const registration = await offline.getRegistration();
  registration?.waiting?.postMessage(RELEASE);
}

async function keep() {
  const offline = navigator.serviceWorker;
  await offline.register("sw.js");
  const { active } = await offline.ready;
  active.postMessage(RELEASE);
  root.dataset.offline = "ready";
}

/** Where storage is forbidden, or the context not secure, the page works as before, just not offline. */
const optional = (work) => work().catch(() => {});

new MutationObserver((_, observer) => {
  // Now that the reader waits for nothing.
  if (root.dataset.engine !== "ready") return;
  observer.disconnect();
  optional(keep);
}).observe(root, { attributeFilter: ["data-engine"] });

root.dataset.engine = "idle";
openNamed();
addEventListener("hashchange", openNamed);
optional(makeWay);
if (named()) load();
else if ("requestIdleCallback" in window) requestIdleCallback(load, { timeout: 2000 });
else setTimeout(load, 200);
