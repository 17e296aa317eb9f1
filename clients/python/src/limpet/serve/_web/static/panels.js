// What is beside the console: variables, files, the tree of states, processes.
import { ago, ask, button, h, icon, look, replace, size, tell, worded } from "./dom.js"
import { at, download, encoded, get, picture, post, put, remove, request } from "./api.js"

const told = work => work.catch(error => tell(error.message, "error"))

export class Variables {
  constructor(session) {
    this.session = session
    this.filter = h("input.filter", { placeholder: "Filter variables", "aria-label": "Filter variables", oninput: () => this.show() })
    this.body = h("div.rows")
    this.element = h("section.panel", {}, this.filter, this.body)
    this.names = []
  }

  async refresh() {
    const { names, more } = await get(`${at(this.session)}/namespace`)
    this.more = more
    this.names = names
    this.show()
  }

  show() {
    const wanted = this.filter.value.toLowerCase()
    const names = this.names.filter(each => each.name.toLowerCase().includes(wanted))
    if (!names.length) {
      replace(this.body, h("p.hint", {}, this.names.length ? "No variable of that name." : "No variables yet."))
      return
    }
    replace(this.body, h("table.variables", {}, h("tbody", {}, names.map(variable))),
      this.more > 0 && h("p.hint", {}, `and ${this.more} more`))
  }
}

function variable({ name, type, shape, dtype, bytes, repr }) {
  const about = [shape && (shape.length ? shape.join(" × ") : "scalar"), dtype, bytes !== null && size(bytes)].filter(Boolean).join(" · ")
  return h("tr", { title: `${name}: ${type}` }, h("td.name", {}, name),
    h("td", {}, h("div.type", {}, type.split(".").pop(), about && h("small", {}, ` ${about}`)), repr !== null && h("code", {}, repr)))
}

const PICTURES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml" }
const SHOWN = 200_000 // bytes of a text that are looked at
const OWN = "/session/.limpet" // what Limpet keeps there for itself
const ROOTS = [["Session", "/session"], ["Data", "/data"], ["Artifacts", "/session/artifacts"]]

export class Files {
  constructor(session) {
    this.session = session.split("/")[0]
    this.path = "/session"
    this.roots = h("div.chips", { role: "tablist" }, ROOTS.map(([name, path]) => h("button", { type: "button", "data-path": path, onclick: () => this.go(path) }, name)))
    this.crumbs = h("div.crumbs")
    this.body = h("div.rows")
    this.picker = h("input", { type: "file", multiple: true, hidden: true, onchange: () => { this.upload([...this.picker.files]); this.picker.value = "" } })
    this.element = h("section.panel.files", {}, this.roots, h("div.bar", {}, this.crumbs,
      button("folder", "New directory", () => told(this.mkdir())), button("upload", "Upload files", () => this.picker.click()), this.picker),
    this.body, h("p.hint", {}, worded("The arrow above uploads files into this directory.", "Drop files anywhere on the page to upload them here.")))
  }

  get url() { return `${at(this.session)}/files/${encoded(this.path)}` }

  go(path) {
    this.path = path
    return told(this.refresh())
  }

  async refresh() {
    for (const chip of this.roots.children) chip.classList.toggle("on", chip.dataset.path === this.path)
    const parts = this.path.split("/").filter(Boolean)
    replace(this.crumbs, parts.map((part, index) => {
      const path = "/" + parts.slice(0, index + 1).join("/")
      return h("button", { type: "button", onclick: () => this.go(path) }, part)
    }))
    let entries = []
    try {
      ({ entries } = await get(this.url))
    } catch (error) {
      if (error.status !== 404) throw error
    }
    entries = entries.filter(entry => entry.path !== OWN)
    entries.sort((one, other) => (other.type === "directory") - (one.type === "directory") || one.name.localeCompare(other.name))
    replace(this.body, entries.length ? entries.map(entry => this.row(entry)) : h("p.hint", {}, "Nothing here."))
  }

  row(entry) {
    const isDirectory = entry.type === "directory"
    const open = () => isDirectory ? this.go(entry.path) : told(this.show(entry))
    return h("div.row", {},
      h("button.entry", { type: "button", onclick: open, title: `${entry.path}\n${new Date(entry.modified * 1000).toLocaleString()}` },
        icon(isDirectory ? "folder" : "file"), h("span.name", {}, entry.name), h("small", {}, isDirectory ? "" : size(entry.size))),
      button("trash", `Remove ${entry.name}`, () => told(this.remove(entry))))
  }

