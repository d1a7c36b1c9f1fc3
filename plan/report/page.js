/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the page of a report: of each plan what html.c says of it, one below the other where there are two. */
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const plans = data.plans, several = plans.length > 1, timed = plans.filter(plan => plan.time);
const colors = ["#4477aa", "#ee6677", "#ccbb44", "#66ccee", "#228833", "#aa3377", "#999999", "#332288", "#dd7733"];
const meshColors = ["#332288", "#117733", "#aa4499", "#cc6633", "#44aa99", "#882255", "#6699cc", "#666633"];
const letters = ["A", "B"];

/* ---- words ---- */
const scaled = (value, step, units) => {
  let unit = 0;
  while (Math.abs(value) >= step * 0.9995 && unit + 1 < units.length) { value /= step; unit++; }
  return (Math.abs(value) >= 100 || value === 0 ? value.toFixed(0) : value.toPrecision(3)) + " " + units[unit];
};
const bytes = value => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const count = value => Number.isInteger(value) && value < 10000 ? String(value) : scaled(value, 1000, ["", "k", "M", "B", "T"]).trim();
const seconds = value => value === 0 ? "0 s" : value >= 0.9995 ? value.toPrecision(3) + " s" : scaled(value * 1e6, 1000, ["us", "ms"]);
const percent = value => (100 * value).toFixed(1) + " %";
const ranges = list => {
  const parts = [];
  for (let i = 0; i < list.length; i += 2) parts.push(list[i] === list[i + 1] ? list[i] : list[i] + " to " + list[i + 1]);
  return parts.join(", ");
};

/* ---- elements ---- */
const page = document.getElementById("page"), tip = document.getElementById("tip");
const add = (to, name, text, kind) => {
  const made = to.appendChild(document.createElement(name));
  if (text !== undefined && text !== null) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const section = (title, note) => {
  const made = add(page, "section");
  add(made, "h2", title);
  if (note) add(made, "p", note);
  return made;
};
const of = (to, plan) => several ? add(to, "h3", `${letters[plans.indexOf(plan)]}: ${plan.name}`) : null;
const key = (to, names, from) => {
  const made = add(to, "div", undefined, "key");
  names.forEach((name, i) => {
    add(made, "span").style.background = (from || colors)[i % colors.length];
    made.append(name);
  });
  return made;
};
const table = (to, heads, kinds) => {
  const made = add(add(to, "div", undefined, "scroll"), "table"), head = add(made, "tr");
  heads.forEach((name, i) => add(head, "th", name, (kinds || ["text"])[i] || ""));
  return made;
};
const say = (event, text) => {
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = event.clientY + 14 + "px";
};

/* ---- canvases: all are drawn again when the window changes ---- */
const drawn = [];
const canvas = (to, height, draw, kind) => {
  const made = add(to, "canvas", undefined, kind || "wide");
  made.tall = height;
  drawn.push(() => {
    const ratio = window.devicePixelRatio || 1;
    made.style.height = made.tall + "px";
    const pen = made.getContext("2d"), width = made.clientWidth || 1000;
    made.width = width * ratio;
    made.height = made.tall * ratio;
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    draw(pen, width, made.tall, made);
  });
  made.addEventListener("mouseleave", event => say(event, ""));
  return made;
};
const redraw = () => drawn.forEach(draw => draw());
const label = (pen, text, x, y, most) => {
  while (most && text.length > 2 && pen.measureText(text).width > most) text = text.slice(0, -2) + "\u2026";
  pen.fillText(text, x, y);
};
const nice = (from, to, most) => {
  const raw = (to - from) / most, power = Math.pow(10, Math.floor(Math.log10(raw || 1)));
  const step = [1, 2, 5, 10].find(one => one * power >= raw) * power, ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-6; i++) ticks.push(i * step);
  return ticks;
};

/* ---- at the top ---- */
const card = (to, name, value, below, share) => {
  const made = add(to, "div", undefined, "card");
  add(made, "span", name, "name");
  add(made, "b", value);
  if (share !== undefined) {
    const fill = add(add(made, "div", undefined, "meter"), "div");
    fill.style.width = Math.min(100, 100 * share) + "%";
    if (share > 1) fill.style.background = "#ee6677";
  }
  add(made, "i", below);
};
const showTop = () => {
  document.title = add(page, "h1", several ? "Two plans" : plans[0].text.split("\n")[0]).textContent;
  for (const plan of plans) {
    of(page, plan);
    if (several) add(page, "p", plan.text.split("\n")[0]);
    const cards = add(page, "div", undefined, "cards"), time = plan.time;
    if (time) {
      card(cards, "predicted step", seconds(time.step), `${seconds(time.low)} to ${seconds(time.high)}`);
      card(cards, "predicted " + time.item + "/s", count(time.rate), count(time.rate / plan.ranks) + " a device");
      card(cards, "predicted MFU", percent(time.mfu), "of the peak", time.mfu);
      if (plan.stages.length > 1) card(cards, "bubble", percent(time.bubble), "the mean over stages", time.bubble);
    }
    card(cards, "memory of a rank", bytes(plan.reserved), plan.device ? "of " + bytes(plan.device) : "of a processor",
         plan.device ? plan.reserved / plan.device : undefined);
    if (!data.logs.length) showText(plan, !several);
  }
};
const showText = (plan, open) => {
  const text = add(page, "details");
  text.open = open;
  add(text, "summary", "the report of the plan as text (dtc explain NAME says what each number is)");
  add(text, "pre", plan.text);
};
const showRows = () => {
  if (!several) return;
  const rows = table(section("Compared", data.warning), ["", "A", "B", "B against A"]);
  for (const [name, a, b, change] of data.rows) {
    const tr = add(rows, "tr"), good = /\/s|MFU|HFU/.test(name);
    add(tr, "td", name, "text");
    add(tr, "td", a);
    add(tr, "td", b);
    add(tr, "td", change || "same", change ? (change.startsWith("-") === good ? "more" : "less") : "dim");
  }
};

