// The calls of a session, as they happen, whoever makes them.
import { button, h, replace, tell } from "./dom.js"
import { at, follow, get, post, runId } from "./api.js"
import { Cell } from "./cell.js"
import { Editor } from "./editor.js"

export class Console {
  // `changed(what)` is called when variables, files or processes may be others; `gone()` when the session has ended;
  // `chat` hears what is said, and what becomes of its calls.
  constructor(session, { changed, gone, status, chat }) {
    this.session = session
    this.base = session.split("/")[0]
    this.changed = changed
    this.chat = chat
    this.status = status
    this.cells = new Map()
    this.list = h("div.cells", { role: "log", "aria-label": "Calls" })
    this.empty = h("div.empty", {}, h("h2", {}, "Ready"),
      h("p", {}, "Variables stay between calls. What you and others run in this session appears here."),
      h("pre.code", {}, "import math\n[math.factorial(n) for n in range(10)]"))
    this.list.append(this.empty)
    this.editor = new Editor({ run: code => this.run(code), complete: (code, cursor) => this.complete(code, cursor) })
    this.language = h("select", { title: "Language", "aria-label": "Language", onchange: () => {
      this.editor.language = this.language.value
      this.editor.changed()
    } }, h("option", { value: "python" }, "python"))
    this.runButton = button("play", "Run (Shift+Enter)", () => this.run(this.editor.value), "Run", ".primary")
    this.stopButton = button("stop", "Interrupt (Ctrl+.)", () => this.interrupt(), "Stop")
    this.stopButton.disabled = true
    this.scroller = h("div.scroller", {}, this.list)
    this.notice = h("div.notices", { role: "status" })
    this.element = h("main.console", {}, this.scroller,
      h("div.prompt", {}, this.notice, this.editor.element, h("div.controls", {}, this.language, this.stopButton, this.runButton)))
    this.offer().catch(() => {}) // without an answer there is Python
    this.stop = follow(`${at(this.base)}/events`, (name, data) => this.heard(name, data, gone), { lost: lost => status({ lost }) })
  }

  close() { this.stop() }

  heard(name, data, gone) {
    if (name === "closed" || name === "gone") {
      gone(data)
      return
    }
    if (name === "changed") {
      this.changed(data)
      if (data.what === "rollback" || data.what === "reset") this.mark(data)
      return
    }
    if (name === "chat") {
      this.chat.said(data)
      return
    }
    this.chat.heard(name, data)
    if (name === "run") {
      this.begin(data)
      return
    }
    const cell = this.cells.get(data.run_id)
    if (!cell) return
    cell[name]?.(data)
    if (name === "result" || name === "problem") {
      this.changed({ what: "run", record: data })
      this.told()
    }
    this.follow()
  }

  begin(data) {
    if (this.cells.has(data.run_id)) return
    this.empty.remove()
    const cell = new Cell(data, {
      base: this.base,
      edit: code => { this.editor.value = code; this.editor.focus() },
      again: code => this.run(code),
    })
    this.cells.set(data.run_id, cell)
    this.editor.remember(cell.code)
    this.list.append(cell.element)
    this.told()
    this.follow(true)
  }

  mark({ what, execution_count: count }) {
    const text = what === "reset" ? "The interpreter was started anew." : `Went back to the variables of call ${count}.`
    this.list.append(h("div.mark", {}, text))
    this.follow(true)
  }

  told() {
    const running = [...this.cells.values()].filter(cell => cell.running)
    this.stopButton.disabled = !running.length
    this.status({ running: running.length })
  }

  follow(always = false) {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller
    if (always || scrollHeight - scrollTop - clientHeight < 160) {
      requestAnimationFrame(() => { this.scroller.scrollTop = this.scroller.scrollHeight })
    }
  }

  // Says something above the code, with a button: `say("")` says nothing any more.
  say(text, label = "", act = null) {
    if (this.notice.textContent === text + label) return
    replace(this.notice, text && h("p.over", {}, h("span", {}, text), label && h("button", { type: "button", onclick: act }, label)))
  }

  // Nothing runs here any more; what was typed stays.
  end() {
    this.ended = true
    for (const control of [this.runButton, this.stopButton, this.language]) control.disabled = true
  }

  async run(code) {
    if (!code.trim() || this.ended) return
    this.editor.value = ""
    this.editor.focus()
    const language = this.language.value === "python" ? { notebook: true } : { language: this.language.value }
    try {
      await post(`${at(this.session)}/run`, { code, run_id: runId(), input: true, ...language })
    } catch (error) {
      if ([...this.cells.values()].some(cell => cell.code === code)) return // it says what is wrong
      tell(error.message, "error")
      this.editor.value = code
    }
  }

  // The languages that the image of the session has.
  async offer() {
    const { languages } = await get(`${at(this.session)}/languages`)
    replace(this.language, languages.map(name => h("option", { value: name }, name)))
  }

  async interrupt() {
    try {
      const last = [...this.cells.values()].filter(cell => cell.running)[0]
      await post(`${at(this.session)}/interrupt`, last ? { run_id: last.id } : {})
    } catch (error) {
      tell(error.message, "error")
    }
  }

  async complete(code, cursor) {
    try {
      return await post(`${at(this.session)}/complete`, { code, cursor })
    } catch {
      return { matches: [], start: cursor }
    }
  }

  clear() {
    for (const [id, cell] of this.cells) {
      if (!cell.running) {
        cell.element.remove()
        this.cells.delete(id)
      }
    }
    for (const mark of this.list.querySelectorAll(".mark")) mark.remove()
    if (!this.cells.size) replace(this.list, this.empty)
  }
}
