
// The icicle drawn anew: zoom, one layer alone, search, and the state in the address. The rules are
// those of icicle.py, which drew what stands there without script.
{
  const MOST_BOXES = 400, LEAST_SHARE = 0.0015, LEAST_SHARE_WITH_TEXT = 0.014, ROUNDING = 0.005;
  const STEPS = [0.02, 0.08, 0.25, 0.6], MARKS = { u: "\u25b2", d: "\u25bc" }, ROW = 40;
  const OUTSIDE_PHASES = "outside of all phases", OUTSIDE = "outside", MORE = "+";
  const HINT = "Point at a box for its full name. A click zooms into it, Escape zooms out, and arrows lead on.";
  const capital = word => word[0].toUpperCase() + word.slice(1);
  const SIDES = { base: "Base", head: "This change" };

  // --- numbers ---
  const PLACES = [[100, 0], [10, 1], [1, 2], [0.1, 3], [0.01, 4], [0, 5]];
  const digits = value => {
    if (value === 0) return "0";
    if (value < 0.001 || value >= 1e9) {
      return value.toExponential(2).replace(/[+-]\d$/, power => power[0] + "0" + power[1]);
    }
    const text = value.toFixed(PLACES.find(([least]) => value >= least)[1]);
    return value < 1000 ? text : text.replace(/\B(?=(\d{3})+$)/g, ",");
  };
  const ms = value => `${digits(value)} ms`;
  const change = value => (value >= 0 ? "+" : "\u2212") + ms(Math.abs(value));
  const percent = share => `${(share * 100).toFixed(2).replace(/\.?0+$/, "")}%`;
  const plus = (sum, value) => value === null || value === undefined ? sum : (sum ?? 0) + value;
  const total = (nodes, key) => nodes.reduce((sum, node) => plus(sum, node[key]), null);
  const whole = value => value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");

  // --- the tree ---
  const FIELDS = ["base", "head", "base_n", "head_n"];
  const largest = node => Math.max(node.base ?? 0, node.head ?? 0);
  const delta = node => node.base === null || node.head === null ? null : node.head - node.base;
  const sum = cells => Object.fromEntries(FIELDS.map(field => [field, total(cells, field)]));

  // What each op takes in each place, by its row.
  const cellsOf = data => {
    const cells = data.ops.map(() => []);
    for (const place of data.places) {
      const counts = place.head_n ?? place.base_n;
      place.rows.forEach((row, at) => cells[row].push({
        phase: place.phase ?? null, layer: place.layer ?? null,
        base: place.base?.[at] ?? null, head: place.head?.[at] ?? null,
        base_n: place.base_n?.[at] ?? null, head_n: counts?.[at] ?? null,
      }));
    }
    return cells;
  };
  const wholeOf = (data, row) => ({
    base: data.base_ms?.[row] ?? null, head: data.head_ms?.[row] ?? null,
    base_n: data.base_n?.[row] ?? null, head_n: (data.head_n ?? data.base_n)?.[row] ?? null,
  });
  const rest = (all, within) => {
    if (all === null) return null;
    const left = all - (within ?? 0);
    return left > ROUNDING * all ? left : 0;
  };
  const outside = (data, row, cells) => {
    const all = wholeOf(data, row), within = sum(cells);
    return Object.fromEntries(FIELDS.map(field => [field, rest(all[field], within[field])]));
  };
  // Phases with what an op takes of them: of all layers, of one, or outside of all layers.
  const phasesOf = (model, row, layer) => {
    const { data, cells, hasPhases } = model, own = cells[row], by = new Map();
    const isAll = layer === "";
    if (isAll && !hasPhases) return [[OUTSIDE_PHASES, wholeOf(data, row)]];
    const put = (phase, cell) => by.set(phase, [...(by.get(phase) ?? []), cell]);
    for (const cell of own) {
      if (isAll ? cell.phase !== null : layer === OUTSIDE ? cell.layer === null : cell.layer === +layer) {
        put(cell.phase ?? OUTSIDE_PHASES, cell);
      }
    }
    if (isAll || layer === OUTSIDE) {
      const placed = isAll ? own.filter(cell => cell.phase !== null) : own;
      const left = outside(data, row, placed);
      if (left.base || left.head) put(OUTSIDE_PHASES, left);
    }
    return [...by].map(([phase, found]) => [phase, sum(found)]);
  };
  const parent = (level, name, children) => {
    const known = children.map(child => child.delta).filter(value => value !== null);
    return {
      level, name, label: name, key: name, children, status: "", was: "",
      base: total(children, "base"), head: total(children, "head"), base_n: null, head_n: null,
      delta: known.length ? known.reduce((one, other) => one + other, 0) : null,
    };
  };
  const leaf = (data, row, sides) => ({
    level: "op", name: data.ops[row], key: data.ops[row], label: data.short[row].split(" \u00b7 ").pop(),
    status: data.status[row], was: data.was[row] ?? "", row, children: [], ...sides, delta: delta(sides),
  });
  const notKept = ({ data }) => {
    const out = data.left_out;
    if (!out.base_ms && !out.head_ms) return [];
    const many = data.has_base ? `${out.base_ops ?? 0} \u2192 ${out.head_ops}` : `${out.head_ops}`;
    const node = parent("not kept", `${many} ops that were not kept`, []);
    return [{ ...node, base: out.base_ms, head: out.head_ms }];
  };
  const treeOf = (model, layer) => {
    const { data, hasPhases, hasKinds } = model, phases = new Map(), leaves = [];
    data.ops.forEach((_, row) => {
      for (const [phase, sides] of phasesOf(model, row, layer)) {
        const kinds = phases.get(phase) ?? phases.set(phase, new Map()).get(phase);
        const kind = data.kinds[row] || "other", node = leaf(data, row, sides);
        kinds.set(kind, [...(kinds.get(kind) ?? []), node]);
        leaves.push(node);
      }
    });
    const tops = [...phases].flatMap(([phase, kinds]) => {
      const inner = [...kinds].flatMap(
        ([kind, nodes]) => hasKinds ? [parent("kind", kind, nodes)] : nodes);
      return hasPhases ? [parent("phase", phase, inner)] : inner;
    });
    const where = layer === "" ? "a step" : layer === OUTSIDE ? `no ${model.word}` : `${model.word} ${layer}`;
    const root = parent("all", `all ops of ${where}`, layer === "" ? [...tops, ...notKept(model)] : tops);
    const most = leaves.reduce((most, node) => Math.max(most, Math.abs(node.delta ?? 0)), 0);
    return { root, leaves, most, hasBase: data.has_base };
  };
  const modelOf = (data, word) => {
    const cells = cellsOf(data), all = cells.flat();
    const layers = [...new Set(all.map(cell => cell.layer).filter(layer => layer !== null))];
    return {
      data, cells, word, layers: layers.sort((a, b) => a - b), trees: new Map(),
      hasPhases: all.some(cell => cell.phase !== null), hasKinds: data.kinds.some(Boolean),
      isOutside: layers.length > 0 && cells.some((own, row) => {
        const left = outside(data, row, own);
        return own.some(cell => cell.layer === null) || left.base || left.head;
      }),
    };
  };

  // --- which boxes are drawn ---
  const ordered = nodes => [...nodes].sort((a, b) =>
    largest(b) - largest(a) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const withWideBoxes = (node, least) => {
    const all = ordered(node.children), wide = all.filter(child => largest(child) >= least);
    const narrow = all.slice(wide.length), kept = wide.map(child => withWideBoxes(child, least));
    if (narrow.length === 1) kept.push({ ...narrow[0], children: [] });
    else if (narrow.length) {
      const more = parent("more", `${narrow.length} more`, narrow);
      kept.push({ ...more, key: MORE, children: [], inside: narrow });
    }
    return { ...node, children: kept };
  };
  const boxes = (node, side) =>
    (node[side] > 0) + node.children.reduce((many, child) => many + boxes(child, side), 0);
  const pruned = root => {
    for (let least = LEAST_SHARE; ; least *= 1.5) {
      const kept = withWideBoxes(root, least * largest(root));
      if (Math.max(boxes(kept, "base"), boxes(kept, "head")) <= MOST_BOXES) return kept;
    }
  };
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
    if (!node.delta) return "";
    const step = STEPS.filter(least => Math.abs(node.delta) / tree.most >= least).length;
    return step ? (node.delta > 0 ? "u" : "d") + step : "";
  };
  const fromTo = node => node.base === null || node.head === null ? ms(largest(node))
    : `${digits(node.base)} \u2192 ${ms(node.head)}`;
  const isNotKept = node => node.status.startsWith("not kept");
  const times = node => {
    if (node.status === "new") return `new: ${ms(node.head ?? 0)}`;
    if (node.status === "gone") return `gone: ${ms(node.base ?? 0)} before`;
    if (isNotKept(node)) return `${ms(largest(node))}, ${node.status}`;
    return fromTo(node) + (node.delta === null ? "" : ` (${change(node.delta)})`);
  };
  const launches = node => {
    const shown = [...new Set([node.base_n, node.head_n].filter(Boolean).map(whole))];
    return shown.length ? `${shown.join(" \u2192 ")} launch${shown.at(-1) === "1" ? "" : "es"}` : "";
  };
  const titleOf = (node, above) => [
    node.name, node.was && `was ${node.was}`, above.join(" \u00b7 "),
    [times(node), launches(node)].filter(Boolean).join(", "),
  ].filter(Boolean).join("\n");
  const keyOf = tree => {
    if (!tree.hasBase) return "";
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
      height: ROW - 2, role: "button", tabindex: -1, "aria-label": title.replace(/\n/g, ", "),
    }, make("title", {}, title), make("rect", { class: "f", width: "100%", height: ROW - 2 }));
    if (share >= LEAST_SHARE_WITH_TEXT) {
      const longer = colour && side === "head" && node.status !== "new" ? ` ${change(node.delta)}` : "";
      box.append(
        make("text", { x: 5, y: 15 }, colour ? `${MARKS[colour[0]]} ${node.label}` : node.label),
        make("text", { class: "v", x: 5, y: 31 }, ms(node[side] ?? 0) + longer));
    }
    box.append(make("rect", { class: "h", height: ROW - 2 }));
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
      `${node.long ?? node.label} `, html("span", { textContent: isNotKept(node) ? times(node) : fromTo(node) }),
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
      this.levels = this.drawings[0].querySelectorAll("g").length;
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
      const { word } = this.figure.dataset, bar = html("p", { className: "search" }, labelled("Mark ops", input));
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
      const { ops, word } = this.figure.dataset;
      this.model = modelOf(pageData(ops), word);
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
      this.draw();
      if (!quiet) this.write();
    }

    draw() {
      const tree = this.tree(), chain = chainOf(tree.root, this.state.zoom), kept = pruned(chain.at(-1));
      this.state.zoom = chain.slice(1).map(node => node.key);
      for (const drawing of this.drawings) {
        const side = drawing.classList.contains("base") ? "base" : "head";
        const rows = rowsOf(tree, chain, kept, side, this.levels), had = drawing.contains(document.activeElement);
        drawing.replaceChildren(...rows.map(
          (row, at) => make("g", { transform: `translate(0 ${at * ROW})` }, ...row)));
        drawing.setAttribute("height", rows.length * ROW - 2);
        drawing.setAttribute("role", "group");
        drawing.setAttribute("aria-label", `${SIDES[side]}: ${ms(tree.root[side] ?? 0)}`);
        drawing.removeAttribute("tabindex");
        const first = rows[chain.length - 1]?.[0] ?? rows.flat()[0];
        first?.setAttribute("tabindex", 0);
        if (had) first?.focus();
        const levels = drawing.previousElementSibling.querySelector("span");
        levels.textContent = tree.root[side] === null ? `tells no ${this.model.word}s` : this.shown;
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
        const { short } = this.model.data, kept = pruned(tree.root);
        const named = node => ({
          ...node, children: node.children.map(named), long: node.row === undefined ? node.label : short[node.row] });
        list.querySelector("ul").replaceWith(listOf(named(kept)));
      }
      this.listed = tree;
    }

    // Marks the boxes whose name holds the words, and says how much time the ops have in them.
    mark() {
      const wanted = this.state.find.trim().toLowerCase(), { short } = this.model.data;
      const holds = node => node.name.toLowerCase().includes(wanted)
        || node.row !== undefined && short[node.row].toLowerCase().includes(wanted)
        || Boolean(node.inside?.some(holds));
      this.figure.classList.toggle("marked", wanted !== "");
      for (const box of this.figure.querySelectorAll(".rows .b")) {
        box.classList.toggle("hit", wanted !== "" && holds(info.get(box).node));
      }
      if (!wanted) {
        this.found.textContent = "";
        return;
      }
      const hits = this.tree().leaves.filter(holds), ops = new Set(hits.map(node => node.row)).size;
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
  const icicles = new Map([...document.querySelectorAll("figure.icicle[data-ops]")].map(
    figure => [figure.dataset.case, new Icicle(figure)]));
  const arrive = () => {
    const [anchor, said] = address();
    if (said.some(([name]) => OWN.has(name))) icicles.get(anchor)?.read(said);
  };
  addEventListener("hashchange", arrive);
  // A heat strip, say, asks for the drawing of a layer.
  document.addEventListener("ci-score:layer", ({ detail }) => {
    icicles.get(detail.case)?.set({ layer: String(detail.layer ?? OUTSIDE), zoom: [] });
  });
  arrive();
}
