
// The icicle drawn anew: zoom, one layer alone, search, and the state in the address. The rules are
// those of icicle.py, which drew what stands there without script.
{
  const MOST_BOXES = 400, LEAST_SHARE = 0.0015, LEAST_SHARE_WITH_TEXT = 0.014, ROUNDING = 0.005;
  const STEPS = [0.02, 0.1, 0.3, 0.6], MARKS = { u: "\u25b2", d: "\u25bc", s: "" }, ROW = 40;
  const OUTSIDE_PHASES = "outside all phases", OUTSIDE = "outside", MORE = "+", SAME = "same";
  const HINT = "Point at a box for its full name. A click zooms into it, Escape zooms out, and arrows lead on.";
  const capital = word => word[0].toUpperCase() + word.slice(1);

  // --- numbers ---
  const ms = value => `${threeDigits(value)} ms`;
  const change = value => {
    const shown = ms(Math.abs(value));
    return shown[0] === "<" || !/[1-9]/.test(shown) ? shown : (value >= 0 ? "+" : "\u2212") + shown;
  };
  const percent = share => `${fixed(share * 100, 2).replace(/\.?0+$/, "")}%`;
  const plus = (sum, value) => value === null || value === undefined ? sum : (sum ?? 0) + value;
  const total = (nodes, key) => nodes.reduce((sum, node) => plus(sum, node[key]), null);
  const whole = value => grouped(fixed(value, 0));

  // --- the tree ---
  const FIELDS = ["base", "head", "baseCount", "headCount"];
  const largest = node => Math.max(node.base ?? 0, node.head ?? 0);
  const delta = node => node.base === null || node.head === null ? null : node.head - node.base;
  const sum = cells => {
    const all = { base: null, head: null, baseCount: null, headCount: null };
    for (const cell of cells) for (const field of FIELDS) all[field] = plus(all[field], cell[field]);
    return all;
  };

  // A column is a list, or the one value of all its rows, or not there.
  const at = (column, row) => (Array.isArray(column) ? column[row] : column) ?? null;
  const sidesAt = ({ base, head, baseCount, headCount }, row) => ({
    base: at(base, row), head: at(head, row), baseCount: at(baseCount, row), headCount: at(headCount, row),
  });
  const numbers = rows => Array.isArray(rows) ? rows : Array.from({ length: rows.count }, (_, at) => rows.from + at);
  // The ops with their names, and what each takes in each place.
  const readOps = (columns, places) => {
    const ops = columns.names.map((name, row) => ({
      name: columns.full[row] || name, short: name, was: columns.was[row]?.[1] ?? "",
      kind: columns.kinds[columns.kind[row]], status: columns.statuses[columns.status[row]],
      sides: sidesAt(columns, row), cells: [],
    }));
    for (const place of places) {
      const named = columns.phases[place.phase], phase = named === OUTSIDE_PHASES ? null : named;
      const { layer, base, head, baseCount, headCount } = place;
      numbers(place.rows).forEach((row, place) => ops[row].cells.push({
        phase, layer, base: at(base, place), head: at(head, place),
        baseCount: at(baseCount, place), headCount: at(headCount, place),
      }));
    }
    return ops;
  };
  const rest = (all, within) => {
    if (all === null) return null;
    const left = all - (within ?? 0);
    return left > ROUNDING * all ? left : 0;
  };
  const outside = (op, cells) => {
    const within = sum(cells);
    return Object.fromEntries(FIELDS.map(field => [field, rest(op.sides[field], within[field])]));
  };
  const groups = (list, key) => {
    const found = new Map();
    for (const one of list) {
      const name = key(one), group = found.get(name);
      if (group) group.push(one);
      else found.set(name, [one]);
    }
    return found;
  };
  // Phases with what an op takes of them: of all layers, of one, or outside of all layers.
  const phasesOf = (op, layer, hasPhases) => {
    if (layer === "" && !hasPhases) return [[OUTSIDE_PHASES, op.sides]];
    op.layers ??= groups(op.cells, cell => String(cell.layer ?? OUTSIDE));
    const here = layer === "" ? op.cells.filter(cell => cell.phase !== null) : op.layers.get(layer) ?? [];
    const left = layer === "" ? [outside(op, here)] : layer === OUTSIDE ? [outside(op, op.cells)] : [];
    const all = [...here, ...left.filter(cell => cell.base || cell.head)];
    return [...groups(all, cell => cell.phase ?? OUTSIDE_PHASES)].map(([phase, found]) => [phase, sum(found)]);
  };
  const parent = (level, name, children) => {
    const known = children.map(child => child.delta).filter(value => value !== null);
    return {
      level, name, label: name, key: name, children, status: "", was: "",
      base: total(children, "base"), head: total(children, "head"), baseCount: null, headCount: null,
      delta: known.length ? known.reduce((one, other) => one + other, 0) : null,
    };
  };
  const leaf = (op, sides) => ({
    level: "op", name: op.name, key: op.name, label: op.short.split(" \u00b7 ").pop(), op,
    status: op.status, was: op.was, children: [], ...sides, delta: delta(sides),
  });
  const notKept = ({ leftOut, hasBase }) => {
    if (!leftOut.base && !leftOut.head) return [];
    const counts = [leftOut.baseCount, leftOut.headCount].map(count => String(count ?? 0));
    const many = hasBase ? counts.join(" \u2192 ") : counts[1];
    return [{ ...parent("not kept", `${many} ops that were not kept`, []), base: leftOut.base, head: leftOut.head }];
  };
  const treeOf = (model, layer) => {
    const { ops, hasPhases, hasKinds, word } = model;
    const leaves = ops.flatMap(op => phasesOf(op, layer, hasPhases).map(
      ([phase, sides]) => ({ ...leaf(op, sides), phase })));
    const tops = [...groups(leaves, node => node.phase)].flatMap(([phase, nodes]) => {
      const kinds = groups(nodes, node => node.op.kind || "other");
      const inner = hasKinds ? [...kinds].map(([kind, own]) => parent("kind", kind, own)) : nodes;
      return hasPhases ? [parent("phase", phase, inner)] : inner;
    });
    const where = layer === "" ? "a step" : layer === OUTSIDE ? `no ${word}` : `${word} ${layer}`;
    const root = parent("all", `all ops of ${where}`, layer === "" ? [...tops, ...notKept(model)] : tops);
    const most = leaves.reduce((most, node) => Math.max(most, Math.abs(node.delta ?? 0)), 0);
    return { root, leaves, most, hasBase: model.hasBase };
  };
  const modelOf = (columns, places, word) => {
    const ops = readOps(columns, places), all = ops.flatMap(op => op.cells);
    const layers = [...new Set(all.map(cell => cell.layer).filter(layer => layer !== null))];
    return {
      ops, word, layers: layers.sort((a, b) => a - b), trees: new Map(), hasBase: columns.hasBase,
      leftOut: sidesAt(columns.leftOut, 0), hasKinds: ops.some(op => op.kind),
      hasPhases: all.some(cell => cell.phase !== null),
      isOutside: layers.length > 0 && ops.some(op => {
        const left = outside(op, op.cells);
        return op.cells.some(cell => cell.layer === null) || left.base || left.head;
      }),
    };
  };

  // --- which boxes are drawn ---
  const ordered = nodes => [...nodes].sort((a, b) =>
    largest(b) - largest(a) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const below = node => ordered(node.children).flatMap(child => [[child, node], ...below(child)]);
  // The boxes that are drawn, with room for one more in each parent.
  const widest = root => {
    const least = LEAST_SHARE * largest(root), left = new Map([[root, root.children.length]]), kept = new Set();
    const wide = below(root).filter(([node]) => largest(node) >= least);
    let boxes = 2;
    for (const [node, parent] of wide.sort(([a], [b]) => largest(b) - largest(a))) {
      left.set(parent, left.get(parent) - 1);
      left.set(node, node.children.length);
      boxes += 1 + (node.children.length > 0) - (left.get(parent) === 0);
      if (boxes > MOST_BOXES) break;
      kept.add(node);
    }
    return kept;
  };
  const withOnly = (node, kept) => {
    const all = ordered(node.children), rest = all.filter(child => !kept.has(child));
    const children = all.filter(child => kept.has(child)).map(child => withOnly(child, kept));
    if (rest.length === 1) children.push({ ...rest[0], children: [] });
    else if (rest.length) {
      children.push({ ...parent("more", `${rest.length} more`, rest), key: MORE, children: [], inside: rest });
    }
    return { ...node, children };
  };
  const pruned = root => withOnly(root, widest(root));
  // The boxes from the whole down to the one that is zoomed into, as far as they are there.
  const chainOf = (root, path) => {
    const chain = [root];
    for (const key of path) {
      const above = chain.at(-1);
      const more = key === MORE && pruned(above).children.find(child => child.key === MORE);
      const next = more ? { ...more, children: more.inside } : above.children.find(child => child.key === key);
      if (!next || next.level === "not kept") break;
      chain.push(next);
    }
    return chain;
  };

  // --- words ---
  const shade = (tree, node) => {
    const step = tree.most ? STEPS.filter(least => Math.abs(node.delta ?? 0) / tree.most >= least).length : 0;
    return step ? (node.delta > 0 ? "up" : "down") + step : SAME;
  };
  const fromTo = node => node.base === null || node.head === null ? ms(largest(node))
    : `${threeDigits(node.base)} \u2192 ${ms(node.head)}`;
  const isNotKept = node => node.status.startsWith("not kept");
  const times = node => {
    if (node.status === "new") return `new: ${ms(node.head ?? 0)}`;
    if (node.status === "gone") return `gone: ${ms(node.base ?? 0)} before`;
    if (isNotKept(node)) return `${ms(largest(node))}, ${node.status}`;
    return fromTo(node) + (node.delta === null ? "" : ` (${change(node.delta)})`);
  };
  const launches = node => {
    const shown = [...new Set([node.baseCount, node.headCount].filter(Boolean).map(whole))];
    return shown.length ? `${shown.join(" \u2192 ")} launch${shown.at(-1) === "1" ? "" : "es"}` : "";
  };
  const titleOf = (node, above) => [
    node.name, node.was && `was ${node.was}`, above.join(" \u00b7 "),
    [times(node), launches(node)].filter(Boolean).join(", "),
  ].filter(Boolean).join("\n");
  const keyOf = tree => {
    if (!tree.hasBase || tree.root.base === null || tree.root.head === null) return "";
    if (!tree.most) return "No op changed.";
    return `Colour is the change in time: grey below ${ms(STEPS[0] * tree.most)}, full colour from`
      + ` ${ms(STEPS[3] * tree.most)} on. A box too narrow for \u25b2 or \u25bc is hatched; an outlined one`
      + " is new, or gone.";
  };

  // --- drawing ---
  const make = (tag, fields, ...inner) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(fields)) element.setAttribute(name, value);
    element.append(...inner);
    return element;
  };
  const html = (tag, fields, ...inner) => {
    const element = Object.assign(document.createElement(tag), fields);
    element.append(...inner);
    return element;
  };
  const info = new WeakMap();
  const boxOf = (tree, node, side, start, share, above, path) => {
    const colour = shade(tree, node), title = titleOf(node, above);
    const outline = node.level === "more" || node.level === "not kept" ? "more"
      : node.level === "op" && (node.status === "new" || node.status === "gone") ? node.status : "";
    const box = make("svg", {
      class: ["b", colour, outline].filter(Boolean).join(" "), x: percent(start), width: percent(share),
      role: "button", tabindex: -1,
    }, make("title", {}, title), make("rect", { class: "f" }));
    if (share >= LEAST_SHARE_WITH_TEXT) {
      const longer = colour !== SAME && side === "head" && node.status !== "new" ? ` ${change(node.delta)}` : "";
      box.append(
        make("text", {}, `${MARKS[colour[0]]} ${node.label}`.trimStart()),
        make("text", { class: "v" }, ms(node[side] ?? 0) + longer));
    }
    if (share >= LEAST_SHARE_WITH_TEXT || colour !== SAME) box.append(make("rect", { class: "h" }));
    info.set(box, { node, path, title });
    return box;
  };
  const rowsOf = (tree, chain, kept, side, levels) => {
    const rows = Array.from({ length: levels }, () => []), whole = largest(kept);
    const keys = chain.slice(1).map(node => node.key), labels = chain.slice(1).map(node => node.label);
    const put = (depth, box) => (rows[depth] ??= []).push(box);
    chain.slice(0, -1).forEach((node, depth) => put(
      depth, boxOf(tree, node, side, 0, 1, labels.slice(0, Math.max(depth - 1, 0)), keys.slice(0, depth))));
    const place = (node, start, depth, above, path) => {
      if (!(node[side] > 0)) return;
      put(depth, boxOf(tree, node, side, start / whole, node[side] / whole, above, path));
      const within = depth ? [...above, node.label] : above;
      for (const child of node.children) {
        place(child, start, depth + 1, within, [...path, child.key]);
        start += child[side] ?? 0;
      }
    };
    place(kept, 0, chain.length - 1, labels.slice(0, -1), keys);
    return rows;
  };
  const lineOf = node => {
    const changed = node.status === "new" || node.status === "gone" ? `${node.status} ${change(node.delta ?? 0)}`
      : node.delta === null ? "" : change(node.delta);
    const text = [
      `${node.op?.short ?? node.label} `, html("span", { textContent: isNotKept(node) ? times(node) : fromTo(node) }),
      ...(changed ? [" ", html("b", { textContent: changed })] : []),
    ];
    if (!node.children.length) return html("li", {}, ...text);
    return html("li", {}, html("details", {}, html("summary", {}, ...text), listOf(node)));
  };
  const listOf = node => html("ul", {}, ...[...node.children].sort((a, b) =>
    Math.abs(b.delta ?? 0) - Math.abs(a.delta ?? 0) || (a.name < b.name ? -1 : 1)).map(lineOf));

  // --- one figure ---
  class Icicle {
    constructor(figure) {
      this.figure = figure;
      this.state = { zoom: [], layer: "", find: "" };
      this.drawings = [...figure.querySelectorAll("svg.rows")];
      this.levels = this.drawings[0].querySelectorAll(".row").length;
      this.shown = this.drawings[0].previousElementSibling.querySelector("span").textContent;
      this.addControls();
      for (const drawing of this.drawings) drawing.setAttribute("tabindex", 0);
      figure.addEventListener("pointerenter", () => this.wake());
      figure.addEventListener("focusin", event => this.focused(event));
      figure.addEventListener("click", event => this.clicked(event));
      figure.addEventListener("keydown", event => this.typed(event));
      figure.addEventListener("pointerover", event => this.tell(event.target));
    }

    addControls() {
      const id = this.figure.dataset.case, input = html("input", { type: "search", id: `${id}-find`, autocomplete: "off" });
      this.input = input;
      this.found = html("output", { className: "found" });
      this.out = html("button", { type: "button", hidden: true, textContent: "Zoom out" });
      this.select = html("select", { id: `${id}-layer` });
      this.told = html("p", { className: "told soft", textContent: HINT });
      input.addEventListener("input", () => this.find(input.value));
      this.select.addEventListener("change", () => this.set({ layer: this.select.value, zoom: [] }));
      this.out.addEventListener("click", () => this.zoomOut());
      const labelled = (text, field) =>
        html("span", {}, html("label", { htmlFor: field.id, textContent: text }), field);
      const { word } = this.figure.dataset, bar = html("p", { className: "of-ops" }, labelled("Mark ops", input));
      if (word) {
        this.select.append(html("option", { value: "", textContent: `All ${word}s` }));
        bar.append(labelled(capital(word), this.select));
      }
      bar.append(this.out, this.found);
      this.figure.prepend(bar);
      this.figure.querySelector("figcaption").before(this.told);
    }

    wake() {
      if (this.model) return;
      const { word, case: id } = this.figure.dataset;
      const [columns, places] = ["columns", "places"].map(part => pageData(document.getElementById(`${id}-op-${part}`)));
      this.model = modelOf(columns, places, word);
      for (const layer of this.model.layers) {
        this.select.append(html("option", { value: layer, textContent: `${capital(word)} ${layer}` }));
      }
      if (this.model.isOutside) {
        this.select.append(html("option", { value: OUTSIDE, textContent: `Outside ${word}s` }));
      }
      this.figure.classList.add("live");
      this.draw();
    }

    tree() {
      const { trees } = this.model, { layer } = this.state;
      if (!trees.has(layer)) trees.set(layer, treeOf(this.model, layer));
      return trees.get(layer);
    }

    set(state, { quiet = false } = {}) {
      this.wake();
      Object.assign(this.state, state);
      // An address may name any layer.
      if (![...this.select.options].some(({ value }) => value === this.state.layer)) this.state.layer = "";
      this.draw();
      if (!quiet) this.write();
    }

    draw() {
      const tree = this.tree(), chain = chainOf(tree.root, this.state.zoom), kept = pruned(chain.at(-1));
      this.state.zoom = chain.slice(1).map(node => node.key);
      for (const drawing of this.drawings) {
        const side = drawing.classList.contains("base") ? "base" : "head";
        const label = drawing.previousElementSibling.querySelector("b");
        const rows = rowsOf(tree, chain, kept, side, this.levels), had = drawing.contains(document.activeElement);
        drawing.replaceChildren(...rows.map(
          (row, at) => make("svg", { class: "row", y: at * ROW, height: ROW - 2 }, ...row)));
        drawing.setAttribute("height", rows.some(row => row.length) ? rows.length * ROW - 2 : 0);
        drawing.setAttribute("role", "group");
        drawing.setAttribute("aria-label", `${label.textContent}: ${ms(tree.root[side] ?? 0)}`);
        drawing.removeAttribute("tabindex");
        const first = rows[chain.length - 1]?.[0] ?? rows.flat()[0];
        first?.setAttribute("tabindex", 0);
        if (had) first?.focus();
        label.nextElementSibling.textContent = tree.root[side] === null ? `tells no ${this.model.word}s` : this.shown;
        if (this.state.zoom.length) this.tell(first);
      }
      if (!this.state.zoom.length) this.told.textContent = HINT;
      this.out.hidden = !this.state.zoom.length;
      this.select.value = this.state.layer;
      this.figure.querySelector(".key").textContent = keyOf(tree);
      if (this.listed !== tree) this.list(tree);
      this.mark();
    }

    list(tree) {
      const list = this.figure.querySelector(".list");
      if (this.listed || this.state.layer) {
        list.querySelector("ul").replaceWith(listOf(pruned(tree.root)));
      }
      this.listed = tree;
    }

    // Marks the boxes whose name holds the words, and says how much time the ops have in them.
    mark() {
      const wanted = this.state.find.trim().toLowerCase();
      const holds = node => node.name.toLowerCase().includes(wanted)
        || Boolean(node.op?.short.toLowerCase().includes(wanted))
        || Boolean(node.inside?.some(holds));
      this.figure.classList.toggle("marked", wanted !== "");
      for (const box of this.figure.querySelectorAll(".rows .b")) {
        box.classList.toggle("hit", wanted !== "" && holds(info.get(box).node));
      }
      if (!wanted) {
        this.found.textContent = "";
        return;
      }
      const hits = this.tree().leaves.filter(holds), ops = new Set(hits.map(node => node.op)).size;
      const all = parent("all", "", hits);
      this.found.textContent = ops ? `${ops} op${ops > 1 ? "s" : ""}: ${times(all)}` : "No op has that in its name.";
    }

    find(text) {
      this.wake();
      this.state.find = text;
      this.mark();
      this.write();
    }

    zoomOut() {
      this.set({ zoom: this.state.zoom.slice(0, -1) });
    }

    zoomTo(box) {
      const { node, path } = info.get(box), { zoom } = this.state;
      if (node.level === "not kept") return;
      const isHere = path.length === zoom.length;
      // What has no room in a box has it there once the box is as wide as the drawing.
      const wanted = node.level === "more" && path.length > zoom.length + 1 ? path.slice(0, -1) : path;
      this.set({ zoom: isHere ? zoom.slice(0, -1) : wanted });
    }

    clicked(event) {
      const box = event.target.closest(".rows .b");
      if (!box) return;
      this.wake();
      if (info.has(box)) this.zoomTo(box);
    }

    focused(event) {
      const drawing = event.target.closest("svg.rows");
      this.wake();
      if (drawing && event.target === drawing) drawing.querySelector("[tabindex='0']")?.focus();
      this.tell(event.target);
    }

    tell(target) {
      const box = target?.closest?.(".rows .b");
      if (box && info.has(box)) this.told.textContent = info.get(box).title.replaceAll("\n", " \u00b7 ");
    }

    typed(event) {
      const box = event.target.closest(".rows .b");
      if (event.key === "Escape" && this.state.zoom.length && event.target !== this.input) {
        this.zoomOut();
      } else if (!box) {
        return;
      } else if (event.key === "Enter" || event.key === " ") {
        this.zoomTo(box);
      } else if (!this.move(box, event.key)) {
        return;
      }
      event.preventDefault();
    }

    // The arrows lead to the boxes beside, above and below.
    move(box, key) {
      const row = box.parentNode, at = parseFloat(box.getAttribute("x")), end = at + parseFloat(box.getAttribute("width"));
      const start = other => parseFloat(other.getAttribute("x"));
      const next = {
        ArrowLeft: () => box.previousElementSibling,
        ArrowRight: () => box.nextElementSibling,
        ArrowUp: () => [...row.previousElementSibling?.children ?? []].findLast(other => start(other) <= at + 0.005),
        ArrowDown: () => [...row.nextElementSibling?.children ?? []].find(
          other => start(other) >= at - 0.005 && start(other) < end),
      }[key];
      if (!next) return false;
      const other = next();
      if (other) {
        box.setAttribute("tabindex", -1);
        other.setAttribute("tabindex", 0);
        other.focus();
      }
      return true;
    }

    write() {
      const { zoom, layer, find } = this.state, [anchor, others] = address();
      const own = [...zoom.map(key => ["zoom", key]), ["layer", layer], ["find", find.trim()]];
      const kept = anchor === this.figure.dataset.case ? others.filter(([name]) => !OWN.has(name)) : [];
      const said = [...kept, ...own.filter(([, value]) => value !== "")];
      const text = said.map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join("");
      try {
        history.replaceState(null, "", `#${this.figure.dataset.case}${text}`);
      } catch {
        // A page in a sandbox may have no address of its own.
      }
    }

    read(said) {
      const one = name => said.find(([key]) => key === name)?.[1] ?? "";
      this.input.value = one("find");
      this.set({
        zoom: said.filter(([key]) => key === "zoom").map(([, value]) => value), layer: one("layer"), find: one("find"),
      }, { quiet: true });
      for (let fold = this.figure.closest("details"); fold; fold = fold.parentElement.closest("details")) {
        fold.open = true;
      }
      this.figure.scrollIntoView();
    }
  }

  const OWN = new Set(["zoom", "layer", "find"]);
  const decoded = text => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };
  // The case in the address, and what is said of it: `#case-llama&zoom=forward&layer=3`.
  const address = () => {
    const [anchor, ...said] = location.hash.slice(1).split("&");
    return [decoded(anchor), said.map(one => {
      const at = one.indexOf("=");
      return [one.slice(0, at), decoded(one.slice(at + 1))];
    })];
  };
  const icicles = new Map([...document.querySelectorAll("figure.icicle[data-case]")].map(
    figure => [figure.dataset.case, new Icicle(figure)]));
  const arrive = () => {
    const [anchor, said] = address();
    if (said.some(([name]) => OWN.has(name))) icicles.get(anchor)?.read(said);
  };
  addEventListener("hashchange", arrive);
  arrive();
}
