// A click on a chart picks a point, the second click another: their measures stand side by side. Two lists do the same from the keyboard.
(() => {
  const digits = (value) => {
    const size = Math.abs(value);
    const places = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
    return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  };
  const written = (value, unit, sign) => {
    const before = value < 0 ? "\u2212" : sign && value > 0 ? "+" : "";
    const size = Math.abs(value);
    if (unit === "count") return before + size.toLocaleString("en", { maximumFractionDigits: 2 });
    if (!size) return "0\u00a0\u00b5s";
    return before + (size < 1e6 ? digits(size / 1e3) + "\u00a0\u00b5s" : size < 1e10 ? digits(size / 1e6) + "\u00a0ms" : digits(size / 1e9) + "\u00a0s");
  };
  for (const section of document.querySelectorAll(".program")) {
    const { points, measures } = JSON.parse(section.querySelector(".values").value);
    if (points.length < 2) continue;
    const place = new Map(points.map(([at], number) => [at, number]));
    const picks = section.querySelector(".picks");
    const table = section.querySelector(".beside");
    const heads = table.tHead.rows[0].cells;
    const charts = [...section.querySelectorAll(".charts figure")];
    const chosen = [place.get(Number(picks.dataset.first)), place.get(Number(picks.dataset.second))];
    let next = 0;
    const lists = ["First", "Second"].map((name, which) => {
      const list = document.createElement("select");
      points.forEach(([, text], number) => list.add(new Option(text, number)));
      list.addEventListener("change", () => { chosen[which] = Number(list.value); show(); });
      const label = document.createElement("label");
      label.append(name + " point ", list);
      picks.append(label);
      return list;
    });
    const marks = charts.map((figure) => ["first", "second"].map((name) => {
      const mark = document.createElement("span");
      mark.className = "at " + name;
      figure.append(mark);
      return mark;
    }));
    const show = () => {
      const body = document.createElement("tbody");
      for (const [name, unit, values] of measures) {
        const [one, other] = chosen.map((number) => values[number]);
        if (one === null && other === null) continue;
        const row = body.insertRow();
        const head = document.createElement("th");
        head.scope = "row";
        head.textContent = name;
        row.append(head);
        for (const value of [one, other]) {
          const cell = row.insertCell();
          cell.className = "n";
          cell.textContent = value === null ? "" : written(value, unit);
        }
        const cell = row.insertCell();
        cell.className = "n";
        if (one !== null && other !== null) {
          const percent = one ? ((other - one) / Math.abs(one)) * 100 : 0;
          const part = one ? ` (${percent > 0 ? "+" : ""}${percent.toFixed(1).replace("-", "\u2212")}\u202f%)` : "";
          cell.textContent = written(other - one, unit, true) + part;
        }
      }
      table.tBodies[0].replaceWith(body);
      chosen.forEach((number, which) => {
        heads[which + 1].textContent = points[number][1].split(",")[0];
        lists[which].value = number;
        charts.forEach((figure, at) => {
          const width = figure.querySelector("svg").viewBox.baseVal.width;
          const x = Number(figure.dataset.left) + number * Number(figure.dataset.step);
          marks[at][which].style.left = (x / width) * figure.querySelector("svg").clientWidth + "px";
        });
      });
    };
    section.querySelector(".charts").classList.add("live");
    for (const figure of charts) {
      const svg = figure.querySelector("svg");
      svg.addEventListener("click", (event) => {
        const box = svg.getBoundingClientRect();
        const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
        const number = Math.round((x - Number(figure.dataset.left)) / Number(figure.dataset.step));
        chosen[next] = Math.min(Math.max(number, 0), points.length - 1);
        next = 1 - next;
        show();
      });
    }
    window.addEventListener("resize", show);
    show();
  }
})();