/* ---- charts of a run ---- */
const LEFT = 108, FOOT = 20;
/* Of each point the mean of those around it. */
const smooth = points => {
  const half = Math.max(2, Math.round(points.length / 60)), sums = [0];
  points.forEach((point, i) => sums.push(sums[i] + point[1]));
  return points.map(([x], i) => {
    const first = Math.max(0, i - half), last = Math.min(points.length, i + half + 1);
    return [x, (sums[last] - sums[first]) / (last - first)];
  });
};
const chart = (to, series, words, band) => {
  const all = series.flatMap(one => one.points), xs = all.map(point => point[0]);
  const ys = all.map(point => point[1]).concat(band || []).sort((a, b) => a - b);
  const at = share => ys[Math.min(ys.length - 1, Math.floor(share * ys.length))];
  const x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1), pad = (at(0.99) - at(0)) * 0.06 || Math.abs(at(0)) * 0.1 || 1;
  const y0 = words.zero ? 0 : at(0) - pad, y1 = Math.max(at(0.99), band ? band[1] : -Infinity) + pad;
  let area = { width: 1000, height: 260 };
  const X = x => LEFT + (x - x0) / (x1 - x0) * (area.width - LEFT - 12);
  const Y = y => 8 + (1 - (y - y0) / (y1 - y0)) * (area.height - FOOT - 8);
  const line = (pen, points, color, thick) => {
    pen.strokeStyle = color;
    pen.lineWidth = thick;
    pen.beginPath();
    points.forEach(([x, y], i) => pen[i ? "lineTo" : "moveTo"](X(x), Math.max(1, Y(y))));
    pen.stroke();
  };
  const made = canvas(to, words.tall || 260, (pen, width, height) => {
    area = { width, height };
    pen.strokeStyle = "#eee";
    pen.lineWidth = 1;
    pen.fillStyle = "#666";
    for (const y of nice(y0, y1, 6)) {
      pen.strokeRect(LEFT, Math.round(Y(y)) + 0.5, width - LEFT - 12, 0);
      label(pen, words.unit(y), 6, Y(y) + 4);
    }
    for (const x of nice(x0, x1, 8)) label(pen, count(x), Math.min(X(x) - 8, width - 34), height - 5);
    label(pen, "step", LEFT - 34, height - 5);
    if (band) {
      pen.fillStyle = "rgba(204, 187, 68, 0.25)";
      pen.fillRect(LEFT, Y(band[1]), width - LEFT - 12, Math.max(1, Y(band[0]) - Y(band[1])));
    }
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT, height - FOOT);
    pen.clip();
    for (const one of series) {
      const faint = words.smooth && one.points.length > 60 && !one.dots;
      line(pen, one.points, faint ? one.color + "55" : one.color, faint ? 1 : 1.6);
      if (faint) line(pen, smooth(one.points), one.color, 2);
      pen.fillStyle = one.color;
      for (const [x, y] of one.dots ? one.points : []) {
        pen.beginPath();
        pen.arc(X(x), Y(y), 3, 0, 7);
        pen.fill();
      }
    }
    pen.restore();
  });
  made.addEventListener("mousemove", event => {
    const x = x0 + (event.offsetX - LEFT) / (area.width - LEFT - 12) * (x1 - x0);
    const lines = series.map(one => {
      const near = one.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a, one.points[0]);
      return `${one.name}: ${words.unit(near[1])} at step ${near[0]}`;
    });
    say(event, event.offsetX < LEFT ? "" : lines.join("\n"));
  });
  key(to, series.map(one => one.name).concat(band ? ["predicted, four times in five"] : []),
      series.map(one => one.color).concat(band ? ["#f2eed0"] : []));
  return made;
};
/* Of a run: steps, the last losses and evaluations, and how long its steps took in the median. */
const showRunCards = (to, log) => {
  const small = value => Number(value.toPrecision(4)).toString(), cards = add(to, "div", undefined, "cards");
  if (data.logs.length > 1) add(cards, "div", log.name, "card");
  for (const curve of log.curves.filter(one => one.kind !== "lr" && one.kind !== "norm" && one.points.length)) {
    const [first, last] = [curve.points[0], curve.points[curve.points.length - 1]];
    if (curve.kind === "seconds")
      card(cards, "measured step", seconds(curve.median), "the median of " + count(curve.n) + " steps");
    else if (curve.kind === "loss")
      card(cards, curve.name, small(last[1]), `at step ${last[0]}, ${small(first[1])} at step ${first[0]}`);
    else
      card(cards, "evaluation: " + curve.name, small(last[1]), "after step " + last[0]);
  }
};
const showRuns = () => {
  if (!data.logs.length) return;
  const to = section(data.logs.length > 1 ? "Runs" : "Run");
  const series = kinds => {
    const found = data.logs.flatMap(log => log.curves.filter(curve => kinds.includes(curve.kind) && curve.points.length)
      .map(curve => ({ log, curve })));
    return found.map(({ log, curve }, i) => ({
      name: (data.logs.length > 1 ? log.name + " " : "") + (curve.kind === "eval" ? "evaluation: " : "") + curve.name,
      color: colors[i % colors.length], points: curve.points, dots: curve.kind === "eval" && curve.points.length < 60 }));
  };
  const losses = series(["loss", "eval"]), metrics = series(["metric"]), times = series(["seconds"]), rates = series(["lr"]);
  const small = value => Number(value.toPrecision(4)).toString();
  for (const log of data.logs) {
    const odd = log.curves.filter(curve => curve.kind === "loss").reduce((sum, curve) => sum + curve.odd, 0);
    if (odd) add(to, "p", `${log.name}: ${odd} losses are no numbers (infinite, or not a number); they are left out.`);
    if (!plans.some(plan => plan.model === log.model && plan.ranks === log.ranks))
      add(to, "p", `${log.name} is of ${log.model} on ${log.ranks} ranks, not of this plan: its times do not compare.`);
  }
  for (const log of data.logs) showRunCards(to, log);
  add(to, "h3", "loss");
  if (losses.length) chart(to, losses, { unit: small, smooth: true });
  if (metrics.length) { add(to, "h3", "metrics of the evaluation"); chart(to, metrics, { unit: small, tall: 160 }); }
  add(to, "h3", "seconds a step");
  const band = !several && plans[0].time ? [plans[0].time.low, plans[0].time.high] : null;
  if (times.length) chart(to, times, { unit: seconds, tall: 180, zero: true, smooth: true }, band);
  if (timed.length) {
    const rows = table(to, ["", "measured (median)", "predicted", "predicted, four times in five", "off by"]);
    for (const log of data.logs)
      for (const plan of timed.filter(plan => plan.model === log.model && plan.ranks === log.ranks)) {
        const curve = log.curves.find(curve => curve.kind === "seconds"), tr = add(rows, "tr");
        if (!curve) continue;
        add(tr, "td", log.name + (several ? " and " + letters[plans.indexOf(plan)] : ""), "text");
        add(tr, "td", seconds(curve.median));
        add(tr, "td", seconds(plan.time.step));
        add(tr, "td", seconds(plan.time.low) + " to " + seconds(plan.time.high));
        const off = plan.time.step / curve.median - 1;
        add(tr, "td", (off > 0 ? "+" : "") + percent(off));
      }
  }
  if (rates.length) { add(to, "h3", "learning rate"); chart(to, rates, { unit: small, tall: 110, zero: true }); }
  for (const plan of plans) { of(page, plan); showText(plan, false); }
};

