// Keeps one release of the site for readers without a network. The build fills in what stands in double braces.
"use strict";

const RELEASE = "{{release}}";

/** The files of the release, each with its digest. */
const FILES = new Map("{{files}}");

// Cache names belong to the whole origin, on which other copies of the site may live.
const OURS = `tool-retries ${registration.scope} `;
const CACHE = OURS + RELEASE;

/** A file of this release. What a host answers instead, such as an error page or a file of another release, is refused. */
async function fetched(name) {
  // The address that readers come to; some hosts redirect the file's own name to it.
  const address = name === "index.html" ? "./" : name;
  const integrity = FILES.get(name);
  // The page has loaded most of them a moment ago.
  const response = await fetch(address, { cache: "force-cache", integrity })
    .catch(() => fetch(address, { cache: "reload", integrity }));
  // A copy: a navigation refuses an answer that was redirected, and the cache one that varies.
  const headers = new Headers(response.headers);
  headers.delete("vary");
  return new Response(await response.blob(), { headers });
}

/** Keeps every file or fails, and then the release before stays in use. */
async function install() {
  const cache = await caches.open(CACHE);
  for (const name of FILES.keys()) {
    // It may be there from an installation that was interrupted.
    if (!(await cache.match(name))) await cache.put(name, await fetched(name));
  }
}

/** Runs once no page of the release before is left. */
async function activate() {
  for (const name of await caches.keys()) {
    if (name.startsWith(OURS) && name !== CACHE) await caches.delete(name);
  }
}

/** A page has told its release: one of ours is served from here from now on, and the last one of the release before lets us begin. */
async function meet(release) {
  if (release === RELEASE) return clients.claim();
  const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const here = pages.filter((page) => page.url.startsWith(registration.scope));
  if (here.length < 2) await skipWaiting();
}

/** The file that the page gets for a request, if it is one of ours. The query is the page's affair. */
function named(request) {
  const { origin, pathname } = new URL(request.url);
  const address = origin + pathname;
  if (request.method !== "GET" || !address.startsWith(registration.scope)) return undefined;
  const name = address.slice(registration.scope.length) || "index.html";
  return FILES.has(name) ? name : undefined;
}

async function answer(name, request) {
  // A reader may have emptied the storage, or forbidden it since: then all comes from the network.
  const kept = await caches.match(name, { cacheName: CACHE }).catch(() => undefined);
  return kept ?? fetch(request);
}

addEventListener("install", (event) => event.waitUntil(install()));
addEventListener("activate", (event) => event.waitUntil(activate()));
addEventListener("message", (event) => event.waitUntil(meet(event.data)));
addEventListener("fetch", (event) => {
  const name = named(event.request);
  if (name !== undefined) event.respondWith(answer(name, event.request));
});
