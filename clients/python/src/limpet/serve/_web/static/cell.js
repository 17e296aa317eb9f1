// One call: its code, what it shows while it runs, and what became of it.
import { button, h, icon, replace, size, tell } from "./dom.js"
import { coloured, settled } from "./ansi.js"
import { at, download, picture, post } from "./api.js"
import { highlighted } from "./highlight.js"
import { shown } from "./output.js"

const LIMIT = 50000 // characters after which a piece of a stream is left as it is
const LINES = 20000 // of a stream: a browser lays out each, and a million of them take a gigabyte

const PICTURE = 4e6 // bytes of an artifact that is shown

const piece = () => Object.assign(h("span"), { raw: "" })

// Lines that are complete may be left; the last one may still be written over.
function write(box, text) {
  const last = box.lastElementChild
  const raw = last.raw + text
  const end = raw.length > LIMIT ? raw.lastIndexOf("\n") + 1 : 0
  last.raw = end ? raw.slice(0, end) : raw
  replace(last, coloured(settled(last.raw)))
  if (!end) return
  last.lines = last.raw.split("\n").length - 1
  box.append(piece())
  forget(box)
  write(box, raw.slice(end))
}

// Removes pieces that are far above the last one, and says how many lines they had.
function forget(box) {
  const pieces = [...box.children].filter(each => each.lines)
  let lines = pieces.reduce((sum, each) => sum + each.lines, 0)
  for (const first of pieces.slice(0, -1)) {
    if (lines <= LINES) break
    lines -= first.lines
    box.gone = (box.gone || 0) + first.lines
    first.remove()
  }
  if (!box.gone) return
  if (!box.note) box.prepend(box.note = h("span.note"))
  box.note.textContent = `… ${box.gone} lines before these are not shown.\n`
}

export class Cell {
  // `edit(code)` puts code where it can be changed, `again(code)` runs it once more.
  constructor({ run_id, session, code, kind, language }, { edit, again, base }) {
    this.id = run_id
    this.session = session
    this.code = Array.isArray(code) ? code.join(" ") : code
    this.running = true
    this.displays = []
    this.count = h("span.count", { title: "running" }, "[*]")
    const where = session === base ? "" : session.slice(base.length + 1)
    const label = kind === "command" ? "$" : where
    this.code_view = h("pre.code", { tabIndex: 0 }, highlighted(this.code, kind === "python" && !language ? "python" : "text"))
    this.outputs = h("div.outputs", { "aria-live": "polite" })
    this.footer = h("div.foot")
    this.element = h("article.cell.running", { "data-run": run_id },
      h("div.gutter", {}, this.count, label && h("span.where", { title: session }, label), language && h("span.where", {}, language)),
      h("div.content", {},
        h("div.input", {}, this.code_view, h("div.tools", {},
          button("copy", "Copy the code", () => navigator.clipboard?.writeText(this.code).then(() => tell("Copied"))),
          button("edit", "Edit the code", () => edit(this.code)),
          button("play", "Run it again", () => again(this.code)))),
        this.outputs, this.footer))
  }

  output({ stream, text }) {
    if (this.clearing) this.clear()
    let box = this.outputs.lastElementChild
    if (!box?.classList.contains(stream)) {
      box = h(`pre.stream.${stream}`, {}, piece())
      this.outputs.append(box)
    }
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40
    write(box, text)
    if (atEnd) box.scrollTop = box.scrollHeight
  }

  display(display) {
    const empty = !Object.keys(display.data).length
    if (display.update && !display.display_id && empty) {
      if (display.metadata?.wait) this.clearing = true
      else this.clear()
      return
    }
    if (this.clearing) this.clear()
    const element = h("div.display", {}, shown(display))
    const known = display.update && this.displays.find(each => each.id === display.display_id)
    if (known) {
      known.element.replaceWith(element)
      known.element = element
      return
    }
    this.displays.push({ id: display.display_id, element })
    this.hasResult ||= display.is_result
    this.outputs.append(element)
  }

  clear() {
    replace(this.outputs)
    this.displays = []
    this.clearing = false
  }

