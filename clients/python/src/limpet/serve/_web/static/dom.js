// Elements, made in one expression: h("button.primary", { onclick, title }, "Run").
export function h(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".")
  const element = document.createElement(tag || "div")
  if (classes.length) element.className = classes.join(" ")
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value)
    else if (name in element && typeof value !== "string") element[name] = value
    else element.setAttribute(name, value === true ? "" : value)
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false))
  return element
}

// Gives an element other children. The keyboard's focus stays: on the child that had it, on the new one of the same name, or
// else on the first.
export function replace(element, ...children) {
  const focused = element.contains(document.activeElement) && document.activeElement !== element ? document.activeElement : null
  element.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined && child !== false))
  if (!focused) return
  const known = each => each.tagName + (each.title || each.getAttribute("href") || each.textContent)
  const named = () => [...element.querySelectorAll(focused.tagName)].find(each => known(each) === known(focused))
  const next = focused.isConnected ? focused : named() || element.querySelector("button, a, input")
  next?.focus({ preventScroll: true })
}

const PATHS = {
  play: "M7 5v14l12-7z",
  stop: "M7 7h10v10H7z",
  reset: "M12 5V2L7 6l5 4V7a5 5 0 1 1-5 5H5a7 7 0 1 0 7-7z",
  plus: "M11 5h2v6h6v2h-6v6h-2v-6H5v-2h6z",
  close: "M6.4 5 5 6.400 10.6 12 5 17.6 6.400 19l5.600-5.6 5.600 5.600 1.400-1.400-5.600-5.600L19 6.400 17.600 5 12 10.600z",
  menu: "M4 6h16v2H4zm0 5h16v2H4zm0 5h16v2H4z",
  theme: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2v14a7 7 0 0 1 0-14z",
  terminal: "M4 5h16v14H4zm2 3v1.500l3 2.500-3 2.500V16l5-4zm6 6v2h6v-2z",
  flag: "M6 3v18h2v-7h10l-2.500-4L18 6H8V3z",
  branch: "M7 3a3 3 0 0 0-1 5.800v6.400a3 3 0 1 0 2 0V14h6a4 4 0 0 0 4-4V8.800a3 3 0 1 0-2 0V10a2 2 0 0 1-2 2H8V8.800A3 3 0 0 0 7 3z",
  download: "M11 3h2v9l3-3 1.400 1.400L12 16l-5.400-5.600L8 9l3 3zM5 18h14v2H5z",
  upload: "M11 17h2V8l3 3 1.400-1.400L12 4 6.600 9.600 8 11l3-3zM5 18h14v2H5z",
  folder: "M3 5h7l2 2h9v12H3z",
  file: "M6 3h8l4 4v14H6zm8 1.500V8h3.500z",
  trash: "M9 3h6l1 2h4v2H4V5h4zM6 8h12l-1 13H7z",
  copy: "M8 3h11v13h-2V5H8zM5 7h10v14H5z",
  help: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm-1 12h2v2h-2zm1-9a3.500 3.500 0 0 1 2 6.300c-.8.6-1 .9-1 1.700h-2c0-1.800.8-2.600 1.600-3.200A1.500 1.500 0 1 0 10.500 9.500h-2A3.500 3.500 0 0 1 12 6z",
  edit: "M4 17v3h3L18 9l-3-3zm12.500-12.500 3 3L21 6l-3-3z",
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  svg.setAttribute("viewBox", "0 0 24 24")
  svg.setAttribute("class", "icon")
  svg.setAttribute("aria-hidden", "true")
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path")
  path.setAttribute("d", PATHS[name])
  svg.append(path)
  return svg
}

export function button(name, title, onclick, text = "", more = "") {
  return h(`button.${text ? "labelled" : "bare"}${more}`, { title, "aria-label": title, onclick, type: "button" }, icon(name), text && h("span", {}, text))
}

// Says something for a moment, in a corner; `kind` is "error" or "".
export function tell(text, kind = "") {
  let place = document.querySelector(".toasts")
  if (!place) document.body.append(place = h("div.toasts", { role: "status" }))
  const toast = h(`div.toast${kind ? "." + kind : ""}`, {}, text)
  place.append(toast)
  setTimeout(() => toast.remove(), kind ? 8000 : 3000)
}

// A question in the page; what was typed, or null. Without `value` it is answered with true or null. Where `attempt(typed)`
// fails the dialog says why and stays, with what was typed.
export function ask(title, { value, label = "OK", danger = false, extra = null, attempt = null } = {}) {
  return new Promise(resolve => {
    const input = value === undefined ? null : h("input", { value, "aria-label": title, spellcheck: "false" })
    const answer = result => { dialog.close(); dialog.remove(); resolve(result) }
    const said = h("p.message", { role: "alert" })
    const submit = async event => {
      event.preventDefault()
      const typed = input ? input.value : true
      go.disabled = true
      try {
        await attempt?.(typed)
      } catch (error) {
        said.textContent = error.message
        go.disabled = false
        input?.select()
        return
      }
      answer(typed)
    }
    const go = h(danger ? "button.danger" : "button.primary", { type: "submit" }, label)
    const dialog = h("dialog", { oncancel: () => answer(null) },
      h("form", { onsubmit: submit },
        h("h2", {}, title), input, extra, said,
        h("div.actions", {},
          h("button", { type: "button", onclick: () => answer(null) }, "Cancel"), go)))
    document.body.append(dialog)
    dialog.showModal()
    input?.select()
  })
}

// Shows something large in a dialog, with buttons of its own.
export function look(title, element, ...buttons) {
  const dialog = h("dialog.look", { onclose: () => dialog.remove() }, h("h2", {}, title), element,
    h("div.actions", {}, ...buttons, h("button.primary", { type: "button", onclick: () => dialog.close() }, "Close")))
  document.body.append(dialog)
  dialog.showModal()
}

// Words for a finger, or for keys and a pointer.
export const worded = (touched, otherwise) => matchMedia("(hover: none)").matches ? touched : otherwise

export function size(bytes) {
  if (bytes === null || bytes === undefined) return ""
  const units = ["B", "KB", "MB", "GB", "TB"]
  let at = 0
  while (bytes >= 1000 && at < units.length - 1) { bytes /= 1024; at++ }
  return `${bytes < 10 && at ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`
}

export function ago(seconds) {
  if (seconds < 60) return "just now"
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`
  return `${Math.round(seconds / 86400)} d ago`
}

export function span(seconds) {
  return seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`
}
