"use strict";
// What all pages use. Nothing of the data ever becomes markup: only text.
const packed = JSON.parse(document.getElementById("data").textContent);

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

// Escape sequences, directions and the like are shown, not obeyed.
function shown(value) {
  return String(value).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

function grouped(count) {
  return count.toLocaleString("en");
}

function short(value) {
  if (value === null || value === undefined) return "-";
  if (typeof value === "string") return value;
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e6 ? String(Number(value.toPrecision(4)).toExponential()) : String(Number(value.toPrecision(4)));
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  button.textContent = name === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-pressed", String(name === "dark"));
}
