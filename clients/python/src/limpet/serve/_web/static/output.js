// What a call shows: values in their best form. Nothing of it becomes part of the page but as text, as a picture, or as
// plain elements that are made anew; what has scripts or styles runs in a frame without rights and without a network.
import { h } from "./dom.js"
import { coloured } from "./ansi.js"
import { formatted, latex } from "./markdown.js"

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"]
const TAGS = new Set(`A ABBR B BLOCKQUOTE BR CAPTION CODE COL COLGROUP DD DEL DIV DL DT EM FIGCAPTION FIGURE H1 H2 H3 H4 H5 H6 HR
I IMG INS KBD LI MARK OL P PRE Q S SAMP SMALL SPAN STRONG SUB SUP TABLE TBODY TD TFOOT TH THEAD TR U UL VAR`.split(/\s+/))
const ATTRIBUTES = new Set(["colspan", "rowspan", "span", "scope", "title", "alt", "width", "height", "align", "start"])
const HIGHEST = 4000

export function shown(display) {
  const data = display.data
  const picture = PICTURES.find(kind => typeof data[kind] === "string")
  const html = data["text/html"]
  if (typeof html === "string") return ofHtml(html, display.metadata?.["text/html"]?.isolated)
  if (picture) return h("img.figure", { src: `data:${picture};base64,${data[picture]}`, alt: data["text/plain"] || "figure" })
  if (typeof data["image/svg+xml"] === "string") {
    return h("img.figure", { src: `data:image/svg+xml;base64,${base64(data["image/svg+xml"])}`, alt: data["text/plain"] || "figure" })
  }
  if (typeof data["application/javascript"] === "string") {
    return framed(`<div id="element"></div><script>const element = document.getElementById("element")</script><script>${data["application/javascript"]}</script>`)
  }
  if (data["application/json"] !== undefined) return h("pre.value", {}, JSON.stringify(data["application/json"], null, 2))
  if (typeof data["text/markdown"] === "string") return h("div.markdown", {}, formatted(data["text/markdown"]))
  if (typeof data["text/latex"] === "string") return h("div.markdown", {}, latex(data["text/latex"]))
  if (typeof data["text/plain"] === "string") return h("pre.value", {}, coloured(data["text/plain"]))
  return h("pre.value", {}, `(${Object.keys(data).join(", ") || "nothing to show"})`)
}

function base64(text) {
  let bytes = ""
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte)
  return btoa(bytes)
}

// Tables as pandas writes them are plain but for the way in which they say where text stands.
function ofHtml(html, isolated) {
  const text = html.replace(/<style scoped>[\s\S]*?<\/style>/g, "").replace(/ style="text-align: (left|right|center);?"/g, "")
  if (isolated || /<\s*(script|style|link|meta|base|svg|iframe|form|button|input)|[\s"'/](on\w+|style)\s*=/i.test(text)) return framed(html)
  const parsed = new DOMParser().parseFromString(text, "text/html")
  return isPlain(parsed) ? h("div.html", {}, ...copied(parsed.body)) : framed(html)
}

function isPlain(parsed) {
  if (parsed.head.querySelector("script, style, link, meta, base")) return false
  return [...parsed.body.querySelectorAll("*")].every(element =>
    TAGS.has(element.tagName)
    && ![...element.attributes].some(({ name }) => name.startsWith("on") || name === "style")
    && (element.tagName !== "IMG" || /^data:image\//.test(element.getAttribute("src") || "")))
}

function copied(parent) {
  return [...parent.childNodes].map(node => {
    if (node.nodeType === Node.TEXT_NODE) return node.textContent
    if (node.nodeType !== Node.ELEMENT_NODE) return ""
    const element = document.createElement(node.tagName)
    for (const { name, value } of node.attributes) if (ATTRIBUTES.has(name)) element.setAttribute(name, value)
    if (node.tagName === "IMG") element.src = node.getAttribute("src")
    if (node.tagName === "A" && /^https?:/.test(node.getAttribute("href") || "")) {
      element.href = node.getAttribute("href")
      element.rel = "noopener noreferrer"
      element.target = "_blank"
    }
    element.append(...copied(node))
    return element
  })
}

function framed(content) {
  const frame = h("iframe.framed", { sandbox: "allow-scripts", src: "/frame.html", title: "interactive output", loading: "eager" })
  const hear = event => {
    if (!frame.isConnected) removeEventListener("message", hear)
    if (event.source !== frame.contentWindow) return
    if (event.data === "ready") frame.contentWindow.postMessage(content, "*")
    else if (event.data > 0) frame.height = Math.min(Math.ceil(event.data), HIGHEST)
  }
  addEventListener("message", hear)
  return frame
}
