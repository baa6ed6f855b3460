"use strict";
// Plots: lines on a canvas, with axes. A curve is {x: numbers, y: numbers, colour, strong, faint}.

const SI = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function si(value) {
  const size = Math.abs(value);
  for (const [unit, name] of SI) if (size >= unit) return trim(value / unit) + name;
  return trim(value);
}

function trim(value) {
  return String(Number(value.toPrecision(4)));
}

function number(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e");
  return trim(value);
}

function clock(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return (seconds < 10 ? Math.max(0, seconds).toFixed(1) : s) + " s";
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${String(Math.floor(s / 60) % 60).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

function ticks(low, high, about) {
  const rough = (high - low) / about, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].find((k) => k * power >= rough) * power;
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(k * step);
  return out;
}

function timeTicks(high, about) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const step = steps.find((each) => high / each <= about) || 86400 * Math.ceil(high / about / 86400);
  const out = [];
  for (let at = 0; at <= high * 1.0001; at += step) out.push(at);
  return out;
}

function shortClock(seconds) {
  if (seconds < 60) return trim(seconds) + " s";
  if (seconds < 3600) return trim(seconds / 60) + " min";
  if (seconds < 86400) return trim(seconds / 3600) + " h";
  return trim(seconds / 86400) + " d";
}

function logTicks(low, high, about) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), out = [];
  const every = Math.max(1, Math.ceil((last - first) / about)), inner = last - first <= 2 ? [1, 2, 5] : [1];
  for (let power = first; power <= last; power++) {
    if ((power - first) % every) continue;
    for (const k of inner) out.push(k * Math.pow(10, power));
  }
  return out.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

class Plot {
  constructor(canvas, across) {
    this.canvas = canvas;
    this.across = across;
    this.curves = [];
    this.hover = null;
  }

  range(curves, isLog) {
    let right = 0, low = Infinity, high = -Infinity;
    for (const { x, y } of curves) {
      for (let k = 0; k < x.length; k++) {
        if (x[k] === null || y[k] === null || (isLog && y[k] <= 0)) continue;
        if (x[k] > right) right = x[k];
        if (y[k] < low) low = y[k];
        if (y[k] > high) high = y[k];
      }
    }
    return { right, low, high };
  }

  draw(curves, { isLog, marks, look }) {
    this.curves = curves;
    const canvas = this.canvas, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "12px system-ui, sans-serif";
    let { right, low, high } = this.range(curves, isLog);
    const found = isFinite(low) && right > 0;
    if (!isFinite(low)) { low = isLog ? 0.1 : 0; high = 1; }
    if (isLog) { const pad = Math.pow(high / low, 0.06) * 1.02; low /= pad; high *= pad; }
    else { const pad = (high - low || Math.abs(high) || 1) * 0.06; low -= pad; high += pad; }
    const box = { left: 52, top: 8, right: width - 10, bottom: height - 24 };
    const sx = (x) => box.left + (x / (right || 1)) * (box.right - box.left);
    const up = isLog ? (y) => Math.log(y / low) / Math.log(high / low) : (y) => (y - low) / (high - low);
    const sy = (y) => box.bottom - up(y) * (box.bottom - box.top);
    Object.assign(this, { box, sx, sy, isLog });
    this.axes(g, { right, low, high, isLog, look, found });
    g.save();
    g.beginPath();
    g.rect(box.left, box.top - 4, box.right - box.left + 6, box.bottom - box.top + 8);
    g.clip();
    g.setLineDash([4, 4]);
    g.strokeStyle = look.soft;
    g.lineWidth = 1;
    for (const mark of marks.filter((each) => each <= right)) {
      g.beginPath(); g.moveTo(sx(mark), box.top); g.lineTo(sx(mark), box.bottom); g.stroke();
    }
    g.setLineDash([]);
    for (const curve of curves) this.line(g, curve);
    g.restore();
    if (!found) this.empty(g, look);
  }

  axes(g, { right, low, high, isLog, look, found }) {
    const { box, sx, sy } = this, rows = Math.max(3, Math.round((box.bottom - box.top) / 34));
    if (!found) return;
    g.fillStyle = look.soft;
    g.strokeStyle = look.line;
    g.lineWidth = 1;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const y of isLog ? logTicks(low, high, rows) : ticks(low, high, rows)) {
      const at = Math.round(sy(y)) + 0.5;
      g.beginPath(); g.moveTo(box.left, at); g.lineTo(box.right, at); g.stroke();
      g.fillText(number(y), box.left - 7, at);
    }
    g.textAlign = "center";
    g.textBaseline = "top";
    const room = Math.max(2, Math.floor((box.right - box.left) / 78)), time = this.across === "s";
    for (const x of time ? timeTicks(right, room) : ticks(0, right, room)) {
      const text = time ? shortClock(x) : si(x), half = g.measureText(text).width / 2;
      g.fillText(text, Math.min(sx(x), box.right + 8 - half), box.bottom + 7);
    }
  }

  line(g, { x, y, colour, strong, faint, alive }) {
    const { sx, sy, isLog } = this;
    g.strokeStyle = g.fillStyle = colour;
    g.globalAlpha = faint ? 0.13 : strong ? 1 : 0.72;
    g.lineWidth = strong ? 2.2 : 1.4;
    g.lineJoin = "round";
    g.beginPath();
    let pen = false, last = null;
    for (let k = 0; k < x.length; k++) {
      if (x[k] === null || y[k] === null || (isLog && y[k] <= 0)) { pen = false; continue; }
      const px = sx(x[k]), py = sy(y[k]);
      if (pen) g.lineTo(px, py); else g.moveTo(px, py);
      pen = true;
      last = [px, py];
    }
    g.stroke();
    if (last && alive) { g.beginPath(); g.arc(last[0], last[1], 2.8, 0, 7); g.fill(); }
    g.globalAlpha = 1;
  }

  empty(g, look) {
    g.fillStyle = look.soft;
    g.textAlign = "center";
    g.textBaseline = "middle";
    const { box } = this, text = this.curves.length ? "not known for this run" : "no rows yet";
    g.fillText(text, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
  }

  nearest(px, py) {
    let best = null, least = 900;
    for (const curve of this.curves) {
      const { x, y } = curve;
      for (let k = 0; k < x.length; k++) {
        if (x[k] === null || y[k] === null || (this.isLog && y[k] <= 0)) continue;
        const dx = this.sx(x[k]) - px;
        if (dx > 30 || dx < -30) continue;
        const dy = this.sy(y[k]) - py, far = dx * dx + dy * dy;
        if (far < least) { least = far; best = { curve, x: x[k], y: y[k] }; }
      }
    }
    return best;
  }
}