  ask({ ask, kind, prompt, name, args, kwargs }) {
    if (kind === "tool") {
      const said = [...args.map(value => JSON.stringify(value)), ...Object.entries(kwargs).map(([key, value]) => `${key}=${JSON.stringify(value)}`)]
      this.outputs.append(h("div.ask", { "data-ask": ask }, `waits for the function ${name}(${said.join(", ")}) of another client`))
      return
    }
    const input = h("input", { type: kind === "password" ? "password" : "text", "aria-label": prompt || "input", autocomplete: "off" })
    const send = line => post(`${at(this.session)}/answers`, { run_id: this.id, ask, line }).catch(error => tell(error.message, "error"))
    const form = h("form.ask", { "data-ask": ask, onsubmit: event => { event.preventDefault(); send(input.value) } },
      h("label", {}, prompt || "input"), input, h("button.primary", { type: "submit" }, "Send"),
      h("button", { type: "button", title: "End of input", onclick: () => send(null) }, "End"))
    this.outputs.append(form)
    input.focus()
  }

  answered({ ask }) { this.outputs.querySelector(`[data-ask="${ask}"]`)?.remove() }

  result(record) {
    this.end()
    this.count.textContent = record.execution_count === null ? "" : `[${record.execution_count}]`
    this.count.title = `call ${record.execution_count}`
    if (record.result !== null && !this.hasResult) this.outputs.append(h("pre.value", {}, coloured(record.result)))
    if (record.error) this.error(record)
    if (record.truncated) this.outputs.append(h("p.note", {}, `Not all of the output is shown. ${[record.stdout_file, record.stderr_file].filter(Boolean).join(" and ")} ${record.stdout_file || record.stderr_file ? "has it." : ""}`))
    if (record.state !== "kept") this.outputs.append(stateBanner(record))
    const files = Object.entries(record.artifacts)
    if (files.length) this.outputs.append(h("div.artifacts", {}, files.flatMap(([path, url]) => artifact(path, url, record.artifact_info[path]))))
    replace(this.footer, h("span", { title: `CPU ${record.usage.cpu.toFixed(3)} s, memory ${size(record.usage.peak_memory)}` },
      `${record.status === "ok" ? "" : `${record.status} · `}${duration(record.duration)}`))
    this.element.classList.toggle("failed", record.status !== "ok")
  }

  error({ error, status }) {
    const trace = error.traceback.trimEnd()
    const last = [error.name, error.message].filter(Boolean).join(": ")
    this.outputs.append(h("div.error", {},
      h("strong", {}, ["error", error.name.toLowerCase()].includes(status) ? error.name : `${status}: ${error.name}`),
      h("pre", {}, coloured(trace.includes(error.name) ? trace : [trace, last].filter(Boolean).join("\n")))))
  }

  problem({ name, detail }) {
    this.end()
    this.count.textContent = "[!]"
    this.element.classList.add("failed")
    this.outputs.append(h("div.error", {}, h("strong", {}, name), h("pre", {}, detail)))
  }

  end() {
    this.running = false
    this.element.classList.remove("running")
    for (const form of this.outputs.querySelectorAll(".ask")) form.remove()
  }
}

function stateBanner({ state, rolled_back_to: back, not_restored: missing }) {
  const text = state === "lost" ? "The variables are lost: the next call begins with none. Files are kept."
    : `The variables are as ${back?.execution_count ? `call ${back.execution_count} left them` : "they were before the first call"}. Files are kept.`
  return h(`div.state.${state}`, { role: "alert" }, icon("reset"), h("span", {}, text, missing?.length ? ` Not restored: ${missing.join(", ")}.` : ""))
}

// A button that saves it; a picture is also shown.
function artifact(path, url, info) {
  const name = path.slice(path.lastIndexOf("/") + 1)
  const shown = info?.mime_type?.startsWith("image/") && info.size < PICTURE && h("img.figure", { alt: name, hidden: true })
  if (shown) {
    picture(url.replace(/^\/v1/, ""), info.mime_type).then(address => {
      shown.src = address
      shown.hidden = false
    }, () => {}) // it has gone meanwhile
  }
  return [shown, h("button.artifact", { type: "button", title: path, onclick: () => download(url.replace(/^\/v1/, ""), name).catch(error => tell(error.message, "error")) },
    icon("download"), name, info && h("small", {}, size(info.size)))]
}

function duration(seconds) {
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
}