  // A picture or the beginning of a text in a dialog; anything else is for the browser to save.
  async show(entry) {
    const path = `${at(this.session)}/files/${encoded(entry.path)}`
    const save = () => told(download(path, entry.name))
    const type = PICTURES[entry.name.split(".").pop().toLowerCase()]
    let element = type && h("img.figure", { src: await picture(path, type), alt: entry.name })
    if (!element) {
      const bytes = entry.size ? await (await request("GET", path, undefined, { Range: `bytes=0-${SHOWN - 1}` })).arrayBuffer() : new ArrayBuffer(0)
      const text = new TextDecoder().decode(bytes, { stream: true })
      if (text.includes("\0") || text.includes("\ufffd")) {
        save()
        return
      }
      element = h("pre.value", { tabIndex: 0 }, text, entry.size > SHOWN && h("p.note", {}, `… ${size(entry.size - SHOWN)} more`))
    }
    look(entry.name, element, h("button", { type: "button", onclick: save }, icon("download"), "Save"))
  }

  async remove(entry) {
    if (!await ask(`Remove ${entry.name}?`, { label: "Remove", danger: true })) return
    await remove(`${at(this.session)}/files/${encoded(entry.path)}?recursive=true`)
    await this.refresh()
  }

  async mkdir() {
    const attempt = async name => name && request("PUT", `${this.url}/${encodeURIComponent(name)}?directory=true`)
    if (await ask("Name of the directory", { value: "", attempt })) await this.refresh()
  }

  async upload(files) {
    const inData = this.path === "/data" || this.path.startsWith("/data/")
    for (const file of files) {
      try {
        const path = `${this.path.slice("/data".length)}/${file.name}`.replace(/^\//, "")
        if (inData) await request("POST", `${at(this.session)}/data?path=${encodeURIComponent(path)}`, file, { "Content-Type": "application/octet-stream" })
        else await put(`${this.url}/${encodeURIComponent(file.name)}`, file)
        tell(`Uploaded ${file.name}`)
      } catch (error) {
        tell(`${file.name}: ${error.message}`, "error")
      }
    }
    await told(this.refresh())
  }
}

export class History {
  // `show(session)` looks at a session or branch.
  constructor(session, show) {
    this.session = session
    this.base = session.split("/")[0]
    this.look = show
    this.body = h("div.rows")
    this.branches = h("div.rows")
    this.compared = h("div.compared")
    this.element = h("section.panel", {}, h("div.bar", {},
      button("flag", "Take a checkpoint of the variables", () => told(this.checkpoint()), "Checkpoint"),
      button("branch", "Open a branch with the current variables", () => told(this.branch()), "Branch")), this.body, this.branches, this.compared)
  }

  async refresh() {
    const branches = get(`${at(this.base)}/branches`).then(({ branches }) => replace(this.branches, h("h3", {}, "Branches and contexts"),
      this.place(this.base, null), branches.map(each => this.place(each.session, each))))
    const waiting = setTimeout(() => replace(this.body, h("p.hint", {}, "Waits for the call that runs …")), 400)
    try {
      this.states((await get(`${at(this.session)}/checkpoints`)).checkpoints)
    } finally {
      clearTimeout(waiting)
    }
    await branches
  }

  states(checkpoints) {
    const known = new Set(checkpoints.map(each => each.id))
    const below = parent => checkpoints.filter(each => (known.has(each.parent) ? each.parent : null) === parent)
    const tree = parent => below(parent).map(each => h("li", {}, this.node(each), below(each.id).length ? h("ul", {}, tree(each.id)) : ""))
    replace(this.body, checkpoints.length ? h("ul.tree", {}, tree(null)) : h("p.hint", {}, "No checkpoints yet. A checkpoint keeps all variables; going back takes milliseconds."))
  }

  node(each) {
    const name = each.name || (each.automatic ? "automatic" : each.id.slice(0, 8))
    const where = each.session === this.base ? "" : ` of ${each.session.slice(this.base.length + 1)}`
    return h(`div.node${each.automatic ? ".automatic" : ""}`, {},
      h("button.about", { type: "button", onclick: () => told(this.rollback(each, name)), title: `Go back to ${name}\n${new Date(each.created * 1000).toLocaleString()}` }, icon("flag"), h("span.name", {}, name),
        h("small", {}, `call ${each.execution_count}${where} · ${ago(Date.now() / 1000 - each.created)}${each.files ? " · with files" : ""}`)),
      button("reset", `Go back to ${name}`, () => told(this.rollback(each, name))),
      button("branch", `Branch from ${name}`, () => told(this.branch(each.id))),
      button("trash", `Drop ${name}`, () => told(remove(`${at(this.session)}/checkpoints/${each.id}`).then(() => this.refresh()))))
  }

