// Ticks, and their download as the table of the page. Without this script the page can be heard and read.
(() => {
  "use strict";
  const table = JSON.parse(document.getElementById("table").textContent);
  const rows = [...document.querySelectorAll(".review > li")];
  const form = document.getElementById("ticked");
  const count = document.getElementById("count");
  const kept = document.getElementById("kept");
  const at = table.columns.indexOf("label");
  const ticks = new Map(); // number of the row -> label
  let current = -1;

  // As Python's csv module writes it behind a byte order mark, so that an untouched page gives the
  // file beside it.
  // A formula begins with an apostrophe, as tables.schema.defused writes it.
  const formula = /^(?!'*[+-]?[\d.]+$)'*[=+\-@\t\r]/;
  const defused = (text) => (formula.test(text) ? `'${text}` : text);
  const field = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  function csv() {
    const lines = table.rows.map((values, number) => {
      const label = ticks.get(number) ?? "";
      return values.with(at, label === "not_sure" ? "" : label);
    });
    return [table.columns, ...lines].map((line) => `${line.map(defused).map(field).join(",")}\r\n`).join("");
  }

  function keep() {
    try {
      localStorage.setItem(table.key, JSON.stringify([...ticks]));
      return true;
    } catch {
      return false; // no storage, or none for files
    }
  }

  function keptTicks() {
    try {
      return JSON.parse(localStorage.getItem(table.key) ?? "[]");
    } catch {
      return [];
    }
  }

  function show() {
    const named = [...rows[0].querySelectorAll("input")].map((input) => {
      const number = [...ticks.values()].filter((label) => label === input.value).length;
      return number ? `${number} ${input.parentNode.textContent.trim().toLowerCase()}` : "";
    }).filter(Boolean);
    count.value = `${ticks.size} of ${rows.length} ticked${named.length ? `: ${named.join(", ")}` : ""}`;
    for (const [number, row] of rows.entries()) {
      row.dataset.label = ticks.get(number) ?? "";
      row.hidden = form.elements.open.checked && ticks.has(number) && number !== current;
      for (const input of row.querySelectorAll("input")) input.checked = input.value === ticks.get(number);
    }
  }

  function tick(number, label) {
    if (ticks.get(number) === label) ticks.delete(number);
    else ticks.set(number, label);
    kept.value = keep() ? "ticks are kept in this browser" : "this browser keeps no ticks: save before you close the page";
    show();
  }

  function go(number) {
    if (number === current || !rows[number]) return;
    rows[current]?.classList.remove("current");
    rows[current]?.querySelector("audio")?.pause();
    current = number;
    rows[current].classList.add("current");
  }

  function step(by) {
    let next = current + by;
    while (rows[next]?.hidden) next += by;
    if (!rows[next]) return;
    go(next);
    rows[next].focus({ preventScroll: true });
    rows[next].scrollIntoView({ block: "nearest" });
  }

  function save() {
    const link = document.createElement("a");
    link.download = table.file;
    link.href = URL.createObjectURL(new Blob(["\ufeff", csv()], { type: "text/csv;charset=utf-8" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    kept.value = `saved as ${table.file}, in the folder of this browser's downloads`;
  }

  for (const [number, row] of rows.entries()) {
    row.addEventListener("focusin", () => go(number));
    row.addEventListener("click", () => go(number));
    row.querySelector("fieldset").hidden = false;
    for (const input of row.querySelectorAll("input")) {
      input.addEventListener("change", () => tick(number, input.value));
    }
  }
  document.addEventListener("play", (event) => {
    for (const player of document.querySelectorAll("audio")) if (player !== event.target) player.pause();
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches?.("input[type=search], select")) return; // they are typed into
    const key = event.key.toLowerCase();
    const label = table.keys[key];
    if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "s") save();
    else if (current < 0) return;
    else if (label !== undefined) tick(current, label);
    else if (key === "p") {
      const player = rows[current].querySelector("audio");
      if (player?.paused) player.play(); else player?.pause();
    } else return;
    event.preventDefault();
  });
  form.elements.open.addEventListener("change", show);
  form.addEventListener("submit", (event) => { event.preventDefault(); save(); });
  for (const [number, label] of keptTicks()) if (rows[number]) ticks.set(number, label);
  form.hidden = false;
  show();
})();
