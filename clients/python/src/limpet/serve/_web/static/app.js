// The page: signing in, the list of sessions, and one session with what is beside it.
import { ago, ask, button, h, icon, replace, size, span, tell } from "./dom.js"
import { at, get, key, post, remove, runId } from "./api.js"
import { Chat } from "./chat.js"
import { Console } from "./console.js"
import { Files, History, Processes, Variables } from "./panels.js"
import { Terminal } from "./terminal.js"

const THEME = "limpet-theme"
const TABS = [["Variables", "1"], ["Files", "2"], ["History", "3"], ["Processes", "4"], ["Chat", "5"]]
const SHORTCUTS = [
  ["Shift+Enter", "run the code"], ["Tab", "complete, or indent"], ["↑ ↓", "earlier code, in the first and last line"],
  ["Ctrl+.", "interrupt"], ["Ctrl+`", "open or hide the terminal"], ["Alt+1 … 5", "variables, files, history, processes, chat"],
  ["Ctrl+L", "clear the console"], ["Esc", "back to the code"],
]
const SOON = 120 // seconds before its end in which a session that nobody uses says so
const NEAR = 10000 // ms by which what is known of a session may be late
const app = document.getElementById("app")
let view = null

function theme(next) {
  if (next) localStorage.setItem(THEME, next)
  const chosen = localStorage.getItem(THEME)
  if (chosen) document.documentElement.dataset.theme = chosen
}

function otherTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches
  theme(dark ? "light" : "dark")
}

function signIn(message = "") {
  view?.close()
  view = null
  const input = h("input", { type: "password", placeholder: "e2b_…", "aria-label": "Key", autocomplete: "current-password", required: true })
  const stay = h("input", { type: "checkbox" })
  const said = h("p.message", { role: "alert" }, message)
  replace(app, h("div.signin", {}, h("form", { onsubmit: async event => {
    event.preventDefault()
    key.set(input.value.trim(), stay.checked)
    try {
      await get("/sessions")
      start()
    } catch (error) {
      key.clear()
      said.textContent = error.message
      input.select()
    }
  } }, h("img", { src: "icon.svg", alt: "" }), h("h1", {}, "Limpet"), h("p", {}, "Live Python sessions. Sign in with your key."),
  input, h("label.check", {}, stay, "stay signed in on this computer"), h("button.primary", { type: "submit" }, "Sign in"), said)))
  input.focus()
}

class Page {
  constructor() {
    this.sessions = h("nav.list", { "aria-label": "Sessions" })
    this.side = h("aside.side", {}, h("div.brand", {}, h("img", { src: "icon.svg", alt: "" }), "Limpet"),
      button("plus", "New session", () => this.create(), "New session", ".primary"), this.sessions,
      h("div.bottom", {}, button("theme", "Dark or light", otherTheme), button("help", "Keys", () => this.help()),
        key.get() && h("button", { type: "button", onclick: () => { key.clear(); signIn() } }, "Sign out")))
    this.main = h("div.main")
    replace(app, h("div.page", {}, this.side, h("div.shade", { onclick: () => this.drawer(false) }), this.main))
    this.timer = setInterval(() => document.visibilityState === "visible" && this.refresh(), 5000)
    this.onhash = () => this.open(wanted())
    addEventListener("hashchange", this.onhash)
  }

  close() {
    clearInterval(this.timer)
    clearTimeout(this.later)
    removeEventListener("hashchange", this.onhash)
    this.place?.close()
  }

  drawer(open) { document.querySelector(".page").classList.toggle("drawn", open) }

  async refresh() {
    try {
      const { sessions } = await get("/sessions")
      this.rows = sessions
      this.show()
      this.place?.idle(sessions)
      return sessions
    } catch (error) {
      if (error.status === 401) signIn("This key is not valid any more.")
      return this.rows || []
    }
  }

  // Calls begin and end quickly: once for many of them.
  soon() {
    this.later ||= setTimeout(() => { this.later = null; this.refresh() }, 500)
  }

  // Sessions themselves, the newest first.
  tops() { return this.rows.filter(row => !row.session.includes("/")).sort((one, other) => other.created - one.created) }

