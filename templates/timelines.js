// Timelines: pointing, arrow keys, partners of matched work, zoom. The drawings are complete without it.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const said = (rect) => rect.querySelector("title").textContent;
  const sideOf = (rect) => rect.closest("[data-side]").dataset.side;
  const setUp = (figure) => {
    const svg = figure.querySelector("svg");
    const scroll = figure.querySelector(".tl-scroll");
    const plot = figure.querySelector(".tl-plot");
    const read = figure.querySelector("[data-read]");
    const rest = [...read.childNodes];
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
    let link = null;
    const clear = () => {
      for (const rect of svg.querySelectorAll(".now, .partner, .like")) rect.classList.remove("now", "partner", "like");
      if (link) link.remove();
      link = null;
    };
    const middle = (rect) => {
      const box = rect.getBBox();
      const y = rect.parentNode.transform.baseVal.consolidate().matrix.f;
      return [box.x + box.width / 2, y, y + box.height];
    };
    const show = (rect) => {
      clear();
      rect.classList.add("now");
      const [partner, like] = partnerOf(rect);
      like.forEach((one) => one.classList.add("like"));
      const words = [document.createElement("b"), ` ${rect.parentNode.dataset.lane}, ${said(rect)}`];
      words[0].textContent = sideOf(rect);
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
    const openKernel = (rect) => {
      const row = rect.dataset.m && document.getElementById(`kernel-${rect.dataset.m}`);
      if (!row) return false;
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
    svg.addEventListener("click", (event) => {
      if (!place.has(event.target)) return;
      enter(event.target);
      event.target.focus({ preventScroll: true });
    });
    svg.addEventListener("dblclick", (event) => { if (place.has(event.target)) openKernel(event.target); });

    const zoom = (factor, at) => {
      const before = plot.offsetWidth;
      const wanted = Math.min(Math.max((before / scroll.clientWidth) * factor, 1), 16);
      const x = at ?? scroll.clientWidth / 2;
      const held = (scroll.scrollLeft + x) / before;
      plot.style.width = `${100 * wanted}%`;
      scroll.scrollLeft = held * plot.offsetWidth - x;
    };
    scroll.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "+" || event.key === "=") zoom(2);
      else if (event.key === "-") zoom(0.5);
      else if (event.key === "Enter" && place.has(event.target)) { if (!openKernel(event.target)) return; }
      else if (place.has(event.target)) {
        const next = target(event.target, event.key);
        if (!next) { if (!/^(Arrow|Home|End)/.test(event.key)) return; } else { enter(next); next.focus(); }
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    scroll.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - scroll.getBoundingClientRect().left);
    }, { passive: false });
    const button = (text, label, factor) => {
      const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, title: label });
      made.setAttribute("aria-label", `${label}: ${svg.getAttribute("aria-label")}`);
      made.addEventListener("click", () => zoom(factor));
      return made;
    };
    const tools = document.createElement("span");
    tools.className = "tl-zoom";
    tools.append(button("−", "Zoom out", 0.5), button("+", "Zoom in", 2));
    figure.querySelector(".tl-sides").append(tools);
  };
  document.querySelectorAll("figure.tl").forEach(setUp);
})();
