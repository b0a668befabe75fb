// The live half of the page: what is observed, the history, and playing by keyboard.
// It speaks JSON over one WebSocket for each tab (openenv_gym/web/live.py). Nothing that comes from
// an environment is ever taken for HTML: it is set as text, or drawn.
"use strict";
(() => {
  const MAX_ROWS = 500;
  const MAX_POINTS = 200;
  const RETRY_MS = 1000;
  const COLOURS = ["#f97316", "#2563eb", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#ca8a04", "#db2777"];
  const PIECES = { k: "♚", q: "♛", r: "♜", b: "♝", n: "♞", p: "♟", K: "♔", Q: "♕", R: "♖", B: "♗", N: "♘", P: "♙" };

  const state = { socket: null, tab: null, shown: [], rewards: [], series: {}, episode: null, playing: false, held: new Set(), action: null, lost: false };
  window.openenvShown = 0; // frames that were displayed, for whoever measures

  const $ = (selector, root = document) => root.querySelector(selector);
  function make(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  // -- connection -----------------------------------------------------------------------------

  function status(text, kind) {
    const node = $("#oe-status");
    if (node) { node.textContent = text; node.className = kind; }
  }

  function connect() {
    const url = new URL("live", location.href.replace(/[?#].*/, ""));
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("tab", state.tab);
    const socket = new WebSocket(url);
    state.socket = socket;
    socket.onopen = () => { status("connected", "ok"); state.lost = false; };
    socket.onmessage = (event) => take(JSON.parse(event.data));
    socket.onclose = () => {
      if (state.socket !== socket) return;
      state.lost = true;
      stopped();
      status("the server is gone; trying again…", "lost");
      setTimeout(connect, RETRY_MS);
    };
  }

  function tell(message) {
    if (state.socket && state.socket.readyState === WebSocket.OPEN) state.socket.send(JSON.stringify(message));
  }

  // Not where the browser keeps the page for the way back: then it connects again, or is forgotten.
  addEventListener("pagehide", (event) => { if (!event.persisted) tell({ do: "leave" }); });

  function take(message) {
    switch (message.kind) {
      case "view": show(message); break;
      case "raw": raw(message.value); break;
      case "watching": watching(message); break;
      case "playing": if (message.on) started(); else stopped(); break;
      case "trouble": trouble(message.text); break;
      case "unknown": location.reload(); break; // the server has started anew
    }
  }

  // -- what is observed -----------------------------------------------------------------------

  function frame() {
    const view = $("#oe-view");
    if (view.firstChild) return view;
    view.append(
      make("div", { className: "oe-bar" }),
      make("div", { id: "oe-trouble" }),
      make("div", { className: "oe-panels" }),
      make("div", { className: "oe-tools" },
        make("button", { type: "button", id: "oe-raw-button", textContent: "Raw JSON", onclick: toggleRaw })),
      make("pre", { id: "oe-raw", className: "oe-text", hidden: true }),
    );
    return view;
  }

  function show(view) {
    frame();
    if (view.rows.length) addRows(view.rows);
    if (!view.panels) return;
    trouble("");
    bar(view);
    const panels = $("#oe-view .oe-panels");
    if (state.episode !== `${view.watched}/${view.episode}`) {
      state.series = {};
      state.episode = `${view.watched}/${view.episode}`;
    }
    const old = new Map([...panels.children].map((each) => [each.dataset.key, each]));
    const loaded = [];
    view.panels.forEach((panel, place) => {
      const key = `${panel.type}/${panel.label}`;
      let node = old.get(key);
      old.delete(key);
      if (!node) { node = DRAW[panel.type].make(panel); node.dataset.key = key; }
      if (panels.children[place] !== node) panels.insertBefore(node, panels.children[place] || null);
      const done = DRAW[panel.type].fill(node, panel, view);
      if (done) loaded.push(done);
    });
    old.forEach((node) => node.remove());
    if (!$("#oe-raw").hidden) tell({ do: "raw" });
    Promise.allSettled(loaded).then(() => requestAnimationFrame(() => {
      window.openenvShown += 1;
      const now = performance.now();
      state.shown = [...state.shown.filter((at) => now - at < 2000), now];
      tell({ do: "shown" });
    }));
  }

  function bar(view) {
    const parts = [make("span", {}, "episode ", make("b", { textContent: view.episode })),
      make("span", {}, "step ", make("b", { id: "oe-step-number", textContent: view.step })),
      make("span", {}, "reward ", make("b", { textContent: number(view.reward) })),
      make("span", {}, "return ", make("b", { id: "oe-return", textContent: number(view.return) }))];
    if (view.took_ms !== null && view.took_ms !== undefined) parts.push(make("span", { textContent: `${view.took_ms.toFixed(1)} ms` }));
    if (state.shown.length > 4) {
      const seconds = (state.shown[state.shown.length - 1] - state.shown[0]) / 1000;
      if (seconds > 0.5) parts.push(make("span", { id: "oe-fps", textContent: `${((state.shown.length - 1) / seconds).toFixed(0)} frames/s` }));
    }
    if (view.watched) parts.push(make("span", { className: "oe-badge watch", textContent: `watching ${view.watched}` }));
    if (view.done) parts.push(make("span", { className: "oe-badge over", id: "oe-over", textContent: view.truncated ? "cut off" : "over" }));
    if (view.info) parts.push(make("span", { className: "oe-info", title: "info", textContent: view.info.slice(0, 160) }));
    $("#oe-view .oe-bar").replaceChildren(...parts);
  }

  // What is not finite comes as a word: JSON has no number for it.
  const number = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "–" : String(Math.round(value * 1e4) / 1e4));

  function panelOf(panel, content, wide) {
    return make("figure", { className: wide ? "oe-panel wide" : "oe-panel" }, make("figcaption", { textContent: panel.label }), content);
  }

  function folded(panel, content, open) {
    return make("details", { className: "oe-panel", open }, make("summary", { textContent: panel.label }), content);
  }

  const DRAW = {
    picture: {
      make: (panel) => panelOf(panel, make("img", { className: "oe-picture", alt: panel.label }), true),
      fill(node, panel) {
        const image = $("img", node);
        image.width = panel.width;
        image.height = panel.height;
        image.src = panel.url;
        return image.decode();
      },
    },
    text: {
      make: (panel) => panelOf(panel, make("pre", { className: "oe-text" }), panel.text.includes("\n")),
      fill(node, panel) { $("pre", node).textContent = panel.text; },
    },
    list: {
      make: (panel) => folded(panel, make("div", { className: "oe-chips" }), panel.items.length <= 12),
      fill(node, panel) {
        $("summary", node).textContent = `${panel.label} (${panel.items.length})`;
        $("div", node).replaceChildren(...panel.items.map((item) => make("span", { textContent: item })));
      },
    },
    json: {
      make: (panel) => folded(panel, make("pre", { className: "oe-text" }), true),
      fill(node, panel) { $("pre", node).textContent = JSON.stringify(panel.value, null, 1); },
    },
    grid: {
      make: (panel) => folded(panel, make("div", { className: "oe-grid" }), !panel.folded),
      fill(node, panel) {
        const grid = $(".oe-grid", node);
        grid.style.gridTemplateColumns = `repeat(${panel.rows[0]?.length || 1}, minmax(0, 1.35rem))`;
        grid.replaceChildren(...panel.rows.flat().map((value) => {
          const cell = make("span", { textContent: Number(value) });
          cell.style.background = Number(value) === 0 ? "#f3f4f6" : `hsl(${(Number(value) * 137 + 20) % 360} 70% 72%)`;
          return cell;
        }));
      },
    },
    chess: {
      make: (panel) => panelOf(panel, make("div", { className: "oe-chess", role: "img" })),
      fill(node, panel) {
        const board = $(".oe-chess", node);
        board.setAttribute("aria-label", panel.fen);
        const rows = panel.fen.split(" ")[0].split("/");
        board.replaceChildren(...rows.flatMap((row, y) => [...row.replace(/\d/g, (n) => " ".repeat(n))].map((piece, x) =>
          make("span", { className: (x + y) % 2 ? "dark-square" : "light-square", textContent: PIECES[piece] || "" }))));
      },
    },
    numbers: {
      make: (panel) => panelOf(panel, make("div", {}, svg(), make("ul", { className: "oe-values" }))),
      fill(node, panel) { plot(node, panel); },
    },
  };

  // -- plots ----------------------------------------------------------------------------------

  function svg() {
    const node = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    node.setAttribute("class", "oe-plot");
    node.setAttribute("viewBox", "0 0 200 60");
    node.setAttribute("preserveAspectRatio", "none");
    node.setAttribute("aria-hidden", "true");
    return node;
  }

  function shape(tag, attributes) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  function plot(node, panel) {
    const series = (state.series[panel.label] ||= []);
    series.push(panel.values);
    if (series.length > MAX_POINTS) series.shift();
    const many = panel.values.length > COLOURS.length;
    const known = (many ? panel.values : series.flat()).filter((value) => value !== null);
    const low = Math.min(0, ...known), high = Math.max(0, ...known, low + 1e-9);
    const y = (value) => 57 - (54 * (value - low)) / (high - low);
    const drawing = $("svg", node), shapes = [];
    shapes.push(shape("line", { x1: 0, x2: 200, y1: y(0), y2: y(0), stroke: "currentColor", "stroke-opacity": 0.25, "vector-effect": "non-scaling-stroke" }));
    if (many) {
      const width = 200 / panel.values.length;
      panel.values.forEach((value, i) => {
        if (value !== null) shapes.push(shape("rect", { x: i * width, width: Math.max(width - 0.4, 0.4), y: Math.min(y(value), y(0)), height: Math.max(Math.abs(y(value) - y(0)), 0.3), fill: COLOURS[0] }));
      });
    } else {
      const step = 200 / Math.max(series.length - 1, 40);
      panel.values.forEach((_, i) => {
        const points = series.map((values, t) => (values[i] === null || values[i] === undefined ? null : `${t * step},${y(values[i])}`)).filter(Boolean);
        shapes.push(shape("polyline", { points: points.join(" "), fill: "none", stroke: COLOURS[i], "stroke-width": 1.6, "vector-effect": "non-scaling-stroke" }));
      });
    }
    drawing.replaceChildren(...shapes);
    $("ul", node).replaceChildren(...(many ? [] : panel.names.map((name, i) => {
      const mark = make("i");
      mark.style.background = COLOURS[i];
      return make("li", {}, mark, `${name} ${number(panel.values[i])}`);
    })));
  }

  // -- raw JSON, notices ----------------------------------------------------------------------

  function toggleRaw() {
    const node = $("#oe-raw");
    node.hidden = !node.hidden;
    $("#oe-raw-button").textContent = node.hidden ? "Raw JSON" : "Hide raw JSON";
    if (!node.hidden) tell({ do: "raw" });
  }

  function raw(value) { $("#oe-raw").textContent = JSON.stringify(value, null, 2); }

  function trouble(text) {
    frame();
    $("#oe-trouble").replaceChildren(...(text ? [make("div", { className: "oe-problem", textContent: text })] : []));
  }

  function watching(message) {
    frame();
    state.rewards = [];
    history().replaceChildren();
    rewards();
    if (message.session) {
      $("#oe-view .oe-bar").replaceChildren(make("span", { className: "oe-badge watch", textContent: `watching ${message.shown}; waiting for its next step…` }));
      $("#oe-view .oe-panels").replaceChildren();
    }
  }

  // -- history --------------------------------------------------------------------------------

  function history() {
    const root = $("#oe-history");
    if (!root.firstChild) {
      const heading = make("h2", { textContent: "History" });
      const line = svg();
      line.id = "oe-rewards";
      heading.append(line);
      const columns = [["episode", "num"], ["step", "num"], ["action", ""], ["reward", "num"], ["", ""]];
      root.append(heading, make("div", { className: "oe-scroll", tabIndex: 0 }, make("table", {},
        make("thead", {}, make("tr", {}, ...columns.map(([name, kind]) => make("th", { textContent: name, className: kind, scope: "col" })))),
        make("tbody"))));
    }
    return $("tbody", root);
  }

  function addRows(rows) {
    const body = history();
    for (const row of rows) {
      if (row.action !== "reset") state.rewards.push(Number.isFinite(row.reward) ? row.reward : 0);
      const end = row.done ? (row.truncated ? "cut off" : "over") : row.skipped ? `${row.skipped} before it not shown` : "";
      body.prepend(make("tr", { className: row.done ? "over" : "" },
        make("td", { className: "num", textContent: row.episode }), make("td", { className: "num", textContent: row.step }),
        make("td", { className: "action", textContent: row.action }), make("td", { className: "num", textContent: number(row.reward) }),
        make("td", { textContent: end })));
    }
    while (body.children.length > MAX_ROWS) body.lastChild.remove();
    rewards();
  }

  function rewards() {
    state.rewards = state.rewards.slice(-MAX_POINTS);
    const values = state.rewards, low = Math.min(0, ...values), high = Math.max(0, ...values, low + 1e-9);
    const y = (value) => 57 - (54 * (value - low)) / (high - low), step = 200 / Math.max(values.length, 40);
    $("#oe-rewards")?.replaceChildren(...values.map((value, i) => shape("rect", { x: i * step, width: Math.max(step - 0.5, 0.5), y: Math.min(y(value), y(0)), height: Math.max(Math.abs(y(value) - y(0)), 0.6), fill: value < 0 ? "#dc2626" : "#16a34a" })));
  }

  // -- keyboard -------------------------------------------------------------------------------

  const KEYS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right", w: "up", s: "down", a: "left", d: "right", W: "up", S: "down", A: "left", D: "right", " ": "fire" };

  function keys() {
    const node = $("#oe-keys");
    return node ? { node, map: JSON.parse(node.dataset.keys), rate: Number(node.dataset.rate) } : null;
  }

  function prepareKeys() {
    const found = keys();
    if (!found || found.node.firstChild) return;
    const { node, map, rate } = found;
    const speed = make("input", { type: "number", min: 1, max: 60, value: rate, id: "oe-rate", title: "steps a second" });
    const button = make("button", { type: "button", id: "oe-play", textContent: "Play by keyboard" });
    button.onclick = () => (state.playing ? tell({ do: "stop" }) : tell({ do: "play", keys: keys().map, rate: Number(speed.value) || rate }));
    const named = Object.keys(map.names);
    const words = named.length ? "Arrows or WASD" + (named.some((n) => n.includes("fire")) ? ", space to fire" : "") : "Digits choose the action";
    const clock = map.nothing === null ? "; the clock steps while a key is held" : "";
    node.append(make("div", { className: "oe-row" }, button, make("label", {}, speed, " steps/s")),
      make("p", { textContent: `${words}${clock}. Escape stops.` }), pad(map));
  }

  function pad(map) {
    const node = make("div", { className: "oe-pad" });
    const names = named(map);
    const rows = names.has("up") || names.has("down") ? [["", "up", "stop"], ["left", "fire", "right"], ["", "down", ""]] : [["", "", "stop"], ["left", "fire", "right"]];
    for (const key of rows.flat()) {
      if (key === "stop") {
        node.append(make("button", { type: "button", className: "oe-stop", textContent: "Stop", onclick: () => tell({ do: "stop" }) }));
        continue;
      }
      if (!key || !names.has(key)) { node.append(make("span")); continue; }
      const button = make("button", { type: "button", textContent: { up: "▲", down: "▼", left: "◀", right: "▶", fire: "●" }[key], ariaLabel: key });
      button.onpointerdown = (event) => { event.preventDefault(); state.held.add(key); hold(); };
      button.onpointerup = button.onpointercancel = button.onpointerleave = () => { state.held.delete(key); hold(); };
      node.append(button);
    }
    return node;
  }

  const named = (map) => new Set(Object.keys(map.names).flatMap((name) => name.split("+")));

  function hold(digit) {
    const { map } = keys() || {};
    if (!map) return;
    let action = digit !== undefined ? digit : null;
    const held = [...state.held].sort();
    // What no action has together, the keys that were pressed last decide about.
    for (let from = 0; action === null && from < held.length; from += 1) {
      const name = held.slice(from).join("+");
      if (name in map.names) action = map.names[name];
    }
    if (action !== state.action) { state.action = action; tell({ do: "hold", action }); }
  }

  function started() {
    state.playing = true;
    state.action = null;
    document.activeElement?.blur();
    const button = $("#oe-play");
    if (button) { button.textContent = "Stop (Esc)"; button.classList.add("on"); }
    $(".oe-pad")?.classList.add("on");
    if (matchMedia("(pointer: coarse)").matches) $("#oe-view")?.scrollIntoView();
  }

  function stopped() {
    if (state.playing && !state.lost) $("#oe-again")?.click();
    state.playing = false;
    state.held.clear();
    const button = $("#oe-play");
    if (button) { button.textContent = "Play by keyboard"; button.classList.remove("on"); }
    $(".oe-pad")?.classList.remove("on");
  }

  addEventListener("keydown", (event) => {
    if (!state.playing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { tell({ do: "stop" }); return; }
    if (event.target instanceof Element && event.target.matches("input, textarea, select")) return;
    const { map } = keys() || {};
    if (!map) return;
    const key = KEYS[event.key];
    if (key && named(map).has(key)) { state.held.add(key); hold(); event.preventDefault(); }
    else if (/^\d$/.test(event.key) && Number(event.key) < map.digits.length) { hold(map.digits[Number(event.key)]); event.preventDefault(); }
  });
  addEventListener("keyup", (event) => {
    if (!state.playing) return;
    const key = KEYS[event.key];
    if (key) state.held.delete(key);
    if (key || /^\d$/.test(event.key)) hold();
  });
  addEventListener("blur", () => { if (state.playing) { state.held.clear(); hold(); } });

  // -- beginning: Gradio makes the page piece by piece -----------------------------------------

  function look() {
    const tab = $("#oe-tab")?.dataset.tab;
    if (tab && tab !== state.tab && $("#oe-view") && $("#oe-history")) {
      state.tab = tab;
      frame();
      history();
      connect();
    }
    prepareKeys();
  }
  new MutationObserver(look).observe(document.documentElement, { childList: true, subtree: true });
  look();
})();
