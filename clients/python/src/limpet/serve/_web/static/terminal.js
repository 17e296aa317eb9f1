// A terminal: what shells and most programs for xterm use of it.
import { h, replace, tell } from "./dom.js"
import { classesOf, styleAfter } from "./ansi.js"
import { at, follow, post } from "./api.js"

const HISTORY = 2000 // lines that have left the screen
const BLANK = [" ", {}] // a cell is replaced, never changed: all that are blank are one
const KEYS = {
  ArrowUp: "\x1b[A", ArrowDown: "\x1b[B", ArrowRight: "\x1b[C", ArrowLeft: "\x1b[D", Home: "\x1b[H", End: "\x1b[F",
  PageUp: "\x1b[5~", PageDown: "\x1b[6~", Delete: "\x1b[3~", Insert: "\x1b[2~", Backspace: "\x7f", Enter: "\r", Tab: "\t", Escape: "\x1b",
  F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F10: "\x1b[21~",
}

export class Screen {
  constructor(rows, columns) {
    this.decoder = new TextDecoder()
    this.rest = ""
    this.style = {}
    this.history = []
    this.cursor = true
    this.resize(rows, columns)
  }

  resize(rows, columns) {
    const old = this.lines || []
    this.rows = rows
    this.columns = columns
    while (old.length > rows && this.y !== undefined && this.y >= rows) {
      this.history.push(old.shift())
      this.y--
    }
    this.lines = Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => old[row]?.[column] || BLANK))
    this.top = 0
    this.bottom = rows - 1
    this.x = Math.min(this.x || 0, columns - 1)
    this.y = Math.min(this.y || 0, rows - 1)
  }

  write(bytes) {
    let text = this.rest + this.decoder.decode(bytes, { stream: true })
    this.rest = ""
    const sequence = /\x1b(?:\[([?>=!]?)([\d;:]*)([ -/]*)([@-~])|\]([^\x07\x1b]*)(?:\x07|\x1b\\)|[()#]([\s\S])|([78=>cDEHMNOZ]))/y
    for (let place = 0; place < text.length;) {
      if (text[place] !== "\x1b") {
        const letter = String.fromCodePoint(text.codePointAt(place))
        this.put(letter)
        place += letter.length
        continue
      }
      sequence.lastIndex = place
      const found = sequence.exec(text)
      if (found) {
        this.escape(found)
        place = sequence.lastIndex
      } else if (text.length - place < 200) {
        this.rest = text.slice(place)
        return
      } else place++
    }
  }

  put(letter) {
    if (letter === "\n" || letter === "\v" || letter === "\f") this.feed()
    else if (letter === "\r") this.x = 0
    else if (letter === "\b") this.x = Math.max(this.x - 1, 0)
    else if (letter === "\t") this.x = Math.min((this.x >> 3 << 3) + 8, this.columns - 1)
    else if (letter >= " " && letter !== "\x7f") {
      if (this.x >= this.columns) {
        this.x = 0
        this.feed()
      }
      this.lines[this.y][this.x++] = [letter, this.style]
    }
  }

  feed() {
    if (this.y === this.bottom) this.scroll(1)
    else this.y = Math.min(this.y + 1, this.rows - 1)
  }

  blank() { return Array(this.columns).fill(BLANK) }

  scroll(count) {
    for (let at = 0; at < Math.abs(count); at++) {
      if (count > 0) {
        const [gone] = this.lines.splice(this.top, 1)
        if (this.top === 0 && !this.saved) this.history.push(gone)
        this.lines.splice(this.bottom, 0, this.blank())
      } else {
        this.lines.splice(this.bottom, 1)
        this.lines.splice(this.top, 0, this.blank())
      }
    }
    if (this.history.length > HISTORY) this.history.splice(0, this.history.length - HISTORY)
  }

  escape([, mark, numbers, , end, , , single]) {
    if (single) {
      if (single === "7") this.kept = [this.x, this.y, this.style]
      if (single === "8" && this.kept) [this.x, this.y, this.style] = this.kept
      if (single === "M") { if (this.y === this.top) this.scroll(-1); else this.y-- }
      if (single === "D") this.feed()
      if (single === "E") { this.x = 0; this.feed() }
      if (single === "c") { this.style = {}; this.lines = this.lines.map(() => this.blank()); this.x = this.y = 0 }
      return
    }
    if (!end) return
    const values = numbers.split(";").map(Number)
    const n = Math.max(values[0] || 1, 1)
    if (mark === "?") {
      if (end === "h" || end === "l") this.mode(values, end === "h")
      return
    }
    if (mark) return
    this.control(end, n, values, numbers)
    this.x = Math.min(Math.max(this.x, 0), this.columns)
    this.y = Math.min(Math.max(this.y, 0), this.rows - 1)
  }

  control(end, n, values, numbers) {
    const line = this.lines[this.y]
    const blanks = count => Array(count).fill(BLANK)
    const moves = { A: [0, -n], B: [0, n], C: [n, 0], D: [-n, 0], e: [0, n], a: [n, 0] }
    if (moves[end]) {
      this.x = Math.min(this.x, this.columns - 1) + moves[end][0]
      this.y += moves[end][1]
      this.x = Math.min(this.x, this.columns - 1)
    } else if (end === "E" || end === "F") {
      this.y += end === "E" ? n : -n
      this.x = 0
    } else if (end === "G" || end === "`") this.x = n - 1
    else if (end === "d") this.y = n - 1
    else if (end === "H" || end === "f") {
      this.y = n - 1
      this.x = Math.min((values[1] || 1) - 1, this.columns - 1)
    } else if (end === "J") this.eraseScreen(values[0] || 0)
    else if (end === "K") this.eraseLine(values[0] || 0)
    else if (end === "m") this.style = styleAfter(this.style, numbers || "0")
    else if (end === "r") {
      this.top = n - 1
      this.bottom = Math.min((values[1] || this.rows) - 1, this.rows - 1)
      if (this.top >= this.bottom) [this.top, this.bottom] = [0, this.rows - 1]
      this.x = this.y = 0
    } else if (end === "L" || end === "M") {
      const top = this.top
      this.top = this.y
      const saved = this.saved
      this.saved ||= true
      this.scroll(end === "M" ? Math.min(n, this.rows) : -Math.min(n, this.rows))
      this.saved = saved
      this.top = top
    } else if (end === "S" || end === "T") this.scroll(end === "S" ? Math.min(n, this.rows) : -Math.min(n, this.rows))
    else if (end === "P") line.splice(this.x, n, ...[]), line.push(...blanks(this.columns - line.length))
    else if (end === "@") line.splice(this.x, 0, ...blanks(Math.min(n, this.columns))), line.length = this.columns
    else if (end === "X") for (let at = this.x; at < Math.min(this.x + n, this.columns); at++) line[at] = BLANK
    else if (end === "s") this.kept = [this.x, this.y, this.style]
    else if (end === "u" && this.kept) [this.x, this.y, this.style] = this.kept
  }

  mode(values, on) {
    if (values.includes(25)) this.cursor = on
    if (values.includes(1)) this.application = on
    if (values.includes(2004)) this.bracketed = on
    if (values.some(value => [47, 1047, 1049].includes(value))) {
      if (on && !this.saved) {
        this.saved = [this.lines, this.x, this.y]
        this.lines = this.lines.map(() => this.blank())
      } else if (!on && this.saved) {
        [this.lines, this.x, this.y] = this.saved
        this.saved = null
        this.resize(this.rows, this.columns)
      }
    }
  }

  eraseScreen(how) {
    this.lines.forEach((_, row) => {
      if (how >= 2 || (how === 0 && row > this.y) || (how === 1 && row < this.y)) this.lines[row] = this.blank()
    })
    if (how === 3) this.history = []
    if (how < 2) this.eraseLine(how)
  }

  eraseLine(how) {
    const line = this.lines[this.y]
    for (let at = 0; at < this.columns; at++) {
      if (how === 2 || (how === 0 && at >= this.x) || (how === 1 && at <= this.x)) line[at] = BLANK
    }
  }
}

export class Terminal {
  // `process` is {id, name, terminal}; one without a terminal is only looked at.
  constructor(session, process, closed) {
    this.url = `${at(session)}/processes/${process.id}`
    this.process = process
    this.screen = new Screen(24, 80)
    this.view = h("pre.screen", { tabIndex: 0, "aria-label": "Terminal", onkeydown: event => this.key(event), onpaste: event => this.paste(event) })
    this.measure = h("span.measure", { "aria-hidden": "true" }, "0".repeat(50))
    this.element = h("div.terminal", {}, this.view, this.measure)
    this.queue = Promise.resolve()
    this.stop = follow(`${this.url}/output`, (name, data) => {
      if (name === "output") {
        let bytes = Uint8Array.from(atob(data.data), letter => letter.charCodeAt(0))
        if (!process.terminal) bytes = new TextEncoder().encode(new TextDecoder().decode(bytes).replace(/\r?\n/g, "\r\n"))
        this.screen.write(bytes)
      } else {
        this.ended = true
        this.screen.write(new TextEncoder().encode("\r\n\x1b[2m[ended]\x1b[0m"))
        closed()
      }
      this.draw()
    })
    this.observer = new ResizeObserver(() => this.fit())
    this.observer.observe(this.view)
  }

  close() {
    this.stop()
    this.observer.disconnect()
  }

  fit() {
    const box = this.measure.getBoundingClientRect()
    if (!box.width || !this.view.clientHeight) return
    const style = getComputedStyle(this.view)
    const columns = Math.max(20, Math.floor((this.view.clientWidth - 2 * parseFloat(style.paddingLeft)) / (box.width / 50)))
    const rows = Math.max(5, Math.floor((this.view.clientHeight - 2 * parseFloat(style.paddingTop)) / parseFloat(style.lineHeight)))
    if (rows === this.screen.rows && columns === this.screen.columns) return
    this.screen.resize(rows, columns)
    this.draw()
    if (this.process.terminal && !this.ended) this.send("/resize", { rows, columns })
  }

  send(path, body) {
    this.queue = this.queue.then(() => post(this.url + path, body)).catch(error => { if (!this.ended) tell(error.message, "error") })
  }

  type(text) { if (this.process.terminal && !this.ended) this.send("/input", { text }) }

  key(event) {
    if (event.ctrlKey && event.shiftKey) return
    if (event.ctrlKey && event.key === "c" && String(getSelection())) return
    if (event.ctrlKey && ["v", "`", "."].includes(event.key)) return
    let text = KEYS[event.key]
    if (text && this.screen.application && /^\x1b\[[A-DHF]$/.test(text)) text = text.replace("[", "O")
    if (!text && event.key.length === 1) {
      text = event.ctrlKey && !event.altKey && /[a-z@[\\\]^_ ]/i.test(event.key) ? String.fromCharCode(event.key.toUpperCase().charCodeAt(0) & 31) : event.key
      if (event.altKey && !event.ctrlKey) text = "\x1b" + text
      if (event.metaKey) return
    }
    if (!text) return
    event.preventDefault()
    this.type(text)
  }

  paste(event) {
    event.preventDefault()
    const text = event.clipboardData.getData("text").replace(/\r?\n/g, "\r")
    this.type(this.screen.bracketed ? `\x1b[200~${text}\x1b[201~` : text)
  }

  draw() {
    if (this.drawing) return
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null
      const { history, lines, x, y, cursor } = this.screen
      const atEnd = this.view.scrollHeight - this.view.scrollTop - this.view.clientHeight < 60
      const shown = (this.screen.saved ? [] : history).concat(lines)
      const row = shown.length - lines.length + y
      replace(this.view, shown.flatMap((line, at) => [lineOf(line, cursor && !this.ended && at === row ? x : -1), "\n"]))
      if (atEnd) this.view.scrollTop = this.view.scrollHeight
    })
  }
}

function lineOf(line, cursor) {
  const fragment = document.createDocumentFragment()
  let last = line.length
  while (last > 0 && last > cursor + 1 && line[last - 1][0] === " " && !classesOf(line[last - 1][1])) last--
  for (let at = 0; at < last;) {
    const classes = classesOf(line[at][1])
    let text = ""
    const begin = at
    while (at < last && (at === begin || (at !== cursor && begin !== cursor && classesOf(line[at][1]) === classes))) text += line[at++][0]
    if (!classes && begin !== cursor) fragment.append(text)
    else fragment.append(h("span", { class: `${classes}${begin === cursor ? " cursor" : ""}` }, text))
  }
  return fragment
}
