// Python, in colours.
const KEYWORDS = new Set(`False None True and as assert async await break class continue def del elif else except finally
for from global if import in is lambda nonlocal not or pass raise return try while with yield match case`.split(/\s+/))
const BUILTINS = new Set(`abs all any bool bytes callable chr dict dir divmod enumerate eval exec filter float format
frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter len list map max min next object
open ord pow print property range repr reversed round set setattr slice sorted str sum super tuple type vars zip
display self cls Exception ValueError TypeError KeyError IndexError RuntimeError`.split(/\s+/))
const TOKEN = new RegExp([
  /(?<comment>#.*)/,
  /(?<string>[rbfuRBFU]{0,2}(?:'''[\s\S]*?(?:'''|$)|"""[\s\S]*?(?:"""|$)|'(?:\\.|[^'\\\n])*(?:'|$|(?=\n))|"(?:\\.|[^"\\\n])*(?:"|$|(?=\n))))/,
  /(?<number>\b(?:0[xXoObB][\da-fA-F_]+|\d[\d_]*\.?[\d_]*(?:[eE][+-]?\d+)?[jJ]?))/,
  /(?<decorator>@[\w.]+)/,
  /(?<word>[^\W\d]\w*)/,
  /(?<space>\s+)/,
  /(?<other>[\s\S])/,
].map(part => part.source).join("|"), "gu")

export function* tokens(code) {
  let before = ""
  for (const match of code.matchAll(TOKEN)) {
    const text = match[0]
    const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined)
    if (kind === "word") {
      yield [KEYWORDS.has(text) ? "keyword" : /^(def|class)$/.test(before) ? "definition" : BUILTINS.has(text) ? "builtin" : "", text]
    } else yield [["space", "other"].includes(kind) ? "" : kind, text]
    if (kind !== "space") before = text
  }
}

export function highlighted(code, language = "python") {
  const fragment = document.createDocumentFragment()
  if (language !== "python") {
    fragment.append(code)
    return fragment
  }
  for (const [kind, text] of tokens(code)) {
    if (!kind) {
      fragment.append(text)
      continue
    }
    const span = document.createElement("span")
    span.className = `t-${kind}`
    span.textContent = text
    fragment.append(span)
  }
  return fragment
}