  // The session of somebody who has named none: the newest, or one to begin with.
  async first() {
    let name = this.tops()[0]?.session
    if (!name) {
      name = fresh()
      await post("/sessions", { name })
      await this.refresh()
    }
    history.replaceState(null, "", `#${encodeURIComponent(name)}`)
    return name
  }

  show() {
    const tops = this.tops()
    replace(this.sessions, tops.length ? tops.map(row => h(`a.session${row.session === this.place?.base ? ".here" : ""}`, { href: `#${encodeURIComponent(row.session)}` },
      h(`span.dot.${row.status}`, { title: row.status }), h("span.name", {}, row.session),
      h("small", {}, row.status === "running" ? "running" : ago(row.idle), row.memory ? ` · ${size(row.memory)}` : ""),
      button("close", `End ${row.session}`, event => { event.preventDefault(); this.end(row.session) }))) : h("p.hint", {}, "No sessions."))
  }

  async create() {
    const attempt = async name => name && post("/sessions", { name })
    const name = await ask("Name of the session", { value: fresh(), label: "Open", attempt })
    if (!name) return
    location.hash = encodeURIComponent(name)
    await this.refresh()
  }

  // A session of that name again, with the code that was typed into the one that has ended.
  async again(session, code) {
    try {
      await post("/sessions", { name: session })
      await this.refresh()
      await this.open(session)
      this.place.console.editor.value = code
    } catch (error) {
      tell(error.message, "error")
    }
  }

  async end(session) {
    if (!await ask(`End ${session}? Its variables and files are removed.`, { label: "End it", danger: true })) return
    await remove(at(session)).catch(error => tell(error.message, "error"))
    if (this.place?.base === session) location.hash = ""
    await this.refresh()
  }

  help() { ask("Keys", { label: "Close", extra: h("dl.keys", {}, SHORTCUTS.flatMap(([keys, what]) => [h("dt", {}, keys), h("dd", {}, what)])) }) }

  async open(session) {
    this.drawer(false)
    this.place?.close()
    this.place = null
    if (session) {
      try {
        const { options } = await get(at(session))
        this.place = new Place(session, this, options)
        replace(this.main, this.place.element)
        this.place.console.editor.focus()
      } catch (error) {
        tell(error.message, "error")
      }
    }
    if (!this.place) this.welcome()
    if (this.rows) this.show()
  }

  welcome() {
    replace(this.main, h("div.welcome", {}, h("header.top", {}, button("menu", "Sessions", () => this.drawer(true), "", ".burger")),
      h("div.middle", {}, h("img", { src: "icon.svg", alt: "" }), h("h1", {}, "Python that stays alive"),
        h("p", {}, "A session keeps variables, imports and figures in memory between calls, and takes checkpoints of them in milliseconds."),
        button("plus", "New session", () => this.create(), "New session", ".primary"))))
  }
}