  place(session, row) {
    const name = row ? session.slice(this.base.length + 1) : "main"
    const isHere = session === this.session
    return h(`div.node${isHere ? ".here" : ""}`, {},
      h("button.about", { type: "button", onclick: () => this.look(session), title: `Look at ${session}` },
        icon(row?.language && row.language !== "python" ? "terminal" : "branch"), h("span.name", {}, name),
        h("small", {}, row ? `${row.language || "python"} · call ${row.execution_count}` : "the session itself")),
      row && !row.language && button("copy", "Compare its variables with those of the session", () => told(this.compare(session))),
      row && !row.language && button("download", `Take over ${name}: its variables become those of the session`, () => told(this.commit(session, name)), "Commit"),
      row && button("close", `Close ${name}`, () => told(remove(at(session)).then(() => { if (isHere) this.look(this.base); else return this.refresh() }))))
  }

  async checkpoint() {
    const files = h("input", { type: "checkbox" })
    const name = await ask("Name of the checkpoint", {
      value: "", label: "Checkpoint", extra: h("label.check", {}, files, "with the files of /session"),
      attempt: name => post(`${at(this.session)}/checkpoints`, { name: name || null, files: files.checked }),
    })
    if (name !== null) await this.refresh()
  }

  async rollback(each, name) {
    if (!await ask(`Go back to ${name}? Later changes of the variables${each.files ? " and files" : ""} are lost.`, { label: "Go back", danger: true })) return
    await post(`${at(this.session)}/rollback`, { checkpoint: each.id })
    await this.refresh()
  }

  async branch(from = null) {
    let opened
    const attempt = async name => { opened = name && await post(`${at(this.base)}/branches`, { name, at: from }) }
    if (await ask("Name of the branch", { value: "try", label: "Branch", attempt })) this.look(opened.session)
  }

  async commit(session, name) {
    if (!await ask(`Make the variables of ${name} those of the session?`, { label: "Commit" })) return
    await post(`${at(this.base)}/branches/${encodeURIComponent(name)}/commit`)
    this.look(this.base)
  }

  async compare(session) {
    const [one, other] = await Promise.all([get(`${at(this.base)}/namespace`), get(`${at(session)}/namespace`)])
    const said = each => each && [each.type.split(".").pop(), each.shape?.join("×"), each.repr].filter(Boolean).join(" ")
    const [left, right] = [one, other].map(({ names }) => new Map(names.map(each => [each.name, said(each)])))
    const differing = [...new Set([...left.keys(), ...right.keys()])].filter(name => left.get(name) !== right.get(name))
    replace(this.compared, h("h3", {}, `main and ${session.slice(this.base.length + 1)}`), differing.length
      ? h("table.variables", {}, h("thead", {}, h("tr", {}, ["", "main", session.slice(this.base.length + 1)].map(text => h("th", {}, text)))),
        h("tbody", {}, differing.map(name => h("tr", {}, h("td.name", {}, name), h("td", {}, left.get(name) || "–"), h("td", {}, right.get(name) || "–")))))
      : h("p.hint", {}, "Their variables look the same."))
  }
}

export class Processes {
  // `look(process)` shows what a process writes.
  constructor(session, look) {
    this.session = session.split("/")[0]
    this.look = look
    this.body = h("div.rows")
    this.command = h("input", { placeholder: "Command to start in the background", "aria-label": "Command", spellcheck: "false" })
    this.element = h("section.panel", {}, h("form.bar", { onsubmit: event => { event.preventDefault(); told(this.start()) } },
      this.command, h("button.primary", { type: "submit" }, "Start")), this.body)
  }

  async start() {
    if (!this.command.value.trim()) return
    await post(`${at(this.session)}/processes`, { command: this.command.value })
    this.command.value = ""
    await this.refresh()
  }

  async refresh() {
    const { processes } = await get(`${at(this.session)}/processes`)
    replace(this.body, processes.length ? processes.map(each => this.row(each)) : h("p.hint", {}, "Nothing runs beside the code."))
  }

  row(each) {
    const how = each.running ? "running" : each.signal ? `ended by signal ${each.signal}` : `ended with ${each.exit_code}`
    return h(`div.node${each.running ? "" : ".ended"}`, {},
      h("button.about", { type: "button", disabled: each.kind !== "process", title: each.command, onclick: () => this.look(each) },
        icon("terminal"), h("span.name", {}, each.name || each.command),
        h("small", {}, `${how}${each.age ? ` · ${ago(each.age).replace(" ago", "")}` : ""}${each.output ? ` · ${size(each.output)}` : ""}`)),
      each.running && each.id && each.kind === "process" && button("stop", "End it", () =>
        told(post(`${at(this.session)}/processes/${each.id}/signal`, { signal: "TERM" }).then(() => this.refresh()))))
  }
}
