// The sites of the work list: filters, order, and a map. Only the rows that are looked at are in the document.
(() => {
  "use strict";
  const list = JSON.parse(document.getElementById("worklist").textContent);
  const form = document.getElementById("filters");
  const table = document.getElementById("sites");
  const template = document.getElementById("site").content;
  const more = document.getElementById("more");
  const map = document.getElementById("map");
  const collator = new Intl.Collator("en", { numeric: true });
  const upwards = new Set(["rank", "site", "state"]); // all other columns begin with the highest
  const step = 50;
  let matching = [];
  let most = step;

  const difference = (a, b) => (a === null || b === null ? null : a - b);
  const rows = list.rows.map((values, number) => {
    const row = Object.fromEntries(list.fields.map((name, field) => [name, values[field]]));
    row.rank = number + 1;
    row.state = list.states[row.state];
    row.scoreAbove = difference(row.lastScore, row.medianScore);
    row.levelAbove = difference(row.level, row.medianLevel);
    row.text = [row.site, row.state, row.why, ...row.health, row.about].join(" ").toLowerCase();
    return row;
  });

  const fixed = (value, digits) => (value === null ? "" : value.toFixed(digits).replace("-", "−"));
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;
  const day = (iso) => new Date(iso).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  const texts = {
    rank: (row) => row.rank,
    site: (row) => row.site,
    about: (row) => row.about,
    state: (row) => row.state,
    why: (row) => row.why,
    health: (row) => row.health.length && `logger: ${row.health.join("; ")}`,
    nights: (row) => `${row.leakNights} of ${row.nights}`,
    since: (row) => row.since && `since ${row.since}`,
    score: (row) => fixed(row.score, 2) || "none",
    lastScore: (row) => row.lastScore !== null && `last night ${fixed(row.lastScore, 2)}`,
    medianScore: (row) => row.medianScore !== null && `median ${fixed(row.medianScore, 2)}`,
    familiarity: (row) => row.familiarity > 1 && `unlike training ${fixed(row.familiarity, 1)}`,
    level: (row) => (row.level === null ? "none" : `${fixed(row.level, 0)} dB`),
    medianLevel: (row) => row.medianLevel !== null && `median ${fixed(row.medianLevel, 0)} dB`,
    firstNight: () => list.nights.length > 1 && day(list.nights[0]),
    lastNight: () => day(list.nights.at(-1)),
    share: (row) => row.share !== null && percent(row.share),
    interval: (row) => row.low !== null && `${percent(row.low)} to ${percent(row.high)}`,
    chance: (row) => row.chance !== null && percent(row.chance),
    chanceBelow: (row) => row.chance !== null && `chance ${percent(row.chance)}`,
    worth: (row) => row.worth !== null && row.worth.toLocaleString("en").replace("-", "−"),
  };

  function svg(name, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  // Bars of the nights, the last one at the right; of few nights, bars as narrow as of ten.
  function sparkline(trend) {
    const width = Math.max(trend.length, 10), start = width - trend.length;
    const paths = { below: "", above: "", unheard: "" };
    let heard = 0;
    for (const [night, letter] of [...trend].entries()) {
      const level = list.levels.indexOf(letter) / (list.levels.length - 1);
      const kind = level < 0 ? "unheard" : list.threshold !== null && level >= list.threshold ? "above" : "below";
      heard += level >= 0;
      paths[kind] += `M${start + night}.1 100v-${level < 0 ? 4 : Math.max(6, Math.round(100 * level))}h.8V100`;
    }
    const label = `scores from ${list.nights.join(" to ")}, ${heard} of ${trend.length} nights heard`;
    const picture = svg("svg", { class: "timeline", role: "img", "aria-label": label, viewBox: `0 0 ${width} 100`, preserveAspectRatio: "none" });
    for (const [kind, d] of Object.entries(paths)) if (d) picture.append(svg("path", { class: kind, d }));
    if (list.threshold !== null) picture.append(svg("path", { class: "at", d: `M0 ${100 - 100 * list.threshold}h${width}` }));
    return picture;
  }

  function drawn(row) {
    const copy = template.cloneNode(true);
    for (const cell of copy.querySelectorAll("[data-cell]")) {
      const text = texts[cell.dataset.cell];
      if (text) cell.textContent = text(row) || "";
    }
    copy.querySelector(".state").classList.add(row.state.replace(" ", "-"));
    copy.querySelector("[data-cell=trend]").append(sparkline(row.trend));
    if (row.review !== null) {
      const link = copy.querySelector("[data-cell=listen]");
      link.href = `#row-${row.review}`;
      link.setAttribute("aria-label", `listen to ${row.site}`);
      link.hidden = false;
    }
    return copy;
  }

  // The row of a list that stands above its first site.
  function listHead(name) {
    const row = document.createElement("tr"), cell = document.createElement("th");
    row.className = "list";
    cell.colSpan = table.tHead.rows[0].cells.length;
    cell.scope = "rowgroup";
    cell.textContent = `${name[0].toUpperCase()}${name.slice(1)}: ${list.lists[name]}`;
    row.append(cell);
    return row;
  }

  function compare(a, b, key) {
    const [x, y] = [a[key], b[key]];
    if (x === null || y === null) return (x === null) - (y === null); // unknown ones last, in either order
    const order = typeof x === "number" ? x - y : collator.compare(x, y);
    return ((upwards.has(key) ? 1 : -1) * (form.elements.reversed.checked ? -1 : 1) * order) || a.rank - b.rank;
  }

  function draw() {
    const byRank = form.elements.sort.value === "rank";
    table.tBodies[0].replaceChildren(...matching.slice(0, most).flatMap((row, number) =>
      byRank && row.list !== matching[number - 1]?.list ? [listHead(row.list), drawn(row)] : [drawn(row)]));
    document.getElementById("shown").value = `${Math.min(most, matching.length)} of ${matching.length} shown`
      + (matching.length < rows.length ? `, ${rows.length} in all` : "");
    more.hidden = matching.length <= most;
    more.textContent = `Show ${Math.min(4 * step, matching.length - most)} more`;
  }

  function update() {
    const { find, list: part, state, logger, sort } = form.elements;
    const words = find.value.toLowerCase().split(/\s+/);
    const fault = logger?.value ?? "";
    matching = rows.filter((row) => (!part.value || row.list === part.value)
      && (!state.value || row.state === state.value)
      && (!fault || (fault === "*" ? row.health.length : row.health.some((fact) => fact.startsWith(fault))))
      && words.every((word) => row.text.includes(word)));
    matching.sort((a, b) => compare(a, b, sort.value));
    most = step;
    for (const head of table.tHead.rows[0].cells) {
      if (!head.dataset.sort) continue;
      const ascending = upwards.has(sort.value) !== form.elements.reversed.checked;
      head.setAttribute("aria-sort", head.dataset.sort !== sort.value ? "none" : ascending ? "ascending" : "descending");
    }
    draw();
    if (map) showOnMap();
  }

  function showOnMap() {
    const paths = new Map([...map.querySelectorAll("[data-state]")].map((path) => [path.dataset.state, { path, d: [] }]));
    for (const { state, point } of matching) {
      const { path, d } = paths.get(state);
      if (point) d.push(`M${point[0]} ${point[1]}${path.dataset.glyph}`);
    }
    for (const { path, d } of paths.values()) path.setAttribute("d", d.join(""));
  }

  function choose(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
    const away = (row) => (row.point ? Math.hypot(row.point[0] - at.x, row.point[1] - at.y) : Infinity);
    const nearest = matching.reduce((best, row) => (away(row) < away(best) ? row : best), matching[0]);
    if (!nearest?.point) return;
    const ring = document.getElementById("chosen");
    ring.setAttribute("cx", nearest.point[0]);
    ring.setAttribute("cy", nearest.point[1]);
    ring.removeAttribute("hidden");
    const show = document.createElement("button");
    show.className = "filter";
    show.textContent = "show it in the list";
    show.addEventListener("click", () => filterBy({ find: nearest.site }));
    document.getElementById("chosen-site").replaceChildren(
      `${nearest.site}: rank ${nearest.rank}, ${nearest.state}, ${nearest.why} `, show);
  }

  function filterBy(values) {
    form.reset();
    for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
    update();
    document.getElementById("sites-heading").scrollIntoView();
    form.elements.find.focus({ preventScroll: true });
  }

  for (const head of table.tHead.rows[0].cells) {
    if (!head.dataset.sort) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      const { sort, reversed } = form.elements;
      reversed.checked = sort.value === head.dataset.sort && !reversed.checked;
      sort.value = head.dataset.sort;
      update();
    });
    head.replaceChildren(button);
  }
  for (const button of document.querySelectorAll("[data-logger], [data-list]")) {
    button.addEventListener("click", () => filterBy({ ...button.dataset }));
  }
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => { most += 4 * step; draw(); });
  map?.addEventListener("click", choose);
  form.hidden = false;
  for (const part of document.querySelectorAll(".with-script")) part.hidden = false;
  update();
})();