// One session, or a branch of it: the console, and what is beside it.
class Place {
  constructor(session, page, { ttl, ttl_action: action }) {
    this.page = page
    this.ttl = action === "close" ? ttl : null
    this.session = session
    this.base = session.split("/")[0]
    this.pending = new Set()
    this.chat = new Chat(session, () => this.tab("Chat"))
    this.console = new Console(session, {
      chat: this.chat, changed: what => this.changed(what), gone: data => this.gone(data),
      status: status => { this.status(status); page.soon() },
    })
    const look = where => { location.hash = encodeURIComponent(where) }
    this.panels = {
      Chat: this.chat,
      Variables: new Variables(session), Files: new Files(session), History: new History(session, look),
      Processes: new Processes(session, process => this.terminal(process)),
    }
    this.tabs = h("div.tabs", { role: "tablist" }, TABS.map(([name, digit]) => h("button", {
      type: "button", role: "tab", "data-tab": name, title: `${name} (Alt+${digit})`, hidden: name === "Chat", onclick: () => this.tab(name),
    }, name)))
    this.panel = h("div.beside-body")
    this.beside = h("aside.beside", {}, this.tabs, this.panel)
    this.drawer = h("section.drawer", { hidden: true, "aria-label": "Terminal" })
    this.columns = h("div.columns", {}, h("div.center", {}, this.console.element, this.drawer), this.beside)
    this.badge = h("span.status", {}, h("span.dot.idle"), h("span", {}, "idle"))
    const branch = session === this.base ? [] : [h("span.slash", {}, "/"), h("span.branch", {}, icon("branch"), session.slice(this.base.length + 1))]
    this.top = h("header.top", {}, button("menu", "Sessions", () => page.drawer(true), "", ".burger"),
      h("h1", {}, h("a", { href: `#${encodeURIComponent(this.base)}` }, this.base), ...branch), this.badge, h("span.grow"),
      button("flag", "Take a checkpoint", () => this.panels.History.checkpoint().then(() => this.tab("History"), error => tell(error.message, "error")), "Checkpoint"),
      button("reset", "Start the interpreter anew", () => this.reset(), "Reset"),
      button("download", "Install packages", () => this.install(), "Install"),
      button("terminal", "Terminal (Ctrl+`)", () => this.toggleTerminal(), "Terminal"))
    const over = whether => this.element.classList.toggle("over", whether)
    this.element = h("div.place", {
      ondragover: event => { if (event.dataTransfer.types.includes("Files")) { event.preventDefault(); over(true) } },
      ondragleave: event => { if (!this.element.contains(event.relatedTarget)) over(false) },
      ondrop: event => { event.preventDefault(); over(false); this.drop([...event.dataTransfer.files]) },
    }, this.top, this.columns, h("div.drop", {}, icon("upload"), "Drop the files to upload them"))
    this.onkey = event => this.key(event)
    addEventListener("keydown", this.onkey)
    this.tab("Variables")
    this.chat.refresh().then(() => { this.tabs.lastChild.hidden = !this.chat.model }, () => {})
  }

  close() {
    removeEventListener("keydown", this.onkey)
    clearTimeout(this.timer)
    this.console.close()
    this.shell?.close()
  }

  drop(files) {
    this.tab("Files")
    this.panels.Files.upload(files)
  }

  tab(name) {
    this.shown = name
    this.columns.classList.toggle("chatting", name === "Chat")
    for (const tab of this.tabs.children) tab.setAttribute("aria-selected", String(tab.dataset.tab === name))
    replace(this.panel, this.panels[name].element)
    this.panels[name].refresh().catch(error => error.status === 404 || tell(error.message, "error"))
  }

  status({ lost, running }) {
    if (lost !== undefined) this.lost = lost
    if (running !== undefined) this.running = running
    const [kind, text] = this.lost ? ["lost", "connecting"] : this.running ? ["running", this.running > 1 ? `running, ${this.running - 1} waiting` : "running"] : ["idle", "idle"]
    replace(this.badge, h(`span.dot.${kind}`), h("span", {}, text))
  }

  // Calls come quickly: what is shown beside them is asked for once they pause.
  changed({ what, record }) {
    const panels = { files: ["Files"], checkpoints: ["History"], branches: ["History"], processes: ["Processes"] }[what] || ["Variables", "Files", "History", "Processes"]
    if (record && !record.changed && this.shown === "Variables" && record.state === "kept") return
    panels.forEach(name => this.pending.add(name))
    this.timer ||= setTimeout(() => {
      this.timer = null
      if (this.pending.has(this.shown)) this.panels[this.shown].refresh().catch(() => {})
      this.pending.clear()
    }, 150)
  }

  gone({ status }) {
    if (status === 401) {
      signIn("This key is not valid any more.")
      return
    }
    const unused = this.ttl && this.until && Date.now() > this.until - NEAR
    const why = unused ? ` Nobody has used it for ${span(this.ttl)}.` : ""
    this.ended = true
    this.console.end()
    this.console.say(`This session has ended.${why} Its variables and files are gone.`, "Begin again", () => this.page.again(this.base, this.console.editor.value))
    replace(this.badge, h("span.dot.lost"), h("span", {}, "ended"))
    for (const control of this.top.querySelectorAll(".labelled")) control.disabled = true
  }

