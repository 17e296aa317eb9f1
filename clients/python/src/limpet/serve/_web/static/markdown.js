// Markdown as models and cells write it, as elements: headings, lists, tables, quotes, code, links, formulas, and words that stand out.
import { h } from "./dom.js"
import { mathml } from "./tex.js"

const ITEM = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/
const WORDS = /(`[^`]+`|\$\$[^$]+\$\$|\$(?! )(?:\\.|[^$\\])+?(?<! )\$(?!\d)|\\\(.+?\\\)|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\[[^\]]+\]\(https?:[^)\s]+\))/
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/

// A formula as it is written in LaTeX; one that is not understood stays source.
function formula(source, isBlock = false) {
  try {
    return mathml(source, element, isBlock)
  } catch {
    return isBlock ? h("pre.code", {}, source.trim()) : `$${source}$`
  }
}

// LaTeX of a value: formulas, or text with formulas in it.
export function latex(text) {
  const whole = /^(?:(\$\$?)([^$]+)\1|\\\[([^]+)\\\]|(\\begin\{[^]+\\end\{[^}]+\}))$/.exec(text.trim())
  return whole ? [formula(whole[2] || whole[3] || whole[4], true)] : formatted(text)
}

function element(tag, attributes, children) {
  const made = document.createElementNS("http://www.w3.org/1998/Math/MathML", tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

export function formatted(text) {
  const lines = text.split("\n")
  const made = []
  while (lines.length) made.push(...block(lines))
  return made
}

// Takes the lines of the next block.
function block(lines) {
  const line = lines.shift()
  const fence = /^\s*(```|~~~)/.exec(line)
  if (fence) {
    const code = taken(lines, each => !each.trimStart().startsWith(fence[1]))
    lines.shift()
    return [h("pre.code", {}, code.join("\n"))]
  }
  if (!line.trim()) return []
  const [, opened, rest] = /^\s*(\$\$|\\\[)(.*)$/.exec(line) || []
  const closed = opened === "$$" ? "$$" : "\\]"
  if (opened && (!rest.includes(closed) || rest.trimEnd().endsWith(closed))) return [displayed(rest, closed, lines)]
  const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line)
  if (heading) return [h(`h${Math.min(heading[1].length + 2, 6)}`, {}, words(heading[2]))]
  if (RULE.test(line)) return [h("hr")]
  if (line.startsWith(">")) return [h("blockquote", {}, formatted([line, ...taken(lines, each => each.startsWith(">"))].map(each => each.replace(/^> ?/, "")).join("\n")))]
  if (line.includes("|") && DIVIDER.test(lines[0] || "") && lines[0].includes("-")) return [table(line, lines)]
  if (ITEM.test(line)) return [list(line, lines)]
  const more = taken(lines, each => each.trim() && !/^(#{1,6}\s|>|\s*(```|~~~))/.test(each) && !ITEM.test(each))
  return [h("p", {}, [line, ...more].flatMap((each, at) => at ? ["\n", ...words(each)] : words(each)))]
}

// A formula in lines of its own. As long as its end has not come, as with a model that is speaking, it is source.
function displayed(first, closed, lines) {
  const found = [first, ...(first.trimEnd().endsWith(closed) ? [] : taken(lines, each => each.trim() && !each.trimEnd().endsWith(closed)))]
  if (!found.at(-1).trimEnd().endsWith(closed) && lines[0]?.trim()) found.push(lines.shift())
  const text = found.join("\n").trimEnd()
  return text.endsWith(closed) ? formula(text.slice(0, -closed.length), true) : h("pre.code", {}, text)
}

function taken(lines, wanted) {
  const found = []
  while (lines.length && wanted(lines[0])) found.push(lines.shift())
  return found
}

function list(line, lines) {
  const [, indent, mark] = ITEM.exec(line)
  const items = []
  lines.unshift(line)
  for (let item; (item = ITEM.exec(lines[0] || "")) && item[1].length === indent.length;) {
    lines.shift()
    const below = taken(lines, each => /^\s+\S/.test(each) && each.search(/\S/) > indent.length)
    items.push(h("li", {}, words(item[3]), below.length ? formatted(below.join("\n")) : ""))
  }
  return /\d/.test(mark) ? h("ol", { start: parseInt(mark) }, items) : h("ul", {}, items)
}

function table(line, lines) {
  const cells = row => row.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map(each => each.trim().replaceAll("\\|", "|"))
  lines.shift()
  const rows = taken(lines, each => each.includes("|"))
  return h("div.html", {}, h("table", {}, h("thead", {}, h("tr", {}, cells(line).map(each => h("th", {}, words(each))))),
    h("tbody", {}, rows.map(row => h("tr", {}, cells(row).map(each => h("td", {}, words(each))))))))
}

function words(text) {
  return text.split(WORDS).map(piece => {
    if (/^`.+`$/.test(piece)) return h("code", {}, piece.slice(1, -1))
    if (/^\*\*.+\*\*$/.test(piece)) return h("strong", {}, words(piece.slice(2, -2)))
    if (/^\*.+\*$/.test(piece)) return h("em", {}, words(piece.slice(1, -1)))
    if (/^\$\$.+\$\$$/.test(piece) || /^\\\(.+\\\)$/.test(piece)) return formula(piece.slice(2, -2))
    if (/^\$.+\$$/.test(piece)) return formula(piece.slice(1, -1))
    const link = /^\[(.+)\]\((https?:.+)\)$/.exec(piece)
    return link ? h("a", { href: link[2], target: "_blank", rel: "noopener noreferrer" }, link[1]) : piece
  })
}
