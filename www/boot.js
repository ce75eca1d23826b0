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

// Not by `:empty`: WebKit does not restyle what depends on it when the text comes.
const said = ({ target }) => target.parentElement.toggleAttribute("data-said", target.textContent !== "");
new MutationObserver(([change]) => said(change)).observe(document.getElementById("status"), { childList: true });

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

/** The page's own half of the engine answers nothing any more after a trap. */
function trapped({ error }) {
  if (!(error instanceof WebAssembly.RuntimeError)) return;
  root.dataset.engine = "failed";
  say("The engine of this page stopped. Reload the page to run again; the recorded results stand.");
}

async function load() {
  root.dataset.engine = "loading";
  try {
    const [{ default: init, start }, module] = await Promise.all([
      import("./engine.js"),
      compiled(new URL("engine_bg.wasm", import.meta.url)),
    ]);
    await init({ module_or_path: module });
    addEventListener("error", trapped);
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

/** What a button copies of the scenario in whose evidence it stands. */
const copies = {
  link: (id) => new URL(`./#${id}`, location).href,
  embed: (id) => {
    const frame = document.createElement("iframe");
    frame.src = new URL(`embed.html?scenario=${id}`, location).href;
    frame.title = `${id}, a scenario of Make tool retries safe`;
    frame.loading = "lazy";
    frame.allow = "clipboard-write";
    frame.width = "100%";
    frame.height = "480";
    return frame.outerHTML;
  },
};

async function copy(button) {
  const evidence = button.closest(".evidence");
  const text = copies[button.dataset.copy](evidence.id.replace("evidence-", ""));
  try {
    await navigator.clipboard.writeText(text);
    say(`${button.getAttribute("aria-label").replace("Copy", "Copied the")}.`);
  } catch {
    let shown = evidence.querySelector(".to-copy");
    if (!shown) {
      shown = document.createElement("pre");
      shown.className = "to-copy";
      button.parentElement.after(shown);
    }
    shown.textContent = text;
    getSelection().selectAllChildren(shown);
    say("The browser does not let this page copy. The text is selected: copy it from there.");
  }
}

function download(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "results.json";
  link.click();
  // Not at once: the browser may not have begun to read.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

addEventListener("click", ({ target }) => {
  const button = target.closest?.("button");
  if (button?.id === "dismiss") say("");
  else if (button?.dataset.copy) copy(button);
  else if (button?.matches("[data-download]")) download(button.closest(".report").querySelector("pre").textContent);
});

for (const buttons of document.querySelectorAll(".copies")) buttons.hidden = false;

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
if (named() || location.hash.startsWith("#explore=")) load();
else if ("requestIdleCallback" in window) requestIdleCallback(load, { timeout: 2000 });
else setTimeout(load, 200);
