// Sorting and filtering of the recordings. Without this script the table shows all of them, worst errors first.
(() => {
  "use strict";
  const table = document.getElementById("recordings");
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const rows = [...table.tBodies];
  const numeric = new Set(["rank", "score", "share"]);
  const collator = new Intl.Collator("en", { numeric: true });
  const errors = new Set(["missed", "alarm"]);

  function matches(data, view) {
    const outcome = view.outcome === "" || view.outcome === data.outcome
      || (view.outcome === "wrong" && errors.has(data.outcome));
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
    let count = 0;
    for (const row of rows) {
      row.hidden = !matches(row.dataset, view);
      count += !row.hidden;
    }
    rows.sort((a, b) => (view.down ? -1 : 1) * compare(a, b, view.sort));
    table.append(...rows);
    for (const head of table.tHead.rows[0].cells) {
      const order = head.dataset.sort === view.sort ? (view.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", order);
    }
    shown.value = `${count} of ${rows.length} shown`;
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
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  update();

  // On paper nothing can be opened.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")].filter((part) => !part.closest("tbody[hidden]"));
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
})();
