// Rows with a verdict are filtered, all rows are searched, sorted and linked to; the page reads the same without this.
const slug = text => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const marks = {regressions: /[✗]/, significant: /[✗✓≈]/, all: /(?:)/};
const rows = [], ids = new Set();
let heading = "";
for (const found of all("main h2, main table")) {
  if (found.tagName === "H2") { heading = slug(found.textContent); continue; }
  const judged = /verdict|→/.test(found.textContent);
  for (const row of all("tbody tr", found)) {
    const id = `${heading}-${slug(row.cells[0].textContent)}`;
    for (let n = 1; !row.id; n++) {
      const one = n > 1 ? `${id}-${n}` : id;
      if (!ids.has(one)) { ids.add(one); row.id = one; }
    }
    const link = document.createElement("a");
    Object.assign(link, {href: `#${row.id}`, textContent: "#", title: "link to this row"});
    const text = row.textContent;
    rows.push({row, text: `${heading} ${text.toLowerCase()}`, judged, marked: judged ? text : ""});
    row.cells[0].append(" ", link);
  }
  all("th", found).forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "descending";
    all("th", found).forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    // What a cell with several figures is about is the change, in brackets.
    const value = row => {
      const text = row.cells[column].textContent;
      const figure = parseFloat((/\(([-+]?[\d.,]+) %/.exec(text)?.[1] ?? text).replaceAll(",", ""));
      return Number.isNaN(figure) ? text : figure;
    };
    const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === typeof b ? a.localeCompare(b) : typeof a === "number" ? 1 : -1;
    const sorted = [...found.tBodies[0].rows].sort((a, b) => (down ? 1 : -1) * order(value(a), value(b)));
    found.tBodies[0].append(...sorted);
  }));
}

// Of what is cut short the whole stands in a fold.
const cells = all("td").map(cell => [cell, cell.textContent.trim()]);
for (const [cell, text] of cells) {
  if (text.endsWith("…")) cell.title = cells.find(([, whole]) => whole !== text && whole.startsWith(text.slice(0, -1)))?.[1] ?? "";
}

const nav = document.querySelector("nav"), search = document.querySelector("input");
let chosen = "all";
const show = () => {
  const wanted = search.value.trim().toLowerCase();
  let shown = 0, counted = 0;
  for (const {row, text, judged, marked} of rows) {
    row.hidden = !(text.includes(wanted) && (!judged || marks[chosen].test(marked)));
    counted += judged || wanted !== "";
    shown += !row.hidden && (judged || wanted !== "");
    if (!row.hidden && wanted) row.closest("details")?.setAttribute("open", "");
  }
  nav.querySelector("output").textContent = `${shown} of ${counted} rows`;
};
for (const button of all("nav button")) {
  const count = rows.filter(one => one.judged && marks[button.value].test(one.marked)).length;
  if (button.value !== "all") button.textContent += ` (${count})`;
  button.addEventListener("click", () => {
    chosen = button.value;
    all("nav button").forEach(other => other.setAttribute("aria-pressed", other === button));
    show();
  });
}
search.addEventListener("input", show);
show();
nav.hidden = false;

// Whoever follows a link to a row sees it, and what is printed is whole.
const unfold = found => { for (let at = found; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true; };
const follow = () => {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row) { unfold(row); row.scrollIntoView({block: "center"}); }
};
addEventListener("hashchange", follow);
follow();
addEventListener("beforeprint", () => all("details").forEach(unfold));

// A frame of a flame graph, and those that it was called from, become as wide as the picture.
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

// Values on pictures, for a pointer and for a finger; without this file browsers show the titles themselves.
const said = document.getElementById("said");
for (const title of all("svg title")) { title.parentElement.dataset.said = title.textContent; title.remove(); }
const tell = event => {
  const part = event.target.closest?.("[data-said]");
  said.hidden = !part;
  if (!part) return;
  said.textContent = part.dataset.said;
  said.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - said.offsetWidth - 8))}px`;
  said.style.top = `${event.clientY + (event.clientY > innerHeight - 80 ? -48 : 16)}px`;
};
addEventListener("pointermove", tell);
addEventListener("pointerdown", tell);
