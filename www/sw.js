// Keeps one release of the site for readers without a network. The build fills in what stands in double braces.
"use strict";

const RELEASE = "{{release}}";

/** The files of the release, each with its digest. */
const FILES = new Map("{{files}}");

/** Those that few readers open: each is kept from then on. */
const LATER = new Set("{{later}}");

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

/** The file from the cache, which gets it if it has it not. */
async function kept(name) {
  const cache = await caches.open(CACHE);
  const there = await cache.match(name);
  if (there) return there;
  await cache.put(name, await fetched(name));
  return cache.match(name);
}

/** Keeps every file that is wanted at once or fails, and then the release before stays in use. */
async function install() {
  // Some may be there from an installation that was interrupted.
  for (const name of FILES.keys()) {
    if (!LATER.has(name)) await kept(name);
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
  // A reader may have forbidden the storage since, or the host have another release: then it comes from the network.
  return (await kept(name).catch(() => undefined)) ?? fetch(request);
}

addEventListener("install", (event) => event.waitUntil(install()));
addEventListener("activate", (event) => event.waitUntil(activate()));
addEventListener("message", (event) => event.waitUntil(meet(event.data)));
addEventListener("fetch", (event) => {
  const name = named(event.request);
  if (name !== undefined) event.respondWith(answer(name, event.request));
});
