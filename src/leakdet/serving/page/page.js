// The page: sends what is dropped, shows rows as they are scored, keeps ticks on the server at once.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const suffixes = new Set(document.body.dataset.suffixes.split(" "));
  const NARROW = "(max-width: 46rem)"; // as in page.css
  const AT_A_TIME = 3; // files that are sent
  const metrics = { auroc: "AUROC", balanced_accuracy: "balanced accuracy", recall: "leaks found", fpr: "false alarms" };
  let state = { version: -1, rows: [], waiting: 0, job: null };
  let current = ""; // id of the row whose card is open
  let timer = 0;
  const queue = []; // files to send
  let sending = 0;
  let sent = 0;
  let toSend = 0;

  // ---- asking the server

  async function ask(path, options) {
    const answer = await fetch(path, options);
    if (answer.ok) return answer;
    const text = await answer.text();
    let sentence = text;
    try { sentence = JSON.parse(text).error; } catch { /* no JSON: as it is */ }
    throw new Error(sentence || `the server answered ${answer.status}`);
  }

  const post = (action, content = {}) => ask(`/do/${action}`, { method: "POST", body: JSON.stringify(content) });

  function complain(sentence) {
    const lines = $("error").hidden ? [] : $("error").textContent.split("\n");
    $("error").textContent = [...lines.slice(-4), sentence].join("\n");
    $("error").hidden = false;
  }

  async function act(work) {
    try {
      await work();
    } catch (error) {
      complain(error.message);
    }
    refresh();
  }

  function shown() {
    const form = $("filters").elements;
    return new URLSearchParams({ decision: form.decision.value, site: form.site.value, text: form.text.value });
  }

  async function refresh(whole = false) {
    clearTimeout(timer);
    try {
      const query = shown();
      query.set("since", whole ? -1 : state.version);
      const answer = await ask(`/state?${query}`);
      state = { ...state, ...(await answer.json()) };
      show();
    } catch (error) {
      const gone = error instanceof TypeError; // no answer at all
      $("progress-text").value = gone ? "the server does not answer; what was ticked is kept" : error.message;
      $("progress").hidden = false;
    }
    clearTimeout(timer);
    timer = setTimeout(refresh, state.waiting || sending || state.job?.running ? 600 : 2500);
  }

  // ---- what is shown

  function element(kind, className, text) {
    const made = document.createElement(kind);
    made.className = className;
    made.textContent = text ?? "";
    return made;
  }

  function show() {
    showModel();
    showProgress();
    showJob();
    showFilters();
    showRows();
    showTicks();
  }

  function showModel() {
    const model = state.model;
    $("model").textContent = model ? `model ${model.hash}` : "no model yet";
    $("synthetic").hidden = !model?.synthetic;
    $("worth").hidden = !model;
    if (!model) return;
    $("worth").className = `verdict ${model.grade}`;
    $("worth-label").textContent = model.label + ".";
    $("worth-sentence").textContent = model.sentence;
    $("worth-advice").textContent = model.advice;
  }

  function showProgress() {
    const total = state.recordings ?? 0;
    const scored = total - state.waiting;
    const busy = state.waiting > 0 || sending > 0;
    $("progress").hidden = !busy;
    $("progress-bar").max = Math.max(total, toSend);
    $("progress-bar").value = scored;
    const sends = sending ? `${sent} of ${toSend} sent, ` : "";
    $("progress-text").value = `${sends}${scored} of ${total} scored${state.model ? "" : ": waiting for the model"}`;
  }

  function showJob() {
    const job = state.job;
    $("job").hidden = !job?.running;
    if (!job) return;
    $("job-title").textContent = job.title;
    if (job.total) { $("job-bar").max = job.total; $("job-bar").value = job.done; } else $("job-bar").removeAttribute("value");
    $("job-progress").textContent = job.progress;
    $("rank-page").disabled = job.running;
    $("rank").disabled = job.running || !$("places").value;
    const ended = `${job.title} ${job.running}`;
    if (showJob.ended === ended) return;
    showJob.ended = ended;
    if (job.error) complain(job.error);
    if (job.learnt) showLearnt(job);
    if (!job.running && job.page) loadPlaces(job.page);
  }

  function showLearnt(job) {
    const learnt = job.learnt;
    $("learnt").hidden = false;
    $("learnt-sentence").textContent = learnt.sentence;
    const body = $("learnt-table").tBodies[0];
    body.replaceChildren(...(learnt.new_recordings?.differences ?? []).map((row) => {
      const line = document.createElement("tr");
      const number = (value) => (value === null ? "n/a" : value.toFixed(3));
      const signed = row.difference === null ? "n/a" : `${row.difference < 0 ? "" : "+"}${row.difference.toFixed(3)}`;
      line.append(element("th", "", metrics[row.metric] ?? row.metric));
      line.append(...[number(row.a), number(row.b), signed].map((text) => element("td", "n", text)));
      return line;
    }));
    $("learnt-table").hidden = !body.rows.length;
    $("learnt-path").textContent = `It lies in ${job.model_path}; the old model stays where it is. To start with the new one: leakdet serve ${job.model_path}`;
    $("learnt-report").dataset.page = job.report;
    $("learnt-worse").hidden = learnt.verdict !== "worse";
  }

  function showFilters() {
    if (!state.recordings !== $("filters").hidden) {
      $("filters").hidden = !state.recordings;
      $("drop").classList.toggle("first", !state.recordings);
      $("worth").open = !state.recordings || !matchMedia(NARROW).matches;
    }
    $("sites").hidden = !state.sites.length;
    const site = $("filters").elements.site;
    if (site.options.length !== state.sites.length + 1) {
      const kept = site.value;
      site.replaceChildren(new Option("all", ""), ...state.sites.map((name) => new Option(name, name)));
      site.value = kept;
    }
    $("rank-page").hidden = !(state.sites.length && state.dated);
    const first = state.rows.length < state.matching ? `, the first ${state.rows.length} in this list` : "";
    $("count").value = `${state.matching ?? 0} of ${state.recordings ?? 0} shown${first}`;
    const query = shown();
    $("csv").href = `/rows.csv?${query}`;
    $("xlsx").href = `/rows.xlsx?${query}`;
    const pattern = $("pattern").elements.pattern;
    if (document.activeElement !== pattern) pattern.value = state.pattern;
  }

  const names = { no_leak: "no leak", not_sure: "not sure", dry_hole: "dry hole" };

  function rowElement(row) {
    const button = element("button", "row", "");
    button.type = "button";
    button.dataset.id = row.id;
    const decision = element("span", `decision ${row.decision.replaceAll(" ", "_")}`, names[row.decision] ?? row.decision);
    const text = document.createElement("span");
    text.append(element("span", "name", row.name));
    if (row.site) text.append(element("span", "site", `site ${row.site}`));
    if (row.to_do) text.append(element("small", "", row.to_do));
    button.append(element("span", "prob", row.prob == null ? "–" : row.prob.toFixed(2)), decision, text, element("span", "tick", row.label && `✓ ${names[row.label] ?? row.label}`));
    if (row.id === current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => open(row.id));
    return button;
  }

  function showRows() {
    const list = $("rows");
    const focused = document.activeElement?.closest?.("#rows button")?.dataset.id;
    const before = new Map([...list.children].map((item) => [item.firstChild.dataset.id, item]));
    const items = state.rows.map((row) => {
      const kept = before.get(row.id);
      const content = JSON.stringify(row);
      if (kept?.dataset.content === content) return kept;
      const item = document.createElement("li");
      item.dataset.content = content;
      item.append(rowElement(row));
      return item;
    });
    if (items.some((item, place) => list.children[place] !== item) || items.length !== list.children.length) {
      list.replaceChildren(...items);
      if (focused) list.querySelector(`[data-id="${focused}"]`)?.focus({ preventScroll: true });
    }
    const row = state.rows.find((one) => one.id === current);
    if (row && open.shown !== verdictOf(row)) open(current, false);
  }

  const verdictOf = (row) => `${row.id} ${row.decision} ${row.prob} ${row.site}`;

  function showTicks() {
    const labels = Object.entries(state.labels ?? {});
    const total = labels.reduce((sum, [, count]) => sum + count, 0);
    $("ticked").textContent = total ? `(${total})` : "";
    const parts = labels.map(([label, count]) => `${count} ${names[label] ?? label}`);
    $("learn-counts").textContent = total ? `Ticked: ${parts.join(", ")}.` : "Nothing is ticked yet.";
    const known = total - (state.labels?.not_sure ?? 0);
    const leaks = state.labels?.leak ?? 0;
    $("start-learn").textContent = known > 1 ? `Make a better model from these ${known}` : "Make a better model";
    $("start-learn").disabled = leaks < 2 || known - leaks < 2 || Boolean(state.job?.running);
    $("switch").hidden = !state.job?.may_switch;
    const label = state.rows.find((row) => row.id === current)?.label;
    for (const button of $("ticks").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(label === button.dataset.label));
    }
  }

  // ---- a recording

  async function open(id, focus = true) {
    const row = state.rows.find((one) => one.id === id);
    if (!row) return;
    const isNew = id !== current;
    current = id;
    open.shown = verdictOf(row);
    for (const button of $("rows").querySelectorAll("button")) {
      if (button.dataset.id === id) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    if (row.decision === "waiting" || row.decision === "stopped") return;
    if (isNew) $("content").replaceChildren(element("p", "quiet", "loading the sound"));
    $("card").hidden = false;
    showTicks();
    try {
      const html = await (await ask(`/card/${id}`)).text();
      if (current !== id) return;
      $("content").innerHTML = html; // made and escaped by the server
      if (isNew && focus && matchMedia(NARROW).matches) $("content").querySelector("h2").focus();
      else if (isNew) $("card").scrollIntoView({ block: "nearest" });
    } catch (error) {
      complain(error.message);
    }
  }

  function step(by) {
    const at = state.rows.findIndex((row) => row.id === current);
    const row = state.rows[at < 0 ? 0 : at + by];
    if (!row) return;
    open(row.id);
    const button = $("rows").querySelector(`[data-id="${row.id}"]`);
    button?.focus({ preventScroll: true });
    button?.scrollIntoView({ block: "nearest" });
  }

  function tick(label) {
    const row = state.rows.find((one) => one.id === current);
    if (row) act(() => post("tick", { row: current, label: row.label === label ? "" : label }));
  }

  function play() {
    const player = $("content").querySelector("audio");
    if (player?.paused) player.play(); else player?.pause();
  }

  // ---- files

  const suffixOf = (name) => (/\.[^./]+$/.exec(name.toLowerCase()) ?? [""])[0];
  const isList = (name) => [".csv", ".tsv", ".xlsx"].includes(suffixOf(name));

  async function filesIn(entry) {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      return [{ file, name: entry.fullPath.slice(1) }];
    }
    const reader = entry.createReader();
    const files = [];
    for (;;) { // a reader gives some at a time
      const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!entries.length) return files;
      for (const inside of entries) files.push(...(await filesIn(inside)));
    }
  }

  function send(files) {
    const taken = files.filter(({ name }) => !/(^|\/)\./.test(name) && (suffixes.has(suffixOf(name)) || isList(name)));
    const others = files.length - taken.length;
    if (others) complain(`${others} of ${files.length} files are no recordings and no lists, and were left out`);
    taken.sort((a, b) => isList(b.name) - isList(a.name)); // lists first
    queue.push(...taken);
    toSend += taken.length;
    while (sending < AT_A_TIME && queue.length) sendNext();
  }

  async function sendNext() {
    sending += 1;
    for (let next = queue.shift(); next; next = queue.shift()) {
      try {
        await ask(`/sounds?${new URLSearchParams({ name: next.name })}`, { method: "POST", body: next.file });
      } catch (error) {
        complain(error.message);
      }
      sent += 1;
    }
    sending -= 1;
    if (!sending) sent = toSend = 0;
    refresh();
  }

  const picked = (event) => {
    send([...event.target.files].map((file) => ({ file, name: file.webkitRelativePath || file.name })));
    event.target.value = "";
    refresh();
  };

  // ---- reports and work lists

  async function loadPlaces(chosen = "") {
    const places = await (await ask("/places")).json();
    const kept = $("pages").value;
    $("pages").replaceChildren(new Option("choose one", ""), ...places.pages.map((page) => new Option(page.name, page.url)));
    const sources = places.rows.map((name, place) => new Option(name, place));
    if (state.sites?.length && state.dated) sources.unshift(new Option("the recordings of this page", -1));
    $("places").replaceChildren(...(sources.length ? sources : [new Option("no file of verdicts here", "")]));
    $("pages").value = places.pages.some((page) => page.url === kept) ? kept : "";
    $("rank").disabled = !sources.length || Boolean(state.job?.running);
    const page = chosen && places.pages.find((one) => one.url.endsWith(`/${chosen}`));
    if (page) {
      openPart("look");
      $("pages").value = page.url;
      look();
    }
  }

  function look() {
    const url = $("pages").value;
    $("frame").hidden = !url;
    $("empty").hidden = Boolean(url);
    if (url) $("frame").src = url;
  }

  const rank = (place) => act(() => post("rank", { place }));

  function openPart(part) {
    for (const name of ["score", "learn", "look"]) $(name).hidden = name !== part;
    for (const button of document.querySelectorAll("[data-part]")) {
      if (button.dataset.part === part) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
  }

  function goTo(part) {
    openPart(part);
    if (part === "look") act(() => loadPlaces());
  }

  // ---- what a person does

  for (const button of document.querySelectorAll("[data-part]")) button.addEventListener("click", () => goTo(button.dataset.part));
  for (const button of document.querySelectorAll("[data-folder]")) {
    button.addEventListener("click", () => act(() => post("folder", { folder: Number(button.dataset.folder) })));
  }
  $("choose").addEventListener("click", () => $("files").click());
  $("choose-folder").addEventListener("click", () => $("folder").click());
  $("files").addEventListener("change", picked);
  $("folder").addEventListener("change", picked);
  $("stop").addEventListener("click", () => { queue.length = 0; act(() => post("stop")); });
  $("back").addEventListener("click", () => { $("card").hidden = true; current = ""; showRows(); });
  $("start-learn").addEventListener("click", () => { $("learnt").hidden = true; act(() => post("learn")); });
  $("switch").addEventListener("click", () => act(() => post("switch")));
  $("learnt-report").addEventListener("click", (event) => { event.preventDefault(); act(() => loadPlaces(event.target.dataset.page)); });
  $("rank").addEventListener("click", () => rank(Number($("places").value)));
  $("rank-page").addEventListener("click", () => rank(-1));
  $("pages").addEventListener("change", look);
  $("filters").addEventListener("input", () => refresh(true));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("pattern").addEventListener("submit", (event) => {
    event.preventDefault();
    act(() => post("pattern", { pattern: event.target.elements.pattern.value.trim() }));
  });
  for (const button of $("ticks").querySelectorAll("button")) button.addEventListener("click", () => tick(button.dataset.label));
  $("error").addEventListener("click", () => { $("error").hidden = true; });
  document.addEventListener("dragover", (event) => { event.preventDefault(); $("drop").classList.add("over"); });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").classList.remove("over"); });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    $("drop").classList.remove("over");
    goTo("score");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = entries.length
      ? (await Promise.all(entries.map(filesIn))).flat()
      : [...event.dataTransfer.files].map((file) => ({ file, name: file.name }));
    send(files);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || $("score").hidden) return;
    if (event.target.matches?.("input, select, textarea")) return; // they are typed into
    const key = event.key.toLowerCase();
    const button = $("ticks").querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "p" && current) play();
    else if (button && current && !$("card").hidden) tick(button.dataset.label);
    else return;
    event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  refresh(true);
})();