/* ---- the step ---- */
const kinds = ["forward", "backward", "weight gradients", "micro-batch"];
const whole = Math.max(...timed.map(plan => plan.slices.shown));
let from = 0, to = whole;
const unpack = (flat, tick, names) => {
  const list = [];
  for (let i = 0; i < flat.length; i += 5) {
    const [a, b, c, d, e] = flat.slice(i, i + 5);
    list.push(names === "piece" ? { stage: a, begin: b * tick, end: (b + c) * tick, kind: d, micro: e }
                                : { stage: a, row: b, begin: c * tick, end: (c + d) * tick, what: e });
  }
  return list;
};
const at = (time, width) => LEFT + (time - from) / (to - from) * (width - LEFT);
const timeAt = (event, made) => from + (event.offsetX - LEFT) / (made.clientWidth - LEFT) * (to - from);
const drawTimes = (pen, width, height) => {
  pen.fillStyle = "#666";
  for (const time of nice(from, to, 8)) {
    pen.fillRect(at(time, width), height - FOOT, 1, 4);
    label(pen, seconds(time), Math.min(width - 54, at(time, width) + 3), height - 6);
  }
};
const drawSlices = (pen, width, slices, place, color) => {
  for (const slice of slices) {
    if (slice.end < from || slice.begin > to) continue;
    const [top, tall] = place(slice), x = Math.max(LEFT, at(slice.begin, width));
    pen.fillStyle = color(slice);
    pen.fillRect(x, top, Math.max(0.3, Math.min(width, at(slice.end, width)) - x - (to - from < whole ? 0.4 : 0.2)), tall);
  }
};
const move = made => {
  made.addEventListener("wheel", event => {
    event.preventDefault();
    const center = timeAt(event, made), by = event.deltaY > 0 ? 1.25 : 0.8;
    from = Math.max(0, center - (center - from) * by);
    to = Math.min(whole, center + (to - center) * by);
    redraw();
  }, { passive: false });
  made.addEventListener("dblclick", () => { from = 0; to = whole; redraw(); });
  made.addEventListener("mousemove", event => {
    const by = -event.movementX / (made.clientWidth - LEFT) * (to - from);
    if (event.buttons !== 1 || from + by < 0 || to + by > whole) return;
    from += by;
    to += by;
    redraw();
  });
};
const showLine = (to, plan) => {
  const n = plan.stages.length, height = Math.max(52, Math.min(440, 34 * n)) + FOOT, each = (height - FOOT) / n;
  const made = canvas(to, height, (pen, width) => {
    drawSlices(pen, width, plan.pieces, slice => [slice.stage * each + 0.5, Math.max(1, each - 1)], slice => colors[slice.kind]);
    pen.fillStyle = "#222";
    for (let stage = 0; stage < n; stage += Math.ceil(n / 20)) {
      pen.fillStyle = stage === plan.chosen ? "#000" : "#666";
      label(pen, (stage === plan.chosen && n > 1 ? "\u25b8 " : "") + "stage " + stage, 6, stage * each + Math.max(9, each / 2 + 4));
    }
    drawTimes(pen, width, height);
  });
  move(made);
  made.addEventListener("mousemove", event => {
    const time = timeAt(event, made), stage = Math.floor(event.offsetY / each);
    const slice = plan.pieces.find(s => s.stage === stage && s.begin <= time && time <= s.end);
    say(event, slice ? `stage ${stage}: ${kinds[slice.kind]}, micro-batch ${slice.micro}, ${seconds(slice.end - slice.begin)}` : "");
  });
  made.addEventListener("click", event => {
    const stage = Math.floor(event.offsetY / each);
    if (stage < n) plan.choose(stage);
  });
};
const showStage = (to, plan) => {
  const tall = 19, insts = () => plan.insts.filter(slice => slice.stage === plan.chosen);
  const rowsOf = list => [...new Set(list.map(slice => slice.row))].sort((a, b) => a - b);
  const place = rows => slice => [rows.indexOf(slice.row) * tall + 1, tall - 2];
  const made = canvas(to, 100, (pen, width, height) => {
    const list = insts(), rows = rowsOf(list);
    const repeated = plan.pieces.filter(slice => slice.stage === plan.chosen);
    drawSlices(pen, width, repeated, () => [1, tall - 2], () => "#e3e3e3");
    drawSlices(pen, width, list, place(rows), slice => colors[plan.slices.whats[slice.what][1] % colors.length]);
    pen.fillStyle = "#222";
    rows.forEach((row, i) => label(pen, plan.slices.rows[row].replace("collectives over", "over"), 6, i * tall + 13, LEFT - 10));
    drawTimes(pen, width, height);
  });
  plan.resize = () => { made.tall = Math.max(1, rowsOf(insts()).length) * tall + FOOT; };
  plan.resize();
  move(made);
  made.addEventListener("mousemove", event => {
    const time = timeAt(event, made), list = insts(), rows = rowsOf(list), row = rows[Math.floor(event.offsetY / tall)];
    const slice = list.find(s => s.row === row && s.begin <= time && time <= s.end);
    const what = slice && plan.slices.whats[slice.what];
    const again = row === 0 && plan.pieces.some(s => s.stage === plan.chosen && s.begin <= time && time <= s.end);
    say(event, slice ? `${what[0].trim()}\n${plan.times[what[1]][0]}, ${seconds(slice.end - slice.begin)}`
                     : again ? "the same as where it is drawn" : "");
  });
};
const showUse = (to, plan) => {
  const height = 130;
  const made = canvas(to, height, (pen, width) => {
    const { use, still } = plan.stages[plan.chosen], have = plan.stages[plan.chosen].device;
    const most = use.reduce((most, point) => Math.max(most, point[1]), still) * 1.12 || 1;
    const y = bytes => (height - FOOT) * (1 - bytes / most);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT, height - FOOT);
    pen.clip();
    pen.beginPath();
    pen.moveTo(at(0, width), height);
    let last = still;
    for (const [time, value] of use) {
      pen.lineTo(at(time, width), y(last));
      pen.lineTo(at(time, width), y(value));
      last = value;
    }
    pen.lineTo(at(plan.time.step, width), y(last));
    pen.lineTo(at(plan.time.step, width), height);
    pen.fillStyle = "#4477aa";
    pen.fill();
    pen.fillStyle = "#99aabb";
    pen.fillRect(LEFT, y(still), width, height);
    pen.restore();
    pen.fillStyle = "#222";
    label(pen, bytes(most / 1.12), 6, y(most / 1.12) + 4);
    if (!use.length) label(pen, "not worked out for this stage", LEFT + 20, height / 2);
    label(pen, bytes(still), 6, Math.max(y(still), y(most / 1.12) + 14) + 4);
    if (have) label(pen, "the device has " + bytes(have), width - 150, 12);
    drawTimes(pen, width, height);
  });
  move(made);
  made.addEventListener("mousemove", event => {
    const time = timeAt(event, made), use = plan.stages[plan.chosen].use;
    const before = use.filter(point => point[0] <= time);
    say(event, event.offsetX < LEFT || !before.length ? "" : bytes(before[before.length - 1][1]) + " at " + seconds(time));
  });
};
const showStep = () => {
  if (!timed.length) return;
  const top = section("The step", "Wheel: zoom. Drag: move. Double click: all of it." +
    (plans.some(plan => plan.stages.length > 1) ? " Click on a stage: what it does." : ""));
  const used = new Set(timed.flatMap(plan => plan.pieces.map(slice => slice.kind)));
  key(top, kinds.filter((_, i) => used.has(i)), colors.filter((_, i) => used.has(i)));
  for (const plan of timed) {
    of(top, plan);
    if (plan.slices.shown < plan.time.step) add(top, "p", `Of the step's ${seconds(plan.time.step)} the first are drawn.`);
    showLine(top, plan);
  }
  const below = section("What a stage does, and its memory",
    "Each instruction is drawn where it runs for the first time; its repetitions are grey. Below: bytes in use; grey: tensors that live through the whole step.");
  const names = timed[0].times.map(time => time[0]), parts = new Set(timed.flatMap(plan => plan.slices.whats.map(what => what[1])));
  key(below, names.filter((_, i) => parts.has(i)), colors.filter((_, i) => parts.has(i)));
  for (const plan of timed) {
    of(below, plan);
    const choice = plan.stages.length > 1 ? add(below, "select") : null;
    plan.stages.forEach((_, i) => {
      const drawnHere = plan.insts.some(slice => slice.stage === i) ? "" : " (pieces only)";
      if (choice) add(choice, "option", `stage ${i}${i === plan.worst ? ", most memory" : ""}${i === plan.time.busiest ? ", busiest" : ""}${drawnHere}`);
    });
    plan.choose = stage => {
      plan.chosen = stage;
      if (choice) choice.selectedIndex = stage;
      plan.resize();
      redraw();
    };
    if (choice) choice.addEventListener("change", () => plan.choose(choice.selectedIndex));
    if (choice) choice.selectedIndex = plan.chosen;
    showStage(below, plan);
    showUse(below, plan);
  }
};

