"use strict";
// Sorting, filtering, copying, theme and keys. The page is complete without it.
(() => {
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const remember = (key, value) => { try { localStorage.setItem("tracediff-" + key, value); } catch { /* private */ } };
  const recall = (key) => { try { return localStorage.getItem("tracediff-" + key); } catch { return null; } };

  // Copying
  const fallbackCopy = (text) => {
    const area = make("textarea", { value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { return fallbackCopy(text); }
  };
  const copyButton = (label, text) => {
    const button = make("button", { type: "button", textContent: label });
    button.addEventListener("click", async () => {
      button.textContent = (await copy(text())) ? "Copied" : "Could not copy";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
    return button;
  };
  const visibleText = (cell) => {
    const summary = cell.querySelector("details > summary");
    return (summary || cell).textContent.replace(/\s+/g, " ").trim();
  };
  const asCell = (text) => text.replace(
    /[\w.:/-]*[@#]\w[\w.:/@#-]*|[\\`*_[\]<>|~&$]/g, (found) => (found.length > 1 ? `\`${found}\`` : `\\${found}`));
  const asMarkdown = (table) => {
    const head = [...table.tHead.rows].at(-1).cells;
    const over = table.tHead.querySelector(".over");
    const groups = over ? [...over.cells].flatMap((cell) => Array(cell.colSpan).fill(visibleText(cell))) : [];
    const label = (cell, column) => [visibleText(cell), groups[column]].filter(Boolean).join(", ");
    const lines = [
      [...head].map((cell, column) => asCell(label(cell, column))),
      [...head].map((cell) => (cell.classList.contains("n") ? "-:" : "-")),
    ];
    for (const body of [...table.tBodies, ...(table.tFoot ? [table.tFoot] : [])]) {
      for (const row of body.rows) {
        if (!row.hidden) lines.push([...row.cells].map((cell) => asCell(visibleText(cell))));
      }
    }
    return lines.map((line) => "| " + line.join(" | ") + " |").join("\n") + "\n";
  };

  // Sorting: by <data value> where a cell has one, else by text; empty cells last either way
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const data = cell && cell.querySelector("data");
    if (data) return data.value === "" ? null : Number(data.value);
    const text = cell ? visibleText(cell) : "";
    return text === "" || text === "–" ? null : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sortBy = (table, headers, column) => {
    const header = headers[column];
    const numeric = header.classList.contains("n");
    const now = header.getAttribute("aria-sort");
    const direction = now === "descending" ? "ascending" : now === "ascending" ? "descending" : numeric ? "descending" : "ascending";
    headers.forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const magnitude = header.textContent.trim() === "Delta" && direction === "descending";
    const value = (row) => {
      const key = keyOf(row, column);
      return magnitude && typeof key === "number" ? Math.abs(key) : key;
    };
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ row, place, key: value(row) }));
    rows.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      return sign * compare(a.key, b.key) || a.place - b.place;
    });
    body.append(...rows.map((entry) => entry.row));
  };
  const sortable = (table) => {
    const headers = [...[...table.tHead.rows].at(-1).cells];
    headers.forEach((header, column) => {
      const button = make("button", { type: "button", title: "Sort" }, ...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sortBy(table, headers, column));
    });
  };

  // Filtering
  const filterable = (table, bar) => {
    const rows = [...table.tBodies[0].rows];
    const key = "filter-" + table.dataset.name;
    const input = make("input", { type: "search", placeholder: "Filter rows", value: "" });
    input.setAttribute("aria-label", "Filter " + table.dataset.name);
    const shown = make("output");
    const levels = rows.some((row) => row.dataset.level === "within_noise");
    const box = make("input", { type: "checkbox", checked: recall(key) === "sure" });
    const textOf = (row) => {
      const more = row.querySelector("dl");
      return [...[...row.cells].map(visibleText), more ? more.textContent : ""].join(" ").toLowerCase();
    };
    const apply = () => {
      const terms = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        const text = textOf(row);
        const noise = levels && box.checked && row.dataset.level === "within_noise";
        row.hidden = noise || !terms.every((term) => text.includes(term));
        count += !row.hidden;
      }
      shown.textContent = count === rows.length ? "" : `${count} of ${rows.length} rows`;
    };
    input.addEventListener("input", apply);
    box.addEventListener("change", () => { remember(key, box.checked ? "sure" : ""); apply(); });
    bar.append(shown);
    if (levels) bar.append(make("label", {}, box, "hide rows within noise"));
    bar.append(input);
    apply();
  };

  for (const table of document.querySelectorAll("table.data")) {
    const bar = make("div", { className: "bar-tools" });
    if (table.classList.contains("sortable")) sortable(table);
    if (table.classList.contains("filterable") && table.tBodies[0].rows.length > 5) filterable(table, bar);
    if (table.closest(".pairwise, .measured")) continue;
    if (!bar.children.length) bar.classList.add("lone");
    const button = copyButton("Copy", () => asMarkdown(table));
    button.setAttribute("aria-label", `Copy ${table.dataset.name} as Markdown`);
    bar.append(button);
    (table.closest(".scroll") || table).before(bar);
  }
  // What is wider than the page can be scrolled from the keyboard
  const scrollers = [...document.querySelectorAll(".scroll, .fall, .wide, .numbers pre")];
  const sized = new ResizeObserver((entries) => {
    for (const box of new Set(entries.map(({ target }) => target.closest(".scroll, .fall, .wide, .numbers pre")))) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  });
  for (const box of scrollers) {
    sized.observe(box);
    if (box.firstElementChild) sized.observe(box.firstElementChild);
  }
  for (const block of document.querySelectorAll("pre[data-copy]")) {
    const text = block.textContent;
    block.append(copyButton("Copy", () => text));
  }

  // Theme: follows the system until told otherwise
  const themes = ["auto", "light", "dark"];
  const themeButton = make("button", { type: "button" });
  const setTheme = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    themeButton.textContent = "Theme: " + theme;
    remember("theme", theme);
  };
  themeButton.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "auto";
    setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
  });
  const given = document.documentElement.dataset.theme || recall("theme");
  setTheme(themes.includes(given) ? given : "auto");
  const comment = document.getElementById("comment");
  document.querySelector("[data-tools=page]").append(copyButton("Copy summary as Markdown", () => comment.value), themeButton);

  // A link into something folded opens it
  const reveal = (target) => {
    for (let folded = target.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    if (target.matches("tr")) target.querySelector("details")?.setAttribute("open", "");
  };
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    reveal(target);
    target.scrollIntoView();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    const target = link && document.getElementById(link.getAttribute("href").slice(1));
    if (target) reveal(target);
  });
  window.addEventListener("hashchange", follow);
  follow();

  // Keys
  const sections = [...document.querySelectorAll("main > section[id], main > .fold")];
  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  const current = () => {
    const passed = sections.filter((section) => section.getBoundingClientRect().top < 80);
    return passed.length ? sections.indexOf(passed.at(-1)) : -1;
  };
  const go = (step) => {
    const target = sections[Math.min(Math.max(current() + step, 0), sections.length - 1)];
    if (target) target.scrollIntoView();
  };
  const focusFilter = () => {
    const here = sections[Math.max(current(), 0)];
    const input = here.querySelector("input[type=search]") || document.querySelector("input[type=search]");
    if (input) reveal(input);
    if (input) input.focus();
    return Boolean(input);
  };
  const keys = document.querySelector("[data-tools=keys]");
  const key = (name) => make("kbd", { textContent: name });
  keys.append("Keys: ", key("j"), " next section, ", key("k"), " previous section, ", key("/"), " filter, ", key("Esc"), " clear the filter. A click on a column's name sorts by it.");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest?.("input, textarea");
    if (field) {
      if (event.key === "Escape") {
        field.value = "";
        field.dispatchEvent(new Event("input"));
        field.blur();
      }
      return;
    }
    if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "/" && focusFilter()) event.preventDefault();
  });
  const mark = () => {
    const here = sections[current()];
    for (const [id, link] of links) link.classList.toggle("here", Boolean(here) && here.contains(document.getElementById(id)));
  };
  document.addEventListener("scroll", mark, { passive: true });
  mark();

  // Printing opens the evidence, and the sections that belong on paper
  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll(".finding details:not([open], .cause), details.printed:not([open])")) {
      folded.open = true;
      folded.dataset.printed = "";
    }
  });
  window.addEventListener("afterprint", () => {
    for (const folded of document.querySelectorAll("details[data-printed]")) {
      folded.open = false;
      delete folded.dataset.printed;
    }
  });
})();
