// Markdown as models and cells write it, as elements: headings, lists, tables, quotes, code, links, and words that stand out.
import { h } from "./dom.js"

const ITEM = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/

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
  const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line)
  if (heading) return [h(`h${Math.min(heading[1].length + 2, 6)}`, {}, words(heading[2]))]
  if (RULE.test(line)) return [h("hr")]
  if (line.startsWith(">")) return [h("blockquote", {}, formatted([line, ...taken(lines, each => each.startsWith(">"))].map(each => each.replace(/^> ?/, "")).join("\n")))]
  if (line.includes("|") && DIVIDER.test(lines[0] || "") && lines[0].includes("-")) return [table(line, lines)]
  if (ITEM.test(line)) return [list(line, lines)]
  const more = taken(lines, each => each.trim() && !/^(#{1,6}\s|>|\s*(```|~~~))/.test(each) && !ITEM.test(each))
  return [h("p", {}, [line, ...more].flatMap((each, at) => at ? ["\n", ...words(each)] : words(each)))]
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
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\[[^\]]+\]\(https?:[^)\s]+\))/).map(piece => {
    if (/^`.+`$/.test(piece)) return h("code", {}, piece.slice(1, -1))
    if (/^\*\*.+\*\*$/.test(piece)) return h("strong", {}, words(piece.slice(2, -2)))
    if (/^\*.+\*$/.test(piece)) return h("em", {}, words(piece.slice(1, -1)))
    const link = /^\[(.+)\]\((https?:.+)\)$/.exec(piece)
    return link ? h("a", { href: link[2], target: "_blank", rel: "noopener noreferrer" }, link[1]) : piece
  })
}
