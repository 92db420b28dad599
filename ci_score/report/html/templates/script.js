
"use strict";
// Search and sort; without script the tables are whole, in the order in which they were written.
const number = text => {
  const [, sign, digits] = /([+\u2212-]?)\s*([\d,.]+(?:e[+-]?\d+)?)/i.exec(text) || [];
  if (digits === undefined) return null;
  const unit = / ([kMG]) /.exec(text);
  const scale = unit ? { k: 1e3, M: 1e6, G: 1e9 }[unit[1]] : 1;
  return parseFloat(digits.replace(/,/g, "")) * scale * (sign && sign !== "+" ? -1 : 1);
};
const sort = (table, place, header) => {
  const falls = header.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const text = row => row.cells[place].textContent.trim();
  const isNumber = header.classList.contains("n");
  const rows = [...table.tBodies[0].rows].map(row => [text(row), row]);
  const way = falls ? -1 : 1;
  rows.sort(([a], [b]) => {
    const x = isNumber ? number(a) : null, y = isNumber ? number(b) : null;
    // What has no number comes last, whichever way.
    if (x !== null || y !== null) return (x === null) - (y === null) || way * (x - y);
    return (isNumber ? way : -way) * a.localeCompare(b, "en", { numeric: true });
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
};
for (const table of document.querySelectorAll("table[data-sortable]")) {
  [...table.tHead.rows[0].cells].forEach((header, place) => {
    if (header.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sort(table, place, header));
    header.append(button);
  });
}
document.querySelectorAll("table[data-search]").forEach((table, place) => {
  const bar = document.createElement("p"), field = document.createElement("input");
  const label = document.createElement("label"), found = document.createElement("output");
  bar.className = "search";
  field.type = "search";
  field.id = `search-${place}`;
  field.autocomplete = "off";
  label.htmlFor = field.id;
  label.textContent = table.dataset.search;
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    found.textContent = wanted ? `${shown} of ${table.tBodies[0].rows.length}` : "";
  });
  bar.append(label, field, found);
  table.parentElement.before(bar);
});
