// Measures explorations per second: random schedules, of which each runs to its checked end, after the exhaustive search
// whose counts any machine must find again.
const COUNTED = "immediate.none.220";
const MEASURED = `${COUNTED}.0`;

const worker = new Worker("worker.js", { type: "module" });
let requests = 0;

/** The answer to a message, or the failure of the worker. */
function answer(message, wanted) {
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "the worker could not be loaded"));
    worker.onmessage = ({ data }) => {
      if (data === wanted || data[wanted]) resolve(data[wanted]);
      else if (data.Failed) reject(new Error(data.Failed.message));
    };
    worker.postMessage(message);
  });
}

async function explore(search) {
  requests += 1;
  const begun = performance.now();
  const { runs, verdict } = await answer({ Explore: { request: requests, search } }, "Explored");
  return { runs, verdict, seconds: (performance.now() - begun) / 1000 };
}

function show(name, value) {
  const [term, text] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  text.textContent = value;
  document.getElementById("figures").append(term, text);
}

const status = document.getElementById("status");
try {
  const response = await fetch("engine_bg.wasm");
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`);
  await answer(await WebAssembly.compile(await response.arrayBuffer()), "Ready");
  const counted = await explore(COUNTED);
  show(COUNTED, `${counted.verdict}, ${counted.runs} runs`);
  const { runs, verdict, seconds } = await explore(MEASURED);
  show(MEASURED, `${verdict}, ${runs} runs in ${seconds.toFixed(2)} s`);
  show("explorations per second", Math.round(runs / seconds));
  status.textContent = "Measured.";
} catch (error) {
  status.textContent = `Not measured (${error.message}).`;
}
