// Text with ANSI colours and carriage returns, as programs for terminals write it.
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]

export function styleAfter(style, codes) {
  let next = { ...style }
  const numbers = codes.split(/[;:]/).map(Number)
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at]
    if (code === 0) next = {}
    else if (code === 1) next.bold = true
    else if (code === 2) next.dim = true
    else if (code === 3) next.italic = true
    else if (code === 4) next.underline = true
    else if (code === 7) next.inverse = true
    else if (code === 22) next.bold = next.dim = false
    else if (code === 23) next.italic = false
    else if (code === 24) next.underline = false
    else if (code === 27) next.inverse = false
    else if (code >= 30 && code <= 37) next.front = NAMES[code - 30]
    else if (code >= 90 && code <= 97) next.front = NAMES[code - 90]
    else if (code === 39) next.front = undefined
    else if (code >= 40 && code <= 47) next.back = NAMES[code - 40]
    else if (code >= 100 && code <= 107) next.back = NAMES[code - 100]
    else if (code === 49) next.back = undefined
    else if (code === 38 || code === 48) {
      const colour = numbers[at + 1] === 5 ? NAMES[numbers[at + 2] % 8] : "white"
      next[code === 38 ? "front" : "back"] = colour
      at += numbers[at + 1] === 5 ? 2 : 4
    }
  }
  return next
}

export function classesOf(style) {
  return ["bold", "dim", "italic", "underline", "inverse"].filter(name => style[name]).map(name => `a-${name}`)
    .concat(style.front ? `a-${style.front}` : [], style.back ? `a-on-${style.back}` : []).join(" ")
}

export function coloured(text) {
  const fragment = document.createDocumentFragment()
  let style = {}
  for (const part of text.split(/(\x1b\[[\d;:]*m)/)) {
    const codes = /^\x1b\[([\d;:]*)m$/.exec(part)
    if (codes) {
      style = styleAfter(style, codes[1] || "0")
      continue
    }
    const plain = part.replace(/\x1b\[[\d;?]*[A-Za-z]|\x1b\][^\x07]*(\x07|$)|[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "")
    if (!plain) continue
    const classes = classesOf(style)
    if (!classes) {
      fragment.append(plain)
      continue
    }
    const span = document.createElement("span")
    span.className = classes
    span.textContent = plain
    fragment.append(span)
  }
  return fragment
}

const FARTHEST = 1000 // lines or columns that the cursor jumps at once

// What a terminal would show in the end: the cursor moves, and what is written replaces what was there. Each character
// keeps the colours that it was written in.
export function settled(text) {
  if (!/[\r\b]|\x1b\[\d*[A-HJ]/.test(text)) return text
  const lines = [[]]
  let row = 0
  let at = 0
  let colours = ""
  for (const [part, number, end] of text.matchAll(/\x1b\[(\d*)(?:;\d*)?([A-HJK])|\x1b\[[\d;:?]*[A-Za-z]|[\s\S]/gu)) {
    const n = Math.min(Number(number) || 1, FARTHEST)
    if (part === "\r") at = 0
    else if (part === "\b" || end === "D") at = Math.max(at - n, 0)
    else if (part === "\n" || end === "E" || end === "B") {
      row += n
      if (end !== "B") at = 0
    } else if (end === "A" || end === "F") {
      row = Math.max(row - n, 0)
      if (end === "F") at = 0
    } else if (end === "C") at += n
    else if (end === "G") at = n - 1
    else if (end === "H") row = at = 0
    else if (end === "K" || end === "J") erase(lines, row, at, end, number)
    else if (part.endsWith("m") && part.length > 2) colours = /^\x1b\[[0;]*m$/.test(part) ? "" : (colours + part).slice(-200).replace(/^[^\x1b]*/, "")
    else if (part.length < 3) {
      while (lines[row].length < at) lines[row].push([" ", ""])
      lines[row][at++] = [part, colours]
    }
    while (lines.length <= row) lines.push([])
  }
  return inked(lines, colours)
}

function erase(lines, row, at, end, number) {
  const before = number === "1" || number === "2"
  if (number !== "1") lines[row].length = Math.min(lines[row].length, number === "2" ? 0 : at)
  else for (let column = 0; column <= at && column < lines[row].length; column++) lines[row][column] = [" ", ""]
  if (end === "K") return
  if (number !== "1") lines.length = row + 1
  if (before || number === "3") for (let each = 0; each < row; each++) lines[each] = []
}

function inked(lines, last) {
  let shown = ""
  let now = ""
  const dip = colours => {
    if (colours !== now) shown += "\x1b[0m" + colours
    now = colours
  }
  lines.forEach((line, row) => {
    if (row) shown += "\n"
    for (const [letter, colours] of line) {
      dip(colours)
      shown += letter
    }
  })
  dip(last)
  return shown
}
