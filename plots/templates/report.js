// Filter rows with a verdict; search, sort and link all rows. Without this script the page shows the same.
const slug = text => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const marks = {regressions: /[✗]/, significant: /[✗✓≈]/, all: /(?:)/};
const rows = [], ids = new Set();
let heading = "";
for (const part of all("main h2, main table")) {
  if (part.tagName === "H2") { heading = slug(part.textContent); continue; }
  const judged = /verdict|→/.test(part.textContent);
  for (const row of all("tbody tr", part)) {
    const id = `${heading}-${slug(row.cells[0].textContent)}`;
    let n = 1;
    while (ids.has(n > 1 ? `${id}-${n}` : id)) n++;
    row.id = n > 1 ? `${id}-${n}` : id;
    ids.add(row.id);
    const link = document.createElement("a");
    Object.assign(link, {href: `#${row.id}`, textContent: "#", title: "link to this row"});
    const text = row.textContent;
    rows.push({row, text: `${heading} ${text.toLowerCase()}`, judged, marked: judged ? text : ""});
    row.cells[0].append(" ", link);
  }
  all("th", part).forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "descending";
    all("th", part).forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    // Sort a cell with several figures by the change, in brackets.
    const value = row => {
      const text = row.cells[column].textContent;
      const figure = parseFloat((/\(([-+]?[\d.,]+) %/.exec(text)?.[1] ?? text).replaceAll(",", ""));
      return Number.isNaN(figure) ? text : figure;
    };
    const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === typeof b ? a.localeCompare(b) : typeof a === "number" ? 1 : -1;
    const sorted = [...part.tBodies[0].rows].sort((a, b) => (down ? 1 : -1) * order(value(a), value(b)));
    part.tBodies[0].append(...sorted);
  }));
}

// Show the whole of a shortened text, which stands in a fold.
const texts = all("td").map(cell => cell.textContent.trim());
for (const cell of all("td")) {
  const text = cell.textContent.trim();
  const whole = other => other !== text && other.startsWith(text.slice(0, -1));
  if (text.endsWith("…")) cell.title = texts.find(whole) ?? "";
}

const nav = document.querySelector("nav"), search = document.querySelector("input");
const unfold = element => {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
};
// A section is a heading and all up to the next one of its level.
const sections = [];
for (const part of document.querySelector("main").children) {
  if (part.tagName === "H2" || !sections.length) sections.push([]);
  sections.at(-1).push(part);
}
let chosen = "all";
// With a filter, only rows that match are there, with their tables and sections, and no fold hides one.
const show = () => {
  const wanted = search.value.trim().toLowerCase(), filtered = wanted !== "" || chosen !== "all";
  for (const {row, text, judged, marked} of rows)
    row.hidden = filtered && !(text.includes(wanted) && (chosen === "all" || judged && marks[chosen].test(marked)));
  const found = part => all("tbody tr", part).some(row => !row.hidden);
  for (const part of all("main table, main details")) part.hidden = filtered && !found(part);
  for (const section of sections) {
    const empty = filtered && !section.some(found);
    for (const part of section) if (empty || !part.matches("table, details")) part.hidden = empty;
  }
  const shown = rows.filter(({row}) => !row.hidden);
  if (filtered) shown.forEach(({row}) => unfold(row));
  nav.querySelector("output").textContent = filtered ? `${shown.length} of ${rows.length} rows` : "";
};
for (const button of all("nav button")) {
  button.addEventListener("click", () => {
    chosen = button.value;
    all("nav button").forEach(other => other.setAttribute("aria-pressed", other === button));
    show();
  });
}
search.addEventListener("input", show);
show();
nav.hidden = false;

// A link to a row opens its folds; printing opens all folds.
const follow = () => {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row) { unfold(row); row.scrollIntoView({block: "center"}); }
};
addEventListener("hashchange", follow);
follow();
addEventListener("beforeprint", () => all("details").forEach(unfold));

// A click makes a frame of a flame graph and its callers as wide as the picture.
const place = (frame, x, width, display) => {
  frame.setAttribute("x", x);
  frame.setAttribute("width", width);
  frame.style.display = display;
};
for (const flame of all("svg[data-flame]")) {
  const frames = all("svg", flame).map(frame => [frame, frame.getAttribute("x"), frame.getAttribute("width"), ""]);
  flame.addEventListener("click", event => {
    for (const frame of frames) place(...frame);
    for (let at = event.target.closest("svg"); at !== flame; at = at.parentElement) {
      for (const beside of at.parentElement.querySelectorAll(":scope > svg")) beside.style.display = "none";
      place(at, "0", "100%", "");
    }
  });
}

// Values on pictures, for a pointer and for a finger. Without this script browsers show the titles.
const hint = document.getElementById("hint");
for (const title of all("svg title")) { title.parentElement.dataset.hint = title.textContent; title.remove(); }
const tell = event => {
  const part = event.target.closest?.("[data-hint]");
  hint.hidden = !part;
  if (!part) return;
  hint.textContent = part.dataset.hint;
  hint.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${event.clientY + (event.clientY > innerHeight - 80 ? -48 : 16)}px`;
};
addEventListener("pointermove", tell);
addEventListener("pointerdown", tell);
