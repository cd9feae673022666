// Sorting and filtering of the recordings, and sounds of the reader's choice. Without this script the table shows all recordings, worst errors first.
(() => {
  "use strict";
  const table = document.getElementById("recordings");
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const rows = [...table.tBodies];
  const more = document.getElementById("more");
  const numeric = new Set(["rank", "score", "margin", "share"]);
  const collator = new Intl.Collator("en", { numeric: true });
  const errors = new Set(["missed", "alarm"]);
  const step = 25; // rows at first; print has as many as the screen
  let most = step;

  function matches(data, view) {
    const decided = view.outcome === data.outcome || (view.outcome === "wrong" && errors.has(data.outcome));
    const undecided = view.outcome === data.reason || view.outcome === "undecided";
    const outcome = view.outcome === "" || (data.reason ? undecided : decided);
    return outcome && (view.split === "*" || view.split === data.split) && (!view.media || data.media)
      && view.find.toLowerCase().split(/\s+/).every((word) => data.find.includes(word));
  }

  function compare(a, b, key) {
    const difference = numeric.has(key) ? a.dataset[key] - b.dataset[key]
      : collator.compare(a.dataset[key], b.dataset[key]);
    return difference || a.dataset.rank - b.dataset.rank;
  }

  function currentView() {
    const { find, outcome, split, sort, down, media } = form.elements;
    return { find: find.value, outcome: outcome.value, split: split.value, sort: sort.value, down: down.checked, media: media.checked };
  }

  function update() {
    const view = currentView();
    rows.sort((a, b) => (view.down ? -1 : 1) * compare(a, b, view.sort));
    let count = 0;
    for (const row of rows) {
      const match = matches(row.dataset, view);
      count += match;
      row.hidden = !match || count > most;
    }
    table.append(...rows);
    for (const head of table.tHead.rows[0].cells) {
      const order = head.dataset.sort === view.sort ? (view.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", order);
    }
    shown.value = `${Math.min(count, most)} of ${count} shown`;
    more.hidden = count <= most;
    more.textContent = `Show ${Math.min(4 * step, count - most)} more`;
  }

  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      const { sort, down } = form.elements;
      down.checked = sort.value === head.dataset.sort ? !down.checked : false;
      sort.value = head.dataset.sort;
      update();
    });
    head.replaceChildren(button);
  }
  // Files by name: a recording's is the one whose path ends most like the recording's.
  function tail(path, name) {
    const a = path.split("/").reverse(), b = name.split(/[\\/]/).reverse();
    const different = a.findIndex((part, index) => part !== b[index]);
    return different < 0 ? a.length : different;
  }

  function fileOf(name, files) {
    const tails = files.map((file) => tail(file.webkitRelativePath || file.name, name));
    const longest = Math.max(0, ...tails);
    const best = files.filter((_, index) => tails[index] === longest);
    return longest > 0 && best.length === 1 ? best[0] : null;
  }

  function offer(row, file) {
    const place = row.querySelector(".listen");
    place.replaceChildren();
    if (!file) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Listen";
    button.addEventListener("click", () => {
      const player = document.createElement("audio");
      player.controls = player.autoplay = true;
      player.addEventListener("error", () => place.replaceChildren("This browser cannot play the file."));
      player.src = URL.createObjectURL(file);
      place.replaceChildren(player);
    });
    place.append(button);
  }

  function chosen() {
    const byName = Map.groupBy([...form.elements.folder.files], (file) => file.name);
    for (const row of rows) {
      const name = row.dataset.recording.split(/[\\/]/).at(-1);
      if (!row.dataset.audio) offer(row, fileOf(row.dataset.recording, byName.get(name) ?? []));
    }
    const count = rows.filter((row) => row.querySelector(".listen button")).length;
    shown.value = `${count} recordings found in the folder`;
  }

  form.elements.folder.addEventListener("change", chosen);
  form.addEventListener("input", (event) => event.target.name !== "folder" && update());
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => { most += 4 * step; update(); });
  form.hidden = false;
  for (const part of document.querySelectorAll(".with-script")) part.hidden = false;
  update();
})();
