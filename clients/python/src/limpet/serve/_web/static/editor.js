// Where code is typed: a text area over its own coloured copy, with completion and the history of what was run.
import { h, replace, worded } from "./dom.js"
import { highlighted } from "./highlight.js"

const INDENT = "    "

export class Editor {
  // `run(code)`, `complete(code, cursor)` → {matches, start}
  constructor({ run, complete }) {
    this.run = run
    this.complete = complete
    this.language = "python"
    this.history = []
    this.place = 0
    this.colours = h("pre.colours", { "aria-hidden": "true" })
    this.area = h("textarea", {
      rows: 1, spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "Code", wrap: "off",
      placeholder: worded("Type Python, then Run.", "Type Python. Shift+Enter runs it, Tab completes."),
      oninput: () => this.changed(), onkeydown: event => this.key(event), onblur: () => setTimeout(() => this.hide(), 150),
      onscroll: () => { this.colours.scrollLeft = this.area.scrollLeft },
    })
    this.popup = h("ul.completions", { role: "listbox", hidden: true })
    this.element = h("div.editor", {}, this.colours, this.area, this.popup)
  }

  get value() { return this.area.value }

  set value(text) {
    this.area.value = text
    this.changed()
  }

  focus() { this.area.focus() }

  changed() {
    replace(this.colours, highlighted(this.value, this.language), "\n")
    this.area.rows = Math.min(this.value.split("\n").length, 18)
    this.hide()
  }

  remember(code) {
    if (this.history[this.history.length - 1] !== code) this.history.push(code)
    this.place = this.history.length
  }

  key(event) {
    if (!this.popup.hidden && this.choose(event)) return
    const { selectionStart: start, selectionEnd: end } = this.area
    const before = this.value.slice(0, start)
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      this.run(this.value)
    } else if (event.key === "Enter" && start === end) {
      const line = before.slice(before.lastIndexOf("\n") + 1)
      const indent = /^[ \t]*/.exec(line)[0] + (/:\s*(#.*)?$/.test(line) ? INDENT : "")
      if (indent) {
        event.preventDefault()
        this.insert("\n" + indent)
      }
    } else if (event.key === "Tab" && !event.ctrlKey && !event.altKey) {
      if (event.shiftKey) {
        event.preventDefault()
        this.dedent()
      } else if (start !== end || /(^|\n)[ \t]*$/.test(before)) {
        if (!this.value) return
        event.preventDefault()
        this.insert(INDENT)
      } else {
        event.preventDefault()
        this.offer()
      }
    } else if (event.key === "ArrowUp" && !before.includes("\n") && this.place > 0) {
      event.preventDefault()
      this.recall(this.place - 1)
    } else if (event.key === "ArrowDown" && !this.value.slice(end).includes("\n") && this.place < this.history.length) {
      event.preventDefault()
      this.recall(this.place + 1)
    }
  }

  recall(place) {
    if (this.place === this.history.length) this.draft = this.value
    this.place = place
    this.value = place === this.history.length ? this.draft : this.history[place]
    this.area.setSelectionRange(this.value.length, this.value.length)
  }

  insert(text, from = this.area.selectionStart, to = this.area.selectionEnd) {
    this.area.setRangeText(text, from, to, "end")
    this.changed()
  }

  dedent() {
    const start = this.value.lastIndexOf("\n", this.area.selectionStart - 1) + 1
    const spaces = /^ {0,4}/.exec(this.value.slice(start))[0].length
    const at = Math.max(start, this.area.selectionStart - spaces)
    this.area.setRangeText("", start, start + spaces, "preserve")
    this.area.setSelectionRange(at, at)
    this.changed()
  }

  async offer() {
    const cursor = this.area.selectionStart
    const code = this.value
    const { matches, start } = await this.complete(code, cursor)
    if (this.value !== code || this.area.selectionStart !== cursor || !matches.length) return
    this.from = start
    if (matches.length === 1) {
      this.insert(matches[0], start, cursor)
      return
    }
    replace(this.popup, matches.slice(0, 200).map((match, at) => h("li", {
      role: "option", "aria-selected": at === 0 ? "true" : "false",
      onmousedown: event => { event.preventDefault(); this.take(match) },
    }, match)))
    const lines = code.slice(0, start).split("\n")
    this.popup.style.setProperty("left", `${Math.min(lines[lines.length - 1].length, 60)}ch`)
    this.popup.hidden = false
  }

  choose(event) {
    const options = [...this.popup.children]
    const now = options.findIndex(each => each.getAttribute("aria-selected") === "true")
    if (["ArrowDown", "ArrowUp"].includes(event.key)) {
      const next = (now + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length
      options[now].setAttribute("aria-selected", "false")
      options[next].setAttribute("aria-selected", "true")
      options[next].scrollIntoView({ block: "nearest" })
    } else if ((event.key === "Enter" && !event.shiftKey) || event.key === "Tab") this.take(options[now].textContent)
    else if (event.key === "Escape") this.hide()
    else return false
    event.preventDefault()
    return true
  }

  take(match) {
    this.insert(match, this.from, this.area.selectionStart)
    this.hide()
    this.focus()
  }

  hide() { this.popup.hidden = true }
}