/* ---- memory ---- */
const showMemory = () => {
  const to = section("Memory of a rank, by stage"), names = Object.keys(plans[0].stages[0].memory);
  key(to, names);
  const sum = stage => names.reduce((all, name) => all + stage.memory[name], 0);
  const stages = plans.flatMap(plan => plan.stages), have = Math.max(...stages.map(stage => stage.device));
  const most = Math.max(...stages.map(sum)), top = (have > 3 * most ? most : Math.max(have, most)) * 1.06 || 1;
  for (const plan of plans) {
    of(to, plan);
    const n = plan.stages.length, tall = n > 16 ? Math.max(3, 300 / n) : 22, height = tall * n + FOOT;
    const X = (value, width) => LEFT + value / top * (width - LEFT - 70);
    const made = canvas(to, height, (pen, width) => {
      plan.stages.forEach((stage, i) => {
        let x = 0;
        names.forEach((name, k) => {
          pen.fillStyle = colors[k % colors.length];
          pen.fillRect(X(x, width), i * tall + 1, X(x + stage.memory[name], width) - X(x, width), Math.max(1, tall - 2));
          x += stage.memory[name];
        });
        pen.fillStyle = "#222";
        if (tall >= 12) label(pen, bytes(x), X(x, width) + 5, i * tall + tall / 2 + 4);
        if (i % Math.ceil(n / 20) === 0) label(pen, n > 1 ? "stage " + i : "all ranks", 6, i * tall + Math.max(9, tall / 2 + 4));
        pen.fillStyle = "#c0392b";
        if (stage.device && stage.device <= top) pen.fillRect(X(stage.device, width), i * tall, 2, tall);
      });
      pen.fillStyle = "#666";
      const unit = Math.pow(1024, Math.floor(Math.log2(top) / 10));
      for (const value of nice(0, top / unit, 8)) label(pen, bytes(value * unit), X(value * unit, width), height - 6);
    });
    made.addEventListener("mousemove", event => {
      const stage = plan.stages[Math.floor(event.offsetY / tall)];
      say(event, stage ? names.filter(name => stage.memory[name]).map(name => `${name}: ${bytes(stage.memory[name])}`).join("\n") : "");
    });
    if (plan.device) add(to, "p", `The device has ${bytes(plan.device)}` + (plan.device > top ? ", far beyond the picture." : ", the red line."));
  }
};

