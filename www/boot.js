// Opens what a permalink names, and loads the engine when the browser is idle. All else is in the engine.
const root = document.documentElement;

/** The row of the scenario that the address names, if it names one. */
function named() {
  const id = location.hash.slice(1);
  return id ? document.querySelector(`tr[data-scenario="${CSS.escape(id)}"]`) : null;
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
    document.getElementById("status").textContent =
      `The engine did not load (${error.message}). The recorded results stand.`;
    console.error(error);
  }
}

root.dataset.engine = "idle";
openNamed();
addEventListener("hashchange", openNamed);
if (named()) load();
else if ("requestIdleCallback" in window) requestIdleCallback(load, { timeout: 2000 });
else setTimeout(load, 200);
