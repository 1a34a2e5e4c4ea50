// What test_browser.py asks of the page.
const boxes = found => found.getBoundingClientRect();
const every = selector => [...document.querySelectorAll(selector)];
const inWindow = found => boxes(found).width > 0 && boxes(found).bottom <= innerHeight && boxes(found).right <= innerWidth;
const starting = word => every("header p").find(one => one.textContent.startsWith(word));
// The pictures that have a form for a phone: which of the two is seen. Exactly one has to be.
const forms = () => every(".wide, .narrow").filter(one => one.getClientRects().length).map(one => one.classList[0]);
const shown = () => [every("h1")[0], starting("Answer"), every("header svg").find(one => boxes(one).width)].map(inWindow);

// Words of the header with a letter that stand in the window; a picture's are outlines.
const words = () => {
  const walk = document.createTreeWalker(every("header")[0], NodeFilter.SHOW_TEXT), found = [];
  while (walk.nextNode()) {
    const at = walk.currentNode, range = document.createRange();
    range.selectNodeContents(at);
    const box = boxes(range), folded = at.parentElement.closest("details:not([open])");
    const hidden = folded && !at.parentElement.closest("summary") || at.parentElement.closest("script, style");
    if (!hidden && box.width && box.height && box.top < innerHeight) found.push(...at.textContent.match(/\S*[a-z]\S*/gi) || []);
  }
  return found;
};
// Text that is wider than its box and cannot be scrolled to, or that leaves its picture; a page wider than its window.
const scrolls = at => at && (/auto|scroll/.test(getComputedStyle(at).overflowX) || scrolls(at.parentElement));
const wide = one => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1 && !scrolls(one);
const leaves = (part, box) => part.left < box.left - 1 || part.right > box.right + 1 || part.top < box.top - 1 || part.bottom > box.bottom + 1;
// How much of a box has to be scrolled to, in pixels.
const aside = box => box.scrollWidth - box.clientWidth;
const cut = () => [
  ...every("html, body *:not(svg *)").filter(wide).map(one => one.outerHTML.slice(0, 80)),
  ...every("svg[role=img]").filter(one => boxes(one).width).flatMap(
    one => [...one.querySelectorAll("g[id*=text_]")].filter(part => leaves(boxes(part), boxes(one))).map(part => part.id)),
];

const seen = () => every("main tbody tr").filter(row => !row.hidden && row.offsetHeight);
const rows = () => every("main tbody tr").filter(row => !row.hidden && row.closest("table").textContent.includes("→"));
// Tables and headings that are seen though no row of theirs is: a heading's rows are those before the next one.
const empty = () => {
  const last = new Map();
  let heading = null;
  for (const part of every("main h2, main tbody tr")) {
    if (part.tagName === "H2") { heading = part; last.set(part, 0); } else if (part.offsetHeight && heading) last.set(heading, last.get(heading) + 1);
  }
  const bare = every("main table").filter(table => boxes(table).height && !seen().some(row => table.contains(row)));
  return [...bare, ...every("main h2").filter(one => boxes(one).height && !last.get(one))].map(one => one.textContent.slice(0, 60));
};
const change = cell => parseFloat(/\(([-+.\d]+) %/.exec(cell.textContent)?.[1]);
const find = text => {
  const input = document.querySelector("input");
  input.value = text;
  input.dispatchEvent(new Event("input"));
};

// A frame of a flame graph by what its label ends with.
const frame = name => {
  const label = every("svg[data-flame] text").find(one => one.textContent.endsWith(name));
  return {
    offset: boxes(label.previousElementSibling).width,
    said: label.parentElement.dataset.hint,
    click: () => label.dispatchEvent(new MouseEvent("click", {bubbles: true})),
    scroll: () => label.scrollIntoView({block: "center"}),
  };
};