/* ---- placement of tensors ---- */
const product = list => list.reduce((all, one) => all * one, 1);
const ways = (plan, split) => product(split.map(axis => plan.mesh[axis][1]));
/* How a tensor lies: sheets are iterations of its loop, cut by its axes; dark is what one rank has. */
const drawTensor = (pen, plan, tensor) => {
  const axes = tensor.own.axes.slice(tensor.loops), cuts = axes.map(axis => ways(plan, axis[3])), shared = ways(plan, tensor.own.shared);
  const across = cuts.length ? cuts[cuts.length - 1] : 1, down = product(cuts.slice(0, -1));
  const sheets = tensor.loops ? Math.min(3, tensor.own.axes[0][1]) - 1 : 0, wide = 88, tall = axes.length > 1 ? 34 : 14;
  for (let i = sheets; i >= 0; i--) {
    const x = 1 + 5 * i, y = 1 + 4 * (sheets - i) + (sheets ? 0 : 4);
    pen.fillStyle = "#dfe8f2";
    pen.fillRect(x, y, wide, tall);
    if (i === 0) {
      const w = wide / across, h = tall / down;
      pen.fillStyle = shared > 1 ? "#88aacc" : "#4477aa";
      pen.fillRect(x, y, Math.max(1, w), Math.max(1, h));
      pen.fillStyle = "#4477aa";
      pen.fillRect(x, y, Math.max(1, w), Math.max(1, h / shared));
      pen.strokeStyle = "#ffffff";
      pen.lineWidth = 0.7;
      for (let k = 1; k < across && across <= 40; k++) pen.strokeRect(x + k * w, y, 0, tall);
      for (let k = 1; k < down && down <= 20; k++) pen.strokeRect(x, y + k * h, wide, 0);
    }
    pen.strokeStyle = "#7799bb";
    pen.lineWidth = 0.8;
    pen.strokeRect(x, y, wide, tall);
  }
};
const addChip = (to, plan, m) => {
  add(to, "span", `${plan.mesh[m][0]} ${plan.mesh[m][1]}`, "chip").style.background = meshColors[m % meshColors.length];
};
const addAxes = (td, plan, store, loops, iterations) => {
  store.axes.forEach(([name, extent, local, split], i) => {
    const axis = add(td, "span", undefined, "axis");
    axis.append(name + " ");
    add(axis, "span", i === 0 && loops ? `${iterations} of ${extent}` : split.length ? `${local} of ${extent}` : extent, "dim");
    split.forEach(m => addChip(axis, plan, m));
  });
  if (store.shared.length) {
    const axis = add(td, "span", "shared by", "axis");
    store.shared.forEach(m => addChip(axis, plan, m));
  }
};
const splits = store => store.axes.flatMap(axis => axis[3]).concat(store.shared);
const copiesOf = (plan, store) => plan.mesh.map((_, m) => m)
  .filter(m => m !== plan.pipe && plan.mesh[m][1] > 1 && !splits(store).includes(m));