  // A session that nobody uses ends after its ttl, which is said before.
  idle(rows) {
    const row = rows.find(each => each.session === this.base)
    if (this.ended || !this.ttl) return
    if (!row) {
      if (this.until) this.gone({})
      return
    }
    const left = row.status === "running" ? Infinity : this.ttl - row.idle
    this.until = Date.now() + left * 1000
    if (left > Math.min(SOON, this.ttl / 2)) this.console.say("")
    else if (!this.warned || Math.abs(this.warned - this.until) > NEAR) {
      this.warned = this.until
      this.console.say(`Nobody uses this session: at ${new Date(this.until).toLocaleTimeString()} it ends, with its variables and files.`, "Keep it", () => this.keep())
    }
  }

  async keep() {
    try {
      await get(`${at(this.base)}/namespace`)
      this.console.say("")
    } catch (error) {
      tell(error.message, "error")
    }
  }

  async reset() {
    if (!await ask("Start the interpreter anew? All variables are lost; files are kept.", { label: "Reset", danger: true })) return
    await post(`${at(this.session)}/reset`).catch(error => tell(error.message, "error"))
  }

  async install() {
    const attempt = async typed => {
      const { packages } = await post(`${at(this.base)}/install`, { packages: typed.split(/[\s,]+/).filter(Boolean) })
      tell(`Installed ${Object.keys(packages).join(", ")}`)
    }
    await ask("Packages to install", { value: "", label: "Install", attempt })
  }

  async toggleTerminal() {
    if (!this.drawer.hidden) {
      this.hideTerminal()
      return
    }
    if (this.shell && !this.shell.ended) {
      this.drawer.hidden = false
      this.shell.view.focus()
      return
    }
    try {
      const { processes } = await get(`${at(this.base)}/processes`)
      const running = processes.find(each => each.running && each.terminal && each.kind === "process")
      const process = running || { ...await post(`${at(this.base)}/processes`, { command: ["bash", "-i"], pty: [80, 16] }), terminal: true, name: "bash" }
      this.terminal(process)
    } catch (error) {
      tell(error.message, "error")
    }
  }

  terminal(process) {
    this.shell?.close()
    this.shell = new Terminal(this.base, process, () => this.panels.Processes.refresh().catch(() => {}))
    replace(this.drawer, h("div.drawer-top", {}, icon("terminal"), h("span.name", {}, process.name || process.command || "terminal"), h("span.grow"),
      button("close", "Hide the terminal (Ctrl+`)", () => this.hideTerminal())), this.shell.element)
    this.drawer.hidden = false
    this.shell.view.focus()
  }

  hideTerminal() {
    this.drawer.hidden = true
    this.console.editor.focus()
  }

  key(event) {
    const digit = TABS.find(([, each]) => event.altKey && !event.ctrlKey && event.code === `Digit${each}`)
    if (digit) this.tab(digit[0])
    else if (event.ctrlKey && event.key === ".") this.console.interrupt()
    else if (event.ctrlKey && event.key === "`") this.toggleTerminal()
    else if (event.ctrlKey && event.key === "l" && !this.drawer.contains(document.activeElement)) this.console.clear()
    else if (event.key === "Escape" && !document.querySelector("dialog[open]") && !this.drawer.contains(document.activeElement)) this.console.editor.focus()
    else return
    event.preventDefault()
  }
}

function fresh() { return `session-${runId().slice(0, 4)}` }

function wanted() { return decodeURIComponent(location.hash.slice(1)) }

async function start() {
  try {
    await get("/sessions")
  } catch (error) {
    if (error.status === 401) signIn(key.get() ? error.message : "")
    else replace(app, h("div.signin", {}, h("form", {}, h("h1", {}, "Limpet"), h("p", {}, error.message), h("button.primary", { type: "button", onclick: start }, "Try again"))))
    return
  }
  view?.close()
  view = new Page()
  await view.refresh()
  await view.open(wanted() || await view.first().catch(error => tell(error.message, "error")))
}

theme()
start()
