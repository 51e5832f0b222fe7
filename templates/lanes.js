// Steps event by event and the crops at causes: drawn on a canvas from the page's own JSON (see report/lanes.py).
(() => {
  const source = document.getElementById("lanes");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const HEIGHTS = { gpu: 18, idle: 13, api: 11, range: 13, gil: 10, holders: 10, gc: 13 };
  const HEAD = 20, GAP = 3, BETWEEN = 12, FOOT = 22, CROP = 15, PALE = 0.42;
  const NEAREST = 64; // times that a figure can be magnified
  const UNIT = 10; // ns of a number
  const LONGEST = 20; // events in the table
  const element = (tag, name = "", text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });
  const grouped = (number, digits) => number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const written = (ns, [factor, decimals, unit]) => {
    if (!ns) return `0\u00a0${unit}`;
    const least = 10 ** -decimals;
    return `${ns / factor < least / 2 ? `<${least.toFixed(decimals)}` : grouped(ns / factor, decimals)}\u00a0${unit}`;
  };

  // What every event is: begin and length in ns, what it is in words, its colour, its row of the kernel table
  const decode = (figure) => {
    const lanes = [];
    let y = 0;
    for (const side of figure.sides) {
      side.top = y;
      y += HEAD;
      for (const lane of side.lanes) {
        let at = 0;
        lane.y = y;
        lane.height = figure.anchor === undefined ? HEIGHTS[lane.kind] ?? 10 : CROP;
        lane.side = side;
        let merged = 0;
        lane.events = lane.after.map((after, number) => {
          const begin = at + UNIT * after, length = UNIT * lane.length[number], count = lane.count?.[number] ?? 1;
          at = begin + length;
          const [text, group, row] = data.events[lane.event[number]];
          return { lane, number, begin, length, text: data.texts[text], group, row, count, covered: count > 1 ? UNIT * lane.covered[merged++] : length };
        });
        y += lane.height + GAP;
        lanes.push(lane);
      }
      side.height = y - side.top - GAP;
      y += BETWEEN;
    }
    figure.height = y - BETWEEN;
    figure.lanes = lanes;
  };
  const named = (lane) => [lane.name, lane.of].filter(Boolean).join(", ");
  const said = (event, scale) => {
    const [word] = data.groups[event.group];
    const name = event.text && event.text !== word ? `${word}: ${event.text}` : word;
    const fine = event.covered < 1e5 ? [1000, 2, "\u00b5s"] : scale;
    return `${event.count > 1 ? `${event.count} events, ` : ""}${name}; ${written(event.covered, fine)} at ${written(event.begin, scale)}`;
  };

  // Colours are those of the page's theme
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    const groups = Object.fromEntries(Object.entries(data.groups).map(([key, [, name]]) => [key, of(name)]));
    return { groups, ink: of("--ink"), muted: of("--muted"), rule: of("--rule"), paper: of("--paper"), link: of("--link"), mark: of("--slower"), font: of("--sans") };
  };
  const fitted = (context, text, width) => {
    if (context.measureText(text).width <= width) return text;
    let letters = Math.floor((text.length * width) / context.measureText(text).width) - 1;
    while (letters > 2 && context.measureText(`${text.slice(0, letters)}\u2026`).width > width) letters -= 1;
    return letters > 2 ? `${text.slice(0, letters)}\u2026` : "";
  };
  // In a crop names are written on the events
  const strength = (figure, group) => (figure.anchor !== undefined && group !== "range" ? PALE : 1);
  // What of the axis is not in a side's step
  const beyond = (figure, side) => {
    const parts = figure.anchor === undefined ? [[side.period, figure.length]] : [[0, side.from], [side.to, figure.length]];
    return parts.filter(([begin, end]) => end > begin);
  };
  const hatched = (context, x, y, width, height, colour) => {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = colour;
    context.beginPath();
    for (let at = x - height; at < x + width; at += 10) { context.moveTo(at, y + height); context.lineTo(at + height, y); }
    context.stroke();
    context.restore();
  };
  const ticks = (from, to, anchor) => {
    const rough = (to - from) / 7;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    const marks = [];
    for (let at = Math.ceil((from - anchor) / step); at * step + anchor <= from + 0.97 * (to - from); at += 1) marks.push(at * step + anchor);
    return marks;
  };

  const paint = (figure) => {
    const { canvas, view } = figure, crop = figure.anchor !== undefined;
    const width = canvas.clientWidth, height = figure.height + FOOT, dense = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * dense;
    canvas.height = height * dense;
    const context = canvas.getContext("2d"), ink = colours();
    context.scale(dense, dense);
    context.font = `12px ${ink.font}`;
    context.textBaseline = "middle";
    const px = width / view.wide;
    const at = (ns, side) => (ns + (side?.side === "candidate" ? view.shift : 0) - view.from) * px;
    const anchor = figure.anchor ?? 0, [factor, , unit] = figure.scale;
    const marks = ticks(view.from, view.from + view.wide, anchor);
    context.textAlign = "center";
    marks.forEach((ns, number) => {
      context.fillStyle = ink.rule;
      context.fillRect(Math.round(at(ns)), 0, 1, figure.height);
      const text = Number(((ns - anchor) / factor).toPrecision(9)).toLocaleString("en-US", { maximumFractionDigits: 6 });
      context.fillStyle = ink.muted;
      const words = (number === marks.length - 1 ? `${text} ${unit}` : text).replace("-", "\u2212");
      const half = context.measureText(words).width / 2;
      context.fillText(words, Math.min(Math.max(at(ns), half), width - half), figure.height + 13);
    });
    context.textAlign = "left";
    for (const side of figure.sides) {
      const top = side.top + HEAD - 3, high = side.height - HEAD + 3;
      for (const [begin, end] of beyond(figure, side)) hatched(context, at(begin, side), top, (end - begin) * px, high, ink.rule);
      for (const [begin, length] of side.marks ?? []) {
        context.fillStyle = ink.mark;
        context.globalAlpha = 0.1;
        context.fillRect(at(begin, side), top, Math.max(length * px, 2), high);
        context.globalAlpha = 1;
      }
    }
    for (const lane of figure.lanes) {
      const { side, y, height: high } = lane;
      const thin = lane.kind === "idle" || lane.events.length > 200 ? 0.25 : 0.75; // of idle time widths are read as shares
      let reach = -Infinity;
      for (const event of lane.events) {
        let x = at(event.begin, side), wide = Math.max(event.covered * px, thin);
        if (event.count > 1) { x = Math.max(x, reach); reach = x + wide; }
        if (x + wide < 0 || x > width) continue;
        context.globalAlpha = strength(figure, event.group);
        context.fillStyle = ink.groups[event.group];
        context.fillRect(x, y, wide, high);
        context.globalAlpha = 1;
        const named = crop || lane.kind === "range" || lane.kind === "gc";
        const left = Math.max(x, 0), room = Math.min(x + wide, width) - left;
        if (!named || event.count > 1 || room < (crop ? 0.09 : 0.05) * width) continue;
        const [word] = data.groups[event.group];
        const text = lane.kind === "idle" ? [word, event.text].filter(Boolean).join(", ") : event.text;
        context.fillStyle = lane.kind === "gc" && !crop ? ink.paper : ink.ink;
        context.fillText(fitted(context, text, room - 8), left + 4, y + high / 2 + 0.5);
      }
      if (!crop && lane.kind !== "idle" && lane.events.some((one) => one.begin + one.length >= side.period)) {
        context.fillStyle = ink.ink;
        context.fillText("\u203a", Math.min(at(side.period, side) + 1, width - 6), y + high / 2);
      }
    }
    for (const side of figure.sides) {
      context.strokeStyle = ink.mark; // over the events, which would hide its lower edge
      for (const [begin, length] of side.marks ?? []) context.strokeRect(at(begin, side), side.top + HEAD - 3, Math.max(length * px, 2), side.height - HEAD + 2);
      context.fillStyle = crop ? ink.muted : ink.ink;
      const end = at(crop ? anchor : side.period, crop ? null : side);
      if (end > width + 1) continue;
      context.globalAlpha = 0.65;
      context.fillRect(Math.min(Math.round(end), width - 1), side.top + HEAD - 4, 1, side.height - HEAD + 4);
      context.globalAlpha = 1;
    }
    const box = (event, colour, wide) => {
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.strokeRect(at(event.begin, event.lane.side), event.lane.y, Math.max(event.length * px, 2), event.lane.height);
    };
    const { now } = figure;
    if (!now) return;
    const [partner, like] = partnerOf(figure, now);
    context.fillStyle = ink.ink;
    context.globalAlpha = 0.32;
    for (const one of like) context.fillRect(at(one.begin, one.lane.side), one.lane.y, Math.max(one.length * px, 1), one.lane.height);
    context.globalAlpha = 1;
    if (partner) {
      const [upper, lower] = now.lane.y < partner.lane.y ? [now, partner] : [partner, now];
      const middle = (one) => at(one.begin + one.length / 2, one.lane.side);
      box(partner, ink.ink, 1.5);
      context.lineWidth = 1;
      context.setLineDash([3, 2]);
      context.beginPath();
      context.moveTo(middle(upper), upper.lane.y + upper.lane.height);
      context.lineTo(middle(lower), lower.lane.y);
      context.stroke();
      context.setLineDash([]);
    }
    box(now, document.activeElement === figure.plot ? ink.link : ink.ink, 2);
  };

  // The k-th launch of a kernel row of one side, and that of the other; then all of both
  const partnerOf = (figure, event) => {
    if (event.row < 0) return [null, []];
    const of = (side) => figure.lanes.filter((lane) => lane.side.side === side && lane.kind === "gpu")
      .flatMap((lane) => lane.events).filter((one) => one.row === event.row).sort((one, other) => one.begin - other.begin);
    const side = event.lane.side.side, own = of(side), others = of(side === "baseline" ? "candidate" : "baseline");
    return [others[Math.floor((own.indexOf(event) * others.length) / own.length)] ?? null, [...own, ...others]];
  };
  const nearest = (lane, ns) => {
    const far = (one) => Math.max(one.begin - ns, ns - one.begin - one.length, 0);
    return lane.events.reduce((best, one) => (far(one) < far(best) ? one : best), lane.events[0]);
  };

  const frame = (host, figure, names) => {
    decode(figure);
    figure.view = { from: 0, wide: figure.length, shift: 0 };
    const box = element("div", "tl-box"), list = element("div", "tl-names"), scroll = element("div", "tl-scroll");
    list.setAttribute("aria-hidden", "true");
    for (const side of figure.sides) {
      if (names) list.append(Object.assign(element("span", "head", side.side), { style: `top:${side.top}px` }));
      let above = "";
      for (const lane of side.lanes) {
        const name = Object.assign(element("span"), { title: named(lane), style: `top:${lane.y + lane.height / 2}px` });
        const [first, second] = lane.of && lane.name === above ? [element("i", "", `${lane.name}, `), lane.of] : [lane.name, element("i", "", lane.of && `, ${lane.of}`)];
        name.append(first, second); // <i>: where there is little room it falls away
        above = lane.name;
        list.append(name);
      }
    }
    figure.canvas = element("canvas");
    figure.plot = element("div", "tl-plot");
    figure.plot.append(figure.canvas);
    figure.canvas.style.height = `${figure.height + FOOT}px`;
    scroll.append(figure.plot);
    box.append(list, scroll);
    const legend = element("ul", "tl-legend");
    const there = new Set(figure.lanes.flatMap((lane) => lane.events.map((one) => one.group)));
    const hatch = figure.sides.some((side) => beyond(figure, side).length);
    const used = Object.keys(data.groups).filter((one) => there.has(one)).map((key) => [...data.groups[key], strength(figure, key)]);
    for (const [name, ink, opacity] of hatch ? [...used, [...data.beyond, 1]] : used) {
      const entry = element("li", "", name);
      entry.prepend(Object.assign(element("i", "sw"), { style: `background:var(${ink});opacity:${opacity}` }));
      legend.append(entry);
    }
    host.replaceChildren(box, legend);
    new ResizeObserver(() => paint(figure)).observe(figure.canvas);
    drawn.push(figure);
    return { box, scroll, legend };
  };

  const crop = (host) => {
    const figure = data.crops[host.dataset.crop];
    const { box, scroll } = frame(host, figure, false);
    [...host.parentNode.querySelectorAll(".crop-head")].forEach((head, number) => {
      head.style.top = `${figure.sides[number].top}px`;
      box.append(head);
    });
    scroll.querySelector("canvas").setAttribute("role", "img");
    scroll.querySelector("canvas").setAttribute("aria-label", host.dataset.label);
  };

  const timeline = (host) => {
    const figure = data.figures[host.dataset.lanes], outer = host.closest("figure"), { label } = host.dataset;
    const { legend } = frame(host, figure, true), { plot, canvas, view } = figure;
    const read = element("p", "tl-read");
    read.setAttribute("role", "status");
    const rest = [];
    const cut = figure.lanes.some((lane) => lane.kind !== "idle" && lane.events.some((one) => one.begin + one.length >= lane.side.period));
    if (cut) rest.push(element("span", "pc", "\u203a goes on after its step. "));
    if (figure.below) rest.push(element("span", "pc", `Neighbours of one kind shorter than ${figure.below} are one event.`));
    read.append(...rest);
    legend.before(read);
    Object.assign(plot, { tabIndex: 0 });
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-label", `${label}: arrow keys go from event to event`);

    const refresh = () => {
      view.wide = Math.min(Math.max(view.wide, figure.length / NEAREST), figure.length);
      view.from = Math.min(Math.max(view.from, 0), figure.length - view.wide);
      fit.disabled = view.wide === figure.length && !view.shift;
      Object.assign(canvas.dataset, { from: Math.round(view.from), wide: Math.round(view.wide), shift: Math.round(view.shift) });
      paint(figure);
    };
    const zoom = (times, at = 0.5) => {
      const held = view.from + at * view.wide;
      view.wide = Math.min(Math.max(view.wide / times, figure.length / NEAREST), figure.length);
      view.from = held - at * view.wide;
      refresh();
    };
    const whole = () => { Object.assign(view, { from: 0, wide: figure.length, shift: 0 }); refresh(); };
    const show = (event) => {
      figure.now = event;
      Object.assign(plot.dataset, { lane: event ? figure.lanes.indexOf(event.lane) : "", event: event?.number ?? "", row: event?.row ?? "" });
      const [partner] = event ? partnerOf(figure, event) : [null];
      align.disabled = !partner;
      if (event) {
        const words = [element("b", "", event.lane.side.side), ` ${named(event.lane)}, ${said(event, figure.scale)}`];
        if (partner) words.push(" \u2014 matched in the ", element("b", "", partner.lane.side.side), `: ${said(partner, figure.scale)}`);
        read.replaceChildren(...words);
      } else read.replaceChildren(...rest);
      paint(figure);
    };
    const alignHere = () => {
      const [partner] = figure.now ? partnerOf(figure, figure.now) : [null];
      if (!partner) return;
      const [one, other] = figure.now.lane.side.side === "baseline" ? [figure.now, partner] : [partner, figure.now];
      view.shift = one.begin - other.begin;
      refresh();
    };
    const openKernel = () => {
      const row = figure.now && document.getElementById(`kernel-${figure.now.row}`);
      if (!row) return;
      for (let at = row; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
      const details = row.querySelector("details");
      if (details) details.open = true;
      row.scrollIntoView({ block: "center" });
      (row.querySelector("summary") || row).focus({ preventScroll: true });
    };

    // Pointing
    const across = (event) => (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
    const under = (event) => {
      const y = event.clientY - canvas.getBoundingClientRect().top;
      const lane = figure.lanes.find((one) => y >= one.y - 1 && y <= one.y + one.height + 1 && one.events.length);
      if (!lane) return null;
      const ns = view.from + across(event) * view.wide - (lane.side.side === "candidate" ? view.shift : 0);
      const found = nearest(lane, ns), slack = (3 * view.wide) / canvas.clientWidth;
      return ns >= found.begin - slack && ns <= found.begin + found.length + slack ? found : null;
    };
    let held = null; // what was clicked or reached by key stays while the pointer is elsewhere
    let began = null;
    const band = Object.assign(element("i", "band"), { hidden: true });
    plot.append(band);
    plot.addEventListener("pointerdown", (event) => { if (!event.button && event.pointerType !== "touch") began = across(event); });
    plot.addEventListener("pointermove", (event) => {
      const at = Math.min(Math.max(across(event), 0), 1);
      if (began === null || (band.hidden && Math.abs(at - began) * canvas.clientWidth < 5)) {
        const found = under(event);
        if (found !== figure.now) show(found ?? held);
        return;
      }
      if (band.hidden) plot.setPointerCapture(event.pointerId);
      band.hidden = false;
      band.style.left = `${100 * Math.min(at, began)}%`;
      band.style.width = `${100 * Math.abs(at - began)}%`;
    });
    plot.addEventListener("pointerup", (event) => {
      const [from, to] = [began ?? 0, Math.min(Math.max(across(event), 0), 1)].sort((one, other) => one - other);
      const dragged = began !== null && !band.hidden;
      began = null;
      band.hidden = true;
      if (!dragged) return;
      view.from += from * view.wide;
      view.wide *= to - from;
      refresh();
    });
    plot.addEventListener("pointercancel", () => { began = null; band.hidden = true; });
    plot.addEventListener("pointerleave", () => show(held));
    plot.addEventListener("click", (event) => { held = under(event); show(held); });
    plot.addEventListener("dblclick", openKernel);

    // Keys
    plot.addEventListener("focus", () => { if (!held) held = figure.lanes.find((one) => one.events.length)?.events[0] ?? null; show(held); });
    plot.addEventListener("blur", () => paint(figure)); // what was said stays: nothing below it moves under a click
    const next = (key) => {
      const { lane, number, begin, length } = held, lanes = figure.lanes.filter((one) => one.events.length), row = lanes.indexOf(lane);
      if (key === "ArrowRight") return lane.events[number + 1];
      if (key === "ArrowLeft") return lane.events[number - 1];
      if (key === "Home") return lane.events[0];
      if (key === "End") return lane.events.at(-1);
      const other = key === "ArrowDown" ? lanes[row + 1] : key === "ArrowUp" ? lanes[row - 1] : null;
      return other && nearest(other, begin + length / 2);
    };
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "+" || event.key === "=") zoom(2);
      else if (event.key === "-") zoom(0.5);
      else if (event.key === "0") whole();
      else if (event.key === "a") alignHere();
      else if (event.key === "Enter") openKernel();
      else if (/^(Arrow|Home|End)/.test(event.key) && held) {
        held = next(event.key) ?? held;
        const middle = held.begin + held.length / 2 + (held.lane.side.side === "candidate" ? view.shift : 0);
        if (middle < view.from || middle > view.from + view.wide) { view.from = middle - view.wide / 2; refresh(); }
        show(held);
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    // The wheel zooms with Ctrl, or once the figure was clicked; else it scrolls the page
    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== plot) return;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        view.from += ((event.deltaX || event.deltaY) / canvas.clientWidth) * view.wide;
        refresh();
      } else zoom(event.deltaY < 0 ? 1.25 : 0.8, across(event));
    }, { passive: false });

    const button = (text, words, act) => {
      const made = Object.assign(element("button", "", text), { type: "button", title: words });
      made.setAttribute("aria-label", `${words}: ${label}`);
      made.addEventListener("click", act);
      made.addEventListener("pointerdown", (event) => event.preventDefault()); // what is held stays held
      return made;
    };
    const tools = element("span", "tl-zoom");
    const fit = button("Fit", "Show the whole step", whole), align = button("Align", "Align both sides at this kernel", alignHere);
    tools.append(button("\u2212", "Zoom out", () => zoom(0.5)), button("+", "Zoom in", () => zoom(2)), fit);
    if (figure.sides.length > 1) tools.append(align);
    outer.querySelector(".tl-sides").append(tools);
    align.disabled = true;
    refresh();

    // The longest events as a table, for who cannot see the drawing
    const details = element("details", "numbers");
    details.append(element("summary", "", `The ${LONGEST} longest events`));
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const table = element("table", "plain"), head = table.createTHead().insertRow(), body = table.createTBody();
      for (const text of ["Side", "Row", "What", "Length", "At"]) head.append(Object.assign(element("th", "", text), { scope: "col" }));
      const every = figure.lanes.flatMap((lane) => lane.events);
      for (const one of every.sort((a, b) => b.covered - a.covered).slice(0, LONGEST)) {
        const row = body.insertRow(), [word] = data.groups[one.group];
        const what = [`${one.count > 1 ? `${one.count} events, ` : ""}${word}`, one.text !== word ? one.text : ""].filter(Boolean).join(": ");
        for (const text of [one.lane.side.side, named(one.lane), what]) row.insertCell().textContent = text;
        for (const ns of [one.covered, one.begin]) Object.assign(row.insertCell(), { className: "n", textContent: written(ns, figure.scale) });
      }
      const scroll = element("div", "scroll");
      scroll.append(table);
      details.append(scroll);
    });
    legend.after(details);
  };

  // What is closed is set up when it is opened
  const drawn = [];
  const soon = (host, act) => {
    const closed = host.closest("details:not([open])");
    if (!closed) act(host);
    else closed.addEventListener("toggle", () => soon(host, act), { once: true });
  };
  for (const host of document.querySelectorAll("[data-crop]")) soon(host, crop);
  for (const host of document.querySelectorAll("[data-lanes]")) soon(host, timeline);
  const again = () => drawn.forEach(paint);
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", again);
})();