/* Stages that differ in how many iterations they have are one row, with what the largest has. */
const placed = tensor => JSON.stringify([tensor.own, tensor.gradient, tensor.optimizer].map(store =>
  store && [store.dtype, store.shared, store.axes.map((axis, i) => i < tensor.loops ? axis[0] : axis)]));
const rowsOf = (plan, name) => {
  const rows = new Map();
  for (const tensor of plan.tensors.filter(one => one.name === name)) {
    const row = rows.get(placed(tensor)) || { tensor, least: tensor.iterations, most: tensor.iterations, stages: [] };
    if (tensor.iterations > row.most) row.tensor = tensor;
    row.least = Math.min(row.least, tensor.iterations);
    row.most = Math.max(row.most, tensor.iterations);
    for (let i = 0; i < tensor.stages.length; i += 2)
      for (let stage = tensor.stages[i]; stage <= tensor.stages[i + 1]; stage++) row.stages.push(stage);
    rows.set(placed(tensor), row);
  }
  return [...rows.values()];
};
const inRanges = stages => {
  const list = [];
  for (const stage of stages.sort((a, b) => a - b)) {
    if (list.length && list[list.length - 1] === stage - 1) list[list.length - 1] = stage;
    else list.push(stage, stage);
  }
  return ranges(list);
};
const addTensor = (rows, plan, name, row, first) => {
  const { tensor } = row, tr = add(rows, "tr", undefined, first ? "first" : ""), own = tensor.own;
  if (several) add(tr, "td", letters[plans.indexOf(plan)], "text");
  add(tr, "td", first ? name : "", "text");
  const picture = add(add(tr, "td"), "canvas"), ratio = window.devicePixelRatio || 1;
  picture.width = 102 * ratio;
  picture.height = 46 * ratio;
  picture.style.width = "102px";
  picture.style.height = "46px";
  const pen = picture.getContext("2d");
  pen.scale(ratio, ratio);
  drawTensor(pen, plan, tensor);
  const axes = add(tr, "td", undefined, "text");
  addAxes(axes, plan, own, tensor.loops, row.least < row.most ? `${row.least} to ${row.most}` : row.most);
  for (const [what, store] of [["gradient", tensor.gradient], ["optimizer", tensor.optimizer]]) {
    if (!store || String(splits(store)) === String(splits(own))) continue;
    const more = splits(store).filter(m => !splits(own).includes(m)), line = add(axes, "div", what + " ", "dim");
    if (!more.length) line.append("whole, where the parameter is shared");
    more.forEach(m => addChip(line, plan, m));
  }
  const types = new Set([own, tensor.optimizer].filter(Boolean).map(store => store.dtype));
  add(tr, "td", [...types].join(", "), "text");
  tensor.bytes.forEach(value => add(tr, "td", value ? (row.least < row.most ? "\u2264 " : "") + bytes(value) : ""));
  add(tr, "td", copiesOf(plan, own).map(m => `${plan.mesh[m][0]} ${plan.mesh[m][1]}`).join(", "), "text wrap");
  add(tr, "td", plan.stages.length > 1 ? inRanges(row.stages) : "", "text wrap");
};
const showTensors = () => {
  const to = section("Where each tensor is",
    "Dark: the part that one rank holds. Sheets: the layers of a loop. Coloured words: mesh axes that shard an axis of the tensor. " +
    "Shared by: mesh axes whose ranks share it by `zero`. Alike over: mesh axes along which it is replicated.");
  const piped = plans.some(plan => plan.stages.length > 1);
  const rows = table(to, [...(several ? ["plan"] : []), "tensor", "", "axes of a rank's part", "type", "own", "gradient", "optimizer", "alike over", piped ? "stages" : ""],
    [...(several ? ["text"] : []), "text", "text", "text", "text", "", "", "", "text", "text"]);
  const names = [...new Set(plans.flatMap(plan => plan.tensors.map(tensor => tensor.name)))];
  for (const name of names) {
    const found = plans.flatMap(plan => rowsOf(plan, name).map(row => [plan, row]));
    found.forEach(([plan, row], i) => addTensor(rows, plan, name, row, i === 0));
  }
  for (const plan of plans) {
    const same = plan.inputs.map(input => JSON.stringify(input)); /* those of the evaluation may be the same */
    for (const input of plan.inputs.filter((_, i) => same.indexOf(same[i]) === i)) {
      const tr = add(rows, "tr", undefined, "first");
      if (several) add(tr, "td", letters[plans.indexOf(plan)], "text");
      add(tr, "td", "input " + input.name, "text");
      add(tr, "td");
      addAxes(add(tr, "td", undefined, "text"), plan, { axes: input.axes, shared: [] }, 0, 0);
      add(tr, "td", input.dtype, "text");
    }
  }
};

