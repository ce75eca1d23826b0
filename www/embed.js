// Shows the one scenario that the address names, with its row taken out of the article.

/** A line for the reader in place of the row. */
class Problem extends Error {}

/** The scenario's table in the article, with no other row. */
async function table() {
  const [id, ...more] = new URLSearchParams(location.search).getAll("scenario");
  if (!id || more.length > 0) throw new Problem("The address must name one scenario: embed.html?scenario=ID.");
  const response = await fetch("./");
  if (!response.ok) throw new Problem(`The article could not be loaded (${response.status}).`);
  const article = new DOMParser().parseFromString(await response.text(), "text/html");
  const row = [...article.querySelectorAll("tr[data-scenario]")].find((one) => one.dataset.scenario === id);
  if (!row) {
    const shown = id.length > 60 ? `${id.slice(0, 60)}…` : id;
    throw new Problem(`The article has no scenario called ${shown}.`);
  }
  const table = row.closest(".scenarios");
  const kept = [row, article.getElementById(`evidence-${id}`).closest("tr")];
  for (const other of table.querySelectorAll("tbody > tr.scenario, tbody > tr.evidence-row")) {
    if (!kept.includes(other)) other.remove();
  }
  table.querySelector(".run-all").remove();
  for (const link of table.querySelectorAll('a[href^="#"]')) link.setAttribute("href", `./${link.getAttribute("href")}`);
  return { id, table };
}

try {
  const { id, table: one } = await table();
  document.title = `${id}: ${document.title}`;
  document.getElementById("source").href = `./#${id}`;
  document.getElementById("problem").before(document.adoptNode(one));
  await import("./boot.js");
} catch (error) {
  document.getElementById("problem").textContent =
    error instanceof Problem ? error.message : `The scenario could not be loaded (${error.message}).`;
}
