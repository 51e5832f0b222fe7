// Timelines: pointing, arrow keys, partners of matched work, zoom. The drawings are complete without it.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 8000; // of a drawing; THINNEST: an event is pointed at as if it were this wide
  const THINNEST = 6;
  const NEAREST = 64; // times that a drawing can be magnified
  const said = (rect) => rect.querySelector("title").textContent;
  const sideOf = (rect) => rect.closest("[data-side]").dataset.side;
  const svgOf = (figure) => figure.querySelector(".tl-plot svg");

  // Events: see `Row.packed` in report/timelines.py
  const written = (ns, [factor, decimals, unit]) => {
    if (!ns) return `0\u00a0${unit}`;
    const least = 10 ** -decimals;
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    const number = ns / factor < least / 2 ? `<${least.toFixed(decimals)}` : (ns / factor).toLocaleString("en-US", digits);
    return `${number}\u00a0${unit}`;
  };
  const fill = (svg) => {
    const length = Number(svg.dataset.length);
    const [factor, decimals, unit] = svg.dataset.scale.split(",");
    const scale = [Number(factor), Number(decimals), unit];
    const texts = svg.dataset.texts.split("\n");
    for (const lane of svg.querySelectorAll("g.ev[data-e]")) {
      let begin = 0;
      const events = lane.dataset.e.split(" ").map((event) => {
        const [after, long, text, row = 0, many = 0, covered = 0] = event.split(",").map((one) => parseInt(one, 36));
        begin += after;
        const x = Math.min(Math.floor((WIDTH * begin) / length), WIDTH - THINNEST);
        const width = Math.min(Math.max(Math.ceil((WIDTH * long) / length), THINNEST), WIDTH - x);
        return { begin, x, width, row, words: `${many ? `${many} events, ` : ""}${texts[text]}`, covered: covered || long };
      });
      events.forEach((event, at) => {
        const next = events[at + 1] ? events[at + 1].x : WIDTH;
        // what was widened to be seen must not lie over the next one
        const width = next > event.x ? Math.max(Math.min(event.width, next - event.x), 1) : event.width;
        const rect = document.createElementNS(SVG, "rect");
        rect.setAttribute("x", event.x);
        rect.setAttribute("width", width);
        if (event.row) rect.dataset.m = event.row - 1;
        const title = document.createElementNS(SVG, "title");
        const fine = event.covered < 100000 ? [1000, 2, "\u00b5s"] : scale;
        title.textContent = `${event.words}; ${written(event.covered, fine)} at ${written(event.begin, scale)}`;
        rect.append(title);
        lane.append(rect);
      });
      lane.removeAttribute("data-e");
    }
  };

  const setUp = (figure) => {
    const svg = svgOf(figure);
    const scroll = figure.querySelector(".tl-scroll");
    const plot = figure.querySelector(".tl-plot");
    const over = figure.querySelector(".tl-over");
    const read = figure.querySelector("[data-read]");
    const rest = [...read.childNodes];
    fill(svg);
    const lanes = [...svg.querySelectorAll("g.ev")].map((lane) => [...lane.children]);
    if (!lanes.length) return;
    const place = new Map();
    lanes.forEach((lane, row) => lane.forEach((rect, column) => place.set(rect, [row, column])));
    const rows = new Map(); // kernel row -> side -> its rectangles, in order of time
    for (const rect of svg.querySelectorAll("rect[data-m]")) {
      const sides = rows.get(rect.dataset.m) || {};
      (sides[sideOf(rect)] ||= []).push(rect);
      rows.set(rect.dataset.m, sides);
    }
    const partnerOf = (rect) => {
      const sides = rows.get(rect.dataset.m);
      if (!sides) return [null, []];
      const own = sides[sideOf(rect)];
      const others = sides[sideOf(rect) === "baseline" ? "candidate" : "baseline"] || [];
      return [others[Math.floor((own.indexOf(rect) * others.length) / own.length)] || null, [...own, ...others]];
    };

    // What is seen: from `from`, `wide` of WIDTH; the candidate is moved by `shift`
    const view = { from: 0, wide: WIDTH, shift: 0 };
    const length = Number(svg.dataset.length);
    const [factor, , unit] = svg.dataset.scale.split(",");
    const height = svg.viewBox.baseVal.height;
    const ticks = () => {
      const low = (view.from / WIDTH) * length;
      const span = (view.wide / WIDTH) * length;
      const rough = span / 7;
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
      for (const old of svg.querySelectorAll(".tick")) old.remove();
      for (const old of over.querySelectorAll(":scope > b")) old.remove();
      const marks = [];
      for (let at = Math.ceil(low / step) * step; at <= low + 0.985 * span; at += step) marks.push(at);
      marks.forEach((at, number) => {
        const line = document.createElementNS(SVG, "path");
        line.setAttribute("class", "tick");
        line.setAttribute("d", `M${(WIDTH * at) / length} 0v${height}`);
        svg.prepend(line);
        const text = Number((at / factor).toPrecision(9)).toLocaleString("en-US", { maximumFractionDigits: 6 });
        const label = document.createElement("b");
        label.textContent = number === marks.length - 1 ? `${text} ${unit}` : text;
        label.style.cssText = `left:${(100 * at) / length}%;top:${height + 3}px`;
        over.append(label);
      });
    };
    const paint = () => {
      view.wide = Math.min(Math.max(view.wide, WIDTH / NEAREST), WIDTH);
      view.from = Math.min(Math.max(view.from, 0), WIDTH - view.wide);
      svg.setAttribute("viewBox", `${view.from} 0 ${view.wide} ${height}`);
      const times = WIDTH / view.wide;
      over.style.cssText = times === 1 ? "" : `left:${(-100 * view.from * times) / WIDTH}%;right:auto;width:${100 * times}%`;
      plot.classList.toggle("near", times > 1);
      ticks();
      const moved = svg.querySelector("g[data-side=candidate]");
      if (moved) moved.setAttribute("transform", `translate(${view.shift} 0)`);
      const words = over.querySelector("div[data-side=candidate]");
      if (words) words.style.transform = view.shift ? `translateX(${(100 * view.shift) / WIDTH}%)` : "";
      fit.disabled = times === 1 && !view.shift;
    };
    const zoom = (times, at = 0.5) => {
      const held = view.from + at * view.wide;
      view.wide = Math.min(Math.max(view.wide / times, WIDTH / NEAREST), WIDTH);
      view.from = held - at * view.wide;
      paint();
    };
    const across = (event) => (event.clientX - plot.getBoundingClientRect().left) / plot.clientWidth;

    let link = null;
    const clear = () => {
      for (const rect of svg.querySelectorAll(".now, .partner, .like")) rect.classList.remove("now", "partner", "like");
      if (link) link.remove();
      link = null;
    };
    const middle = (rect) => {
      const box = rect.getBBox();
      const y = rect.parentNode.transform.baseVal.consolidate().matrix.f;
      return [box.x + box.width / 2 + (sideOf(rect) === "candidate" ? view.shift : 0), y, y + box.height];
    };
    let current = null;
    const show = (rect) => {
      clear();
      current = rect;
      rect.classList.add("now");
      const [partner, like] = partnerOf(rect);
      like.forEach((one) => one.classList.add("like"));
      const words = [document.createElement("b"), ` ${rect.parentNode.dataset.lane}, ${said(rect)}`];
      words[0].textContent = sideOf(rect);
      align.disabled = !partner;
      if (partner) {
        partner.classList.add("partner");
        const [upper, lower] = sideOf(rect) === "baseline" ? [rect, partner] : [partner, rect];
        const [x1, , bottom] = middle(upper);
        const [x2, top] = middle(lower);
        link = document.createElementNS(SVG, "path");
        link.setAttribute("class", "link");
        link.setAttribute("d", `M${x1} ${bottom}L${x2} ${top}`);
        svg.append(link);
        const name = document.createElement("b");
        name.textContent = sideOf(partner);
        words.push(" — matched in the ", name, `: ${said(partner)}`);
      }
      read.replaceChildren(...words);
    };
    const reset = () => { clear(); read.replaceChildren(...rest); };
    svg.addEventListener("pointerover", (event) => { if (place.has(event.target)) show(event.target); });
    svg.addEventListener("pointerleave", () => {
      const focused = document.activeElement;
      if (place.has(focused)) show(focused); else reset();
    });

    // One tab stop a figure; the arrows move it
    let stop = lanes[0][0];
    const enter = (rect) => {
      stop.removeAttribute("tabindex");
      stop = rect;
      stop.setAttribute("tabindex", "0");
      stop.setAttribute("role", "img");
      stop.setAttribute("aria-label", `${sideOf(stop)}, ${stop.parentNode.dataset.lane}: ${said(stop)}`);
    };
    const nearest = (lane, rect) => {
      const x = middle(rect)[0];
      return lane.reduce((best, one) => (Math.abs(middle(one)[0] - x) < Math.abs(middle(best)[0] - x) ? one : best));
    };
    const target = (rect, key) => {
      const [row, column] = place.get(rect);
      if (key === "ArrowRight") return lanes[row][column + 1];
      if (key === "ArrowLeft") return lanes[row][column - 1];
      if (key === "Home") return lanes[row][0];
      if (key === "End") return lanes[row].at(-1);
      const next = key === "ArrowDown" ? lanes[row + 1] : key === "ArrowUp" ? lanes[row - 1] : null;
      return next && nearest(next, rect);
    };
    const intoView = (rect) => {
      const x = middle(rect)[0];
      if (x >= view.from && x <= view.from + view.wide) return;
      view.from = x - view.wide / 2;
      paint();
    };
    const openKernel = (rect) => {
      const row = rect.dataset.m && document.getElementById(`kernel-${rect.dataset.m}`);
      if (!row) return false;
      for (let at = row; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
      const details = row.querySelector("details");
      if (details) details.open = true;
      row.scrollIntoView({ block: "center" });
      (row.querySelector("summary") || row).focus({ preventScroll: true });
      return true;
    };
    enter(stop);
    // on the box around it: Chromium makes an svg with listeners for focus a tab stop
    plot.addEventListener("focusin", (event) => { if (place.has(event.target)) show(event.target); });
    plot.addEventListener("focusout", (event) => { if (!svg.contains(event.relatedTarget)) reset(); });
    svg.addEventListener("dblclick", (event) => { if (place.has(event.target)) openKernel(event.target); });

    // A drag selects what is to be seen; a click without one goes to the event
    let began = null;
    const band = Object.assign(document.createElement("i"), { className: "band", hidden: true });
    plot.append(band);
    plot.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch") return;
      began = across(event);
    });
    plot.addEventListener("pointermove", (event) => {
      if (began === null) return;
      const at = Math.min(Math.max(across(event), 0), 1);
      if (band.hidden && Math.abs(at - began) * plot.clientWidth < 5) return;
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
      paint();
    });
    plot.addEventListener("pointercancel", () => { began = null; band.hidden = true; });
    svg.addEventListener("click", (event) => {
      if (!place.has(event.target)) return;
      enter(event.target);
      event.target.focus({ preventScroll: true });
    });

    const whole = () => { Object.assign(view, { from: 0, wide: WIDTH, shift: 0 }); paint(); };
    const alignHere = () => {
      const rect = current;
      const [partner] = rect ? partnerOf(rect) : [null];
      if (!partner) return;
      const [one, other] = sideOf(rect) === "baseline" ? [rect, partner] : [partner, rect];
      view.shift = one.x.baseVal.value - other.x.baseVal.value;
      paint();
      show(rect);
    };
    scroll.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "+" || event.key === "=") zoom(2);
      else if (event.key === "-") zoom(0.5);
      else if (event.key === "0") whole();
      else if (event.key === "a" && place.has(event.target)) alignHere();
      else if (event.key === "Enter" && place.has(event.target)) { if (!openKernel(event.target)) return; }
      else if (place.has(event.target)) {
        const next = target(event.target, event.key);
        if (!next) { if (!/^(Arrow|Home|End)/.test(event.key)) return; } else { intoView(next); enter(next); next.focus(); }
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    // The wheel zooms with Ctrl, or once the drawing was clicked; else it scrolls the page
    scroll.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !scroll.contains(document.activeElement)) return;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        view.from += ((event.deltaX || event.deltaY) / plot.clientWidth) * view.wide;
        paint();
      } else zoom(event.deltaY < 0 ? 1.25 : 0.8, across(event));
    }, { passive: false });
    const button = (text, label, act) => {
      const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, title: label });
      made.setAttribute("aria-label", `${label}: ${svg.getAttribute("aria-label")}`);
      made.addEventListener("click", act);
      return made;
    };
    const tools = document.createElement("span");
    tools.className = "tl-zoom";
    const fit = button("Fit", "Show the whole step", whole);
    const align = button("Align", "Align both sides at this kernel", alignHere);
    align.disabled = true;
    fit.disabled = true;
    tools.append(button("−", "Zoom out", () => zoom(0.5)), button("+", "Zoom in", () => zoom(2)), fit);
    if (rows.size && svg.querySelector("g[data-side=candidate]")) tools.append(align);
    figure.querySelector(".tl-sides").append(tools);
  };

  // What is closed is set up when it is opened
  for (const figure of document.querySelectorAll("figure.tl")) {
    const closed = figure.closest("details:not([open])");
    if (!closed) setUp(figure);
    else closed.addEventListener("toggle", () => setUp(figure), { once: true });
  }
})();