/* ---- traffic ---- */
const showMessages = (to, plan) => {
  if (!plan.traffic.messages.length) return;
  add(to, "p", "Messages of a step, from the stage of a row to that of a column, of all ranks:");
  const n = plan.stages.length, sums = new Map();
  for (const [a, b, sum] of plan.traffic.messages) sums.set(a * n + b, sum);
  const most = Math.max(...sums.values());
  if (n <= 16) {
    const matrix = table(to, ["", ...Array.from({ length: n }, (_, i) => "to " + i)]);
    for (let a = 0; a < n; a++) {
      const tr = add(matrix, "tr");
      add(tr, "td", "from " + a, "text");
      for (let b = 0; b < n; b++) {
        const sum = sums.get(a * n + b) || 0, td = add(tr, "td", sum ? bytes(sum) : "");
        if (sum) td.style.background = `rgba(68, 119, 170, ${0.12 + 0.5 * sum / most})`;
      }
    }
    return;
  }
  const cell = Math.max(3, Math.floor(480 / n)), made = canvas(to, cell * n + 22, pen => {
    pen.fillStyle = "#666";
    for (let i = 0; i < n; i += Math.ceil(n / 16)) {
      label(pen, "from " + i, 6, 20 + i * cell + 6);
      label(pen, String(i), LEFT + i * cell, 12);
    }
    pen.fillStyle = "#f6f6f6";
    pen.fillRect(LEFT, 20, n * cell, n * cell);
    for (const [at, sum] of sums) {
      pen.fillStyle = `rgba(68, 119, 170, ${0.25 + 0.75 * sum / most})`;
      pen.fillRect(LEFT + at % n * cell, 20 + Math.floor(at / n) * cell, cell, cell);
    }
  });
  made.addEventListener("mousemove", event => {
    const b = Math.floor((event.offsetX - LEFT) / cell), a = Math.floor((event.offsetY - 20) / cell), sum = sums.get(a * n + b);
    say(event, sum && b >= 0 && b < n ? `stage ${a} to stage ${b}: ${bytes(sum)}` : "");
  });
};
const showTraffic = () => {
  if (plans.every(plan => !plan.traffic.axes.length && !plan.traffic.messages.length)) return;
  const to = section("Traffic");
  for (const plan of plans) {
    of(to, plan);
    const most = Math.max(...plan.traffic.axes.map(axis => axis.received), 1);
    const axes = table(to, ["over", "", "received by a rank", "takes", "exposed", "nodes of a group"], ["text", "text"]);
    for (const axis of plan.traffic.axes) {
      const tr = add(axes, "tr");
      add(tr, "td", axis.name, "text");
      const bar = add(add(tr, "td", undefined, "text"), "span", undefined, "bar");
      bar.style.background = "#4477aa";
      bar.style.width = 160 * axis.received / most + "px";
      [bytes(axis.received), ...(plan.time ? [seconds(axis.runs), seconds(axis.exposed)] : ["", ""]), String(axis.nodes)]
        .forEach(text => add(tr, "td", text));
    }
    showMessages(to, plan);
  }
};

