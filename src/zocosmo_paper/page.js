"use strict";
// Works without: tables are complete in the page, and this sorts, filters and copies.
(() => {
  const UNITS = { K: 1e3, M: 1e6, G: 1e9, "%": 1e-2 };

  function key(cell) {
    if (cell.dataset.key !== undefined) return cell.dataset.key === "" ? null : Number(cell.dataset.key);
    const text = cell.textContent.trim().replace(/,(?=\d{3})/g, "").replace(/^−/, "-");
    const both = /^\((-?\d+(?:\.\d+)?) ± [^)]*\)(e[+-]?\d+)/i.exec(text); // (1.2 ± 0.3)e-7
    if (both) return Number(both[1] + both[2]);
    const found = /^[(≥≤≈<>]*\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([KMG%](?!\w))?/i.exec(text);
    if (found) return Number(found[1]) * (UNITS[found[2]] || 1);
    return text === "" || text === "–" ? null : text;
  }

  function compare(a, b) {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, "en");
    return typeof a === "number" ? -1 : 1;
  }

  function sort(table, header, column) {
    const up = header.getAttribute("aria-sort") !== "ascending";
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => [key(row.cells[column]), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null); // what is not there comes last
      return up ? compare(a, b) : compare(b, a);
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows.map(([, row]) => row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      button.addEventListener("click", () => sort(table, header, column));
      header.replaceChildren(button);
    });
  }

  const form = document.getElementById("filter");
  if (form !== null) {
    const rows = Array.from(document.querySelectorAll("#verdicts tbody tr"));
    const show = () => {
      const words = form.elements.words.value.trim().toLowerCase().split(/\s+/);
      const item = form.elements.only.value;
      const verdicts = new Set(Array.from(form.querySelectorAll("[name=verdict]:checked"), (box) => box.value));
      let count = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const fits = (item === "" || row.dataset.item === item) && verdicts.has(row.dataset.verdict)
          && words.every((word) => text.includes(word));
        row.hidden = !fits;
        count += fits;
      }
      form.elements.shown.value = `${count} of ${rows.length} lines`;
    };
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const link of document.querySelectorAll("[data-show]")) {
      link.addEventListener("click", () => {
        form.elements.only.value = link.dataset.show;
        show();
      });
    }
    show();
  }

  async function copy(text, from) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(from); // marked, so that two keys copy it
      return "Press Ctrl+C";
    }
    return "Copied";
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    const from = document.getElementById(button.dataset.copy);
    button.hidden = false;
    button.addEventListener("click", async () => {
      button.textContent = await copy(from.textContent, from);
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
