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

// What a terminal would show of the lines: a carriage return and a backspace move to where the next character is written.
export function settled(text) {
  if (!text.includes("\r") && !text.includes("\b")) return text
  return text.replace(/\r\n/g, "\n").split("\n").map(line => /[\r\b]/.test(line) ? written(line) : line).join("\n")
}

function written(line) {
  const shown = [] // characters, each with the colours that were set before it
  let at = 0
  let colours = ""
  for (const [part] of line.matchAll(/\x1b\[[\d;:?]*[A-Za-z]|[\s\S]/gu)) {
    if (part === "\x1b[2K") shown.length = 0
    if (part === "\r" || part === "\x1b[2K") at = 0
    else if (part === "\b") at = Math.max(at - 1, 0)
    else if (/^\x1b\[0?K$/.test(part)) shown.length = Math.min(shown.length, at)
    else if (part.length > 2) colours += part
    else {
      shown[at++] = colours + part
      colours = ""
    }
  }
  return shown.join("") + colours
}