/* ---- costs ---- */
const sumBy = (list, keyOf) => {
  const sums = new Map();
  for (const cost of list) {
    const key = keyOf(cost), one = sums.get(key) || { all: 0, times: [], layers: new Map() };
    one.all += cost[4];
    one.times[cost[3]] = (one.times[cost[3]] || 0) + cost[4];
    one.layers.set(cost[2], (one.layers.get(cost[2]) || 0) + cost[4]);
    sums.set(key, one);
  }
  return sums;
};
const addBar = (td, times, most, wide) => times.forEach((value, i) => {
  const part = add(td, "span", undefined, "bar");
  part.style.background = colors[i % colors.length];
  part.style.width = wide * value / most + "px";
});
const showCosts = () => {
  if (!timed.length) return;
  const to = section("Where the time goes", "Seconds of a rank in a step, the mean, with collectives that run beside other work.");
  const used = new Set(timed.flatMap(plan => plan.lines.costs.map(cost => cost[3])));
  key(to, timed[0].times.map(time => time[0]).filter((_, i) => used.has(i)), colors.filter((_, i) => used.has(i)));
  for (const plan of timed) {
    of(to, plan);
    const { files, layers, costs } = plan.lines, all = costs.reduce((sum, cost) => sum + cost[4], 0);
    const layerName = i => layers[i] || "outside of layers", byLayer = [...sumBy(costs, cost => cost[2])].sort((a, b) => b[1].all - a[1].all);
    add(to, "h3", "by layer");
    const rows = table(to, ["layer", "seconds", "share", ""], ["text", "", "", "text"]);
    byLayer.slice(0, 24).forEach(([layer, one]) => {
      const tr = add(rows, "tr");
      add(tr, "td", layerName(layer), "text");
      add(tr, "td", seconds(one.all));
      add(tr, "td", percent(one.all / all));
      addBar(add(tr, "td", undefined, "text"), one.times, byLayer[0][1].all, 320);
    });
    const most = Math.max(...[...sumBy(costs, cost => cost[0] * 1e6 + cost[1]).values()].map(one => one.all), 1e-12);
    files.forEach((file, number) => {
      const lines = sumBy(costs.filter(cost => cost[0] === number), cost => cost[1]);
      const shown = file.lines.length ? file.lines : [...lines.keys()].sort((a, b) => a - b).map(line => [line, ""]);
      if (!file.name) return;
      add(to, "h3", file.name);
      const source = table(to, ["", "seconds", "share", "", file.lines.length ? "source" : "layers"], ["", "", "", "text", "text"]);
      source.classList.add("source");
      let last = shown.length ? shown[0][0] - 1 : 0;
      for (const [line, text] of shown) {
        if (file.lines.length && line !== last + 1) add(add(source, "tr"), "td", "\u22ef", "dim");
        last = line;
        const one = lines.get(line), tr = add(source, "tr", undefined, one ? "hot" : "");
        add(tr, "td", line, "dim");
        add(tr, "td", one ? seconds(one.all) : "");
        add(tr, "td", one ? percent(one.all / all) : "");
        const bar = add(tr, "td", undefined, "text");
        bar.style.minWidth = "150px";
        if (one) addBar(bar, one.times, most, 140);
        const parts = one ? [...one.layers].sort((a, b) => b[1] - a[1]) : [];
        add(tr, "td", file.lines.length ? text : parts.slice(0, 4).map(part => layerName(part[0])).join(", "), "code");
        if (!one) continue;
        const words = one.times.map((value, i) => value ? `${plan.times[i][0]}: ${seconds(value)}` : "").filter(Boolean)
          .concat(parts.slice(0, 12).map(([layer, value]) => `${layerName(layer)}: ${seconds(value)}`));
        tr.addEventListener("mousemove", event => say(event, words.join("\n")));
        tr.addEventListener("mouseleave", event => say(event, ""));
      }
    });
  }
};

/* ---- all ---- */
/* What a stage has in use: what lives throughout, and temporaries that something reads later. */
const useOf = (plan, stage) => {
  const memory = stage.memory, use = [], temporary = ["micro-batches in flight", "activations"];
  const still = Object.keys(memory).reduce((sum, name) => sum + (temporary.includes(name) ? 0 : memory[name]), 0);
  for (let i = 0; i < stage.use.length; i += 2) use.push([stage.use[i], still + stage.use[i + 1]]);
  return { still, use };
};
for (const plan of timed) {
  for (const time of plan.times) time[0] = time[0].replace("exposed ", ""); /* here also those beside other work */
  plan.pieces = unpack(plan.slices.pieces, plan.slices.tick, "piece");
  plan.insts = unpack(plan.slices.insts, plan.slices.tick, "inst");
  plan.chosen = plan.worst;
  if (!plan.pieces.length && plan.stages.length === 1) /* one micro-batch */
    plan.pieces.push({ stage: 0, begin: 0, end: plan.time.step - plan.time.fixed, kind: 3, micro: 0 });
  plan.stages.forEach(stage => Object.assign(stage, useOf(plan, stage)));
}
showTop();
showRows();
showRuns();
showStep();
showMemory();
showTensors();
showTraffic();
showCosts();
window.addEventListener("resize", redraw);
redraw();
/* For tests: pictures that show one colour only, page.html#check. */
if (window.location.hash === "#check")
  document.body.dataset.empty = [...document.querySelectorAll("canvas")].filter(made => {
    const pixels = new Uint32Array(made.getContext("2d").getImageData(0, 0, made.width, made.height).data.buffer);
    return pixels.every(pixel => pixel === pixels[0]);
  }).length;
document.body.dataset.done = "yes";
