// The table of ops: drawn of the columns that stand behind it, sorted and filtered, in windows.
{
const WINDOW = 60, MOST_PRINTED = 500, HALF_BAR = 30, MINUS = "\u2212";
const LEAST_CHANGE = 0.02, LEAST_TOLD = 0.0005, COURSE_UNITS = 100;
const SVG = ["svg", "rect", "path", "title"];
const make = (tag, attributes, ...children) => {
  const element = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const counted = value => grouped(Number.isInteger(value) ? String(value) : fixed(value, 1));
const arrow = (a, b) => {
  const told = [...new Set([a, b].filter(Boolean))];
  return told.length ? told.join(" \u2192 ") : "not counted";
};
const each = (ms, count) => ms === null || count === null ? null : count ? threeDigits(ms / count) : "";
const known = value => value !== null && value !== undefined;

// An op's times and launches on both sides, of the whole step or of a part of it.
const delta = sides => known(sides.base) && known(sides.head) ? sides.head - sides.base : null;
const largest = sides => Math.max(sides.base ?? 0, sides.head ?? 0);
const texts = sides => {
  const change = delta(sides), shown = ms => known(ms) ? threeDigits(ms) : "not kept";
  const same = known(change) && Math.abs(change) <= LEAST_TOLD * largest(sides);
  const sized = same || !known(change) ? "" : threeDigits(Math.abs(change));
  return {
    base: shown(sides.base),
    head: shown(sides.head),
    change: change === null ? "not known" : same ? "0" : sized[0] === "<" ? sized : (change > 0 ? "+" : MINUS) + sized,
    launches: arrow(known(sides.baseCount) && counted(sides.baseCount), known(sides.headCount) && counted(sides.headCount)),
    each: arrow(each(sides.base, sides.baseCount), each(sides.head, sides.headCount)),
  };
};
const at = (column, place) => (Array.isArray(column) ? column[place] : column) ?? null;
const sidesAt = (columns, place) => ({
  base: at(columns.base, place), head: at(columns.head, place),
  baseCount: at(columns.baseCount, place), headCount: at(columns.headCount, place),
});
const sum = (a, b) => {
  const both = {};
  for (const name of ["base", "head", "baseCount", "headCount"]) {
    both[name] = a[name] === null || b[name] === null ? null : a[name] + b[name];
  }
  return both;
};

// A word for a spreadsheet: none is read as a formula.
const csv = value => {
  if (typeof value === "number") return String(value);
  const text = String(value ?? "");
  return `"${(/^[=+\-@\t\r]/.test(text) ? "'" + text : text).replace(/"/g, '""')}"`;
};

class Ops {
  constructor(box, place) {
    this.box = box;
    this.id = `ops-${place}`;
    this.table = box.querySelector("table");
    this.columns = pageData(box.querySelector(".op-columns"));
    const { names, full, was } = this.columns;
    this.full = names.map((name, row) => full[row] || name);
    this.found = names.map((name, row) => [name, this.full[row], ...(was[row] ?? [])].join("\n").toLowerCase());
    this.whole = names.map((_, row) => sidesAt(this.columns, row));
    this.phases = new Map([["", this.whole]]);
    this.orders = new Map();
    this.state = { words: "", group: "", kind: "", phase: "", by: "", falls: true, start: 0 };
    this.head();
    this.bar();
    this.draw();
  }

  // The places are read when they are asked for first: of a large model they are a megabyte.
  get places() {
    this.read ??= pageData(this.box.querySelector(".op-places"));
    return this.read;
  }

  // What each op takes of a phase; null where it does not run there.
  inPhase(phase) {
    if (!this.phases.has(phase)) {
      const found = this.whole.map(() => null);
      for (const place of this.places.filter(one => String(one.phase) === phase)) {
        const { rows } = place, count = Array.isArray(rows) ? rows.length : rows.count;
        for (let n = 0; n < count; n++) {
          const row = Array.isArray(rows) ? rows[n] : rows.from + n, sides = sidesAt(place, n);
          found[row] = found[row] ? sum(found[row], sides) : sides;
        }
      }
      this.phases.set(phase, found);
    }
    return this.phases.get(phase);
  }

  // The places of an op, those that changed most first.
  placesOf(row) {
    const { phase } = this.state, found = [];
    for (const place of this.places) {
      if (phase !== "" && String(place.phase) !== phase) continue;
      const { rows } = place, n = Array.isArray(rows) ? rows.indexOf(row) : row - rows.from;
      if (n >= 0 && n < (rows.count ?? Infinity)) found.push([place, sidesAt(place, n)]);
    }
    const change = ([, sides]) => Math.abs(delta(sides) ?? 0);
    return found.sort((a, b) => change(b) - change(a) || largest(b[1]) - largest(a[1]));
  }

  group(row, sides) {
    const status = this.columns.statuses[this.columns.status[row]], change = delta(sides) ?? 0;
    if (status === "new" || status === "gone") return status;
    if (!largest(sides) || Math.abs(change) < LEAST_CHANGE * largest(sides)) return "";
    return change > 0 ? "slower" : "faster";
  }

  key(row, by) {
    const sides = this.inPhase(this.state.phase)[row] ?? {};
    if (by === "name") return this.columns.names[row];
    if (by === "kind") return this.columns.kinds[this.columns.kind[row]];
    if (by === "change") return delta(sides);
    if (by === "count") return sides.headCount ?? sides.baseCount;
    if (by === "each") {
      return sides.headCount ? sides.head / sides.headCount : sides.baseCount ? sides.base / sides.baseCount : null;
    }
    return sides[by];
  }

  // The rows in the chosen order, which is sorted once; at first as the page was written.
  order() {
    const { by, falls, phase } = this.state, name = `${by} ${falls} ${phase}`;
    if (!this.orders.has(name)) {
      const keys = this.whole.map((sides, row) => {
        if (by) return this.key(row, by);
        const own = this.inPhase(phase)[row];
        return own && this.columns.hasBase ? Math.abs(delta(own) ?? largest(own)) : own && largest(own);
      });
      const rows = this.whole.map((_, row) => row);
      if (by || phase) {
        rows.sort((a, b) => {
          const x = keys[a], y = keys[b];
          if (!known(x) || !known(y)) return known(y) - known(x);
          const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
          return (falls ? -order : order) || a - b;
        });
      }
      this.orders.set(name, rows);
    }
    return this.orders.get(name);
  }

  chosen() {
    const { words, group, kind, phase } = this.state, sides = this.inPhase(phase);
    return this.order().filter(row => sides[row]
      && (!words || this.found[row].includes(words))
      && (kind === "" || String(this.columns.kind[row]) === kind)
      && (!group || this.group(row, sides[row]) === group));
  }

  // --- what is drawn ---

  head() {
    for (const header of this.table.tHead.rows[0].querySelectorAll("th[data-by]")) {
      const button = make("button", { type: "button" }, ...header.childNodes);
      button.addEventListener("click", () => {
        const { by } = header.dataset, again = this.state.by === by;
        // Names from A on, numbers from the largest on.
        const falls = again ? !this.state.falls : header.classList.contains("n");
        for (const other of this.table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        header.setAttribute("aria-sort", falls ? "descending" : "ascending");
        this.show({ by, falls });
      });
      header.append(button);
    }
    this.table.querySelector(".cut")?.remove();
  }

  field(label, control) {
    control.id = `${this.id}-${label.toLowerCase().replace(/\W+/g, "-")}`;
    return make("span", { class: "field" }, make("label", { for: control.id }, label), control);
  }

  choice(label, name, options) {
    const control = make("select", {}, ...options.map(([value, words]) => make("option", { value }, words)));
    control.addEventListener("change", () => this.show({ [name]: control.value }));
    return this.field(label, control);
  }

  bar() {
    const { columns } = this, search = make("input", { type: "search", autocomplete: "off" });
    search.addEventListener("input", () => this.show({ words: search.value.trim().toLowerCase() }));
    const fields = [this.field("Find an op", search)];
    if (columns.hasBase) {
      const words = [["", "All"], ["slower", "Slower, 2 % or more"], ["faster", "Faster, 2 % or more"], ["new", "New"], ["gone", "Gone"]];
      fields.push(this.choice("Change", "group", words));
    }
    const kinds = columns.kinds.map((kind, place) => [place, kind || "not known"]);
    if (kinds.length > 1) fields.push(this.choice("Kind", "kind", [["", "All"], ...kinds]));
    const { phases } = columns;
    if (phases.length > 1) fields.push(this.choice("Phase", "phase", [["", "The whole step"], ...phases.map((phase, place) => [place, phase])]));
    const button = (words, act) => {
      const made = make("button", { type: "button" }, words);
      made.addEventListener("click", act);
      return made;
    };
    this.back = button("Previous", () => this.show({ start: this.state.start - WINDOW }));
    this.next = button("Next", () => this.show({ start: this.state.start + WINDOW }));
    this.shown = make("output", {});
    this.said = make("output", { class: "said" });
    this.tools = make("div", { class: "tools" }, ...fields);
    const below = make("div", { class: "tools below" }, this.back, this.next, this.shown,
      make("span", { class: "copies" }, button("Copy CSV", () => this.copy(this.csv())), button("Copy JSON", () => this.copy(this.json()))), this.said);
    this.box.prepend(this.tools);
    this.table.parentElement.after(below);
    this.below = below;
  }

  show(change) {
    Object.assign(this.state, { start: 0 }, change);
    this.draw();
    this.table.parentElement.scrollTop = 0;
  }

  draw(most = WINDOW) {
    const rows = this.chosen(), sides = this.inPhase(this.state.phase);
    const start = Math.min(Math.max(this.state.start, 0), Math.max(rows.length - 1, 0));
    const size = row => this.columns.hasBase ? Math.abs(delta(sides[row]) ?? 0) : largest(sides[row]);
    const longest = rows.reduce((all, row) => Math.max(all, size(row)), 0);
    const drawn = rows.slice(start, start + most);
    // A key that changes nothing costs nothing.
    const now = [this.state.phase, longest, ...drawn].join();
    if (now !== this.drawn) this.table.tBodies[0].replaceChildren(...drawn.map(row => this.row(row, sides[row], longest)));
    this.drawn = now;
    this.back.disabled = start === 0;
    this.next.disabled = start + WINDOW >= rows.length;
    this.back.hidden = this.next.hidden = rows.length <= WINDOW;
    const all = this.whole.length, end = start + drawn.length;
    const window = rows.length > drawn.length ? `${start + 1} to ${end} of ${rows.length}` : `${rows.length}`;
    this.shown.textContent = `${window} op${rows.length === 1 ? "" : "s"}${rows.length < all ? ` (of ${all})` : ""}`;
  }

  row(row, sides, longest) {
    const { columns } = this, told = texts(sides), cell = text => make("td", { class: "n" }, text);
    const name = columns.names[row], cut = name.lastIndexOf(" \u00b7 "), tag = columns.statuses[columns.status[row]];
    const code = make("code", { title: this.full[row] }, cut < 0 ? name : name.slice(cut + 3));
    const summary = make("summary", {}, code, ...(tag ? [" ", make("span", { class: "tag" }, tag)] : []));
    const fold = make("details", {}, summary);
    fold.addEventListener("toggle", () => fold.append(...this.folded(row)), { once: true });
    const times = columns.hasBase ? [cell(told.base), cell(told.head), cell(told.change)] : [cell(told.head)];
    return make("tr", {}, make("th", { scope: "row" }, fold), ...times, make("td", {}, this.drawing(sides, longest)),
      cell(told.launches), cell(told.each), make("td", {}, columns.kinds[columns.kind[row]] || "not known"),
      ...(columns.history ? [make("td", {}, ...this.course(row))] : []));
  }

  // An op's times in the branch's runs, and this run's, as `_course` in ops.py draws them. They are
  // of the whole step, so beside the times of a phase there is none.
  course(row) {
    const values = this.columns.history[row], now = this.whole[row].head;
    if (!values || this.state.phase !== "") return [];
    const shown = known(now) ? [...values, now] : values, most = Math.max(...shown) || 1;
    const shares = shown.map(value => value / most), low = Math.min(...shares), high = Math.max(...shares);
    const room = Math.max(LEAST_CHANGE - (high - low), 0) / 2, span = high - low + 2 * room;
    const places = shares.map((share, place) => [
      Math.floor(COURSE_UNITS * place / (shown.length - 1) + 0.5),
      Math.floor(COURSE_UNITS * (high + room - share) / span + 0.5),
    ].join(" "));
    const ends = [...new Set([Math.min(...values), Math.max(...values)].map(threeDigits))].join(" to ");
    const words = `${values.length} runs of the branch, ${ends} ms${known(now) ? `; this run ${threeDigits(now)} ms` : ""}`;
    return [make("svg", { class: "op-course", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img" },
      make("title", {}, words),
      make("path", { class: "line", d: "M" + places.slice(0, values.length).join("L") }),
      ...(known(now) ? [make("path", { class: "this", d: `M${places.at(-1)}h0` })] : []))];
  }

  drawing(sides, longest) {
    const change = delta(sides) ?? 0, { hasBase } = this.columns;
    const share = longest ? (hasBase ? Math.abs(change) : largest(sides)) / longest : 0;
    const width = Math.round(share * (hasBase ? HALF_BAR : 2 * HALF_BAR));
    const x = !hasBase ? 0 : change > 0 ? HALF_BAR : HALF_BAR - width;
    const kind = !hasBase ? "all" : change > 0 ? "more" : "less";
    return make("svg", { class: "delta", width: 2 * HALF_BAR, height: 10, "aria-hidden": "true" },
      make("rect", { class: kind, x, width, height: 10, rx: 2 }));
  }

  // Below an op: where it comes from, its full name, and its places.
  folded(row) {
    const { names, was, hasBase } = this.columns, cut = names[row].lastIndexOf(" \u00b7 "), lines = [];
    if (cut >= 0) lines.push(make("p", {}, `Launched by ${names[row].slice(0, cut)}`));
    if (was[row]) lines.push(make("p", {}, "Was ", make("code", { title: was[row][1] }, was[row][0])));
    if (this.full[row] !== names[row].slice(cut < 0 ? 0 : cut + 3)) lines.push(make("p", {}, make("code", {}, this.full[row])));
    const places = this.placesOf(row), list = make("ul", {});
    for (const [place, sides] of places.slice(0, WINDOW)) {
      const told = texts(sides);
      const times = hasBase ? `${told.base} \u2192 ${told.head} ms (${told.change})` : `${told.head} ms`;
      const launched = told.launches === "not counted" ? "" : `, count ${told.launches}, each ${told.each} ms`;
      list.append(make("li", {}, `${place.words}: ${times}${launched}`));
    }
    if (places.length > WINDOW) list.append(make("li", {}, `and ${places.length - WINDOW} more, which the copied JSON has`));
    return list.children.length ? [...lines, list] : lines;
  }

  // --- copies of what is chosen ---

  rows() {
    const sides = this.inPhase(this.state.phase), { columns } = this;
    return this.chosen().map(row => ({
      op: this.full[row],
      short: columns.names[row],
      status: columns.statuses[columns.status[row]],
      was: columns.was[row]?.[1] ?? "",
      kind: columns.kinds[columns.kind[row]],
      base_ms: sides[row].base, head_ms: sides[row].head,
      base_launches: sides[row].baseCount, head_launches: sides[row].headCount,
      row,
    }));
  }

  csv() {
    const lines = this.rows().map(({ row, ...told }) => told);
    const names = Object.keys(lines[0] ?? { op: "" });
    return [names.join(","), ...lines.map(line => names.map(name => csv(line[name])).join(","))].join("\n") + "\n";
  }

  json() {
    const rows = this.rows().map(({ row, ...told }) => ({
      ...told,
      places: this.placesOf(row).map(([place, sides]) => ({ place: place.words, base_ms: sides.base, head_ms: sides.head, base_launches: sides.baseCount, head_launches: sides.headCount })),
    }));
    return JSON.stringify(rows, null, 1) + "\n";
  }

  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      this.said.textContent = "Copied";
    } catch {
      this.offer(text);
    }
  }

  // Where the browser does not let a page copy, its reader does.
  offer(text) {
    this.offered?.remove();
    const area = make("textarea", { readonly: "", rows: 6, "aria-label": "The text to copy" });
    area.value = text;
    this.below.after(area);
    area.focus();
    area.select();
    this.offered = area;
    this.said.textContent = document.execCommand("copy") ? "Copied" : "The text is selected: copy it with your keyboard";
  }
}

const tables = [];
document.querySelectorAll("[data-ops]").forEach((box, place) => {
  const fold = box.closest("details.case"), start = () => tables.push(new Ops(box, place));
  if (!fold || fold.open) start();
  else fold.addEventListener("toggle", start, { once: true });
});
addEventListener("beforeprint", () => tables.forEach(table => table.draw(MOST_PRINTED)));
addEventListener("afterprint", () => tables.forEach(table => table.draw()));
}
