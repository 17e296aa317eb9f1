// A conversation with a model that has the session. What is said comes as events of the session, to all who look.
import { ask, button, h, replace, tell, worded } from "./dom.js"
import { at, get, post } from "./api.js"
import { Cell } from "./cell.js"
import { formatted } from "./markdown.js"

const told = work => work.catch(error => tell(error.message, "error"))

export class Chat {
  constructor(session, show) {
    this.session = session
    this.base = session.split("/")[0]
    this.show = show
    this.turns = new Map()
    this.cells = new Map()
    this.list = h("div.turns", { role: "log", "aria-label": "Chat" })
    this.area = h("textarea", { rows: 3, placeholder: worded("Ask for something.", "Ask for something. Enter sends it."), "aria-label": "Message", onkeydown: event => {
      if (event.key !== "Enter" || event.shiftKey) return
      event.preventDefault()
      told(this.send())
    } })
    this.first = h("input", { type: "checkbox" })
    this.stopButton = button("stop", "Stop the model", () => told(post(`${at(session)}/chat/stop`)), "Stop")
    this.sendButton = button("play", "Send (Enter)", () => told(this.send()), "Send", ".primary")
    this.busy(false)
    this.element = h("section.panel.chat", {}, this.list, h("div.say", {}, this.area, h("div.controls", {},
      h("label.check", {}, this.first, "ask before code runs"), h("span.grow"), this.stopButton, this.sendButton)))
  }

  async refresh() {
    const { model, running } = await get(`${at(this.session)}/chat`)
    this.model = model
    this.busy(running)
    if (!this.turns.size) replace(this.list, h("p.hint", {}, `${model} has this session: it runs code here, and what it does appears in the console as well.`))
  }

  busy(running) {
    this.stopButton.disabled = !running
    this.sendButton.disabled = running
  }

  async send() {
    const text = this.area.value.trim()
    if (!text || this.sendButton.disabled) return
    this.area.value = ""
    try {
      await post(`${at(this.session)}/chat`, { text, ask_first: this.first.checked })
    } catch (error) {
      this.area.value = text
      throw error
    }
  }

  said(data) {
    if (data.kind === "turn") {
      this.begin(data)
      return
    }
    const turn = this.turns.get(data.turn)
    if (!turn) return
    if (data.kind === "text") this.text(turn, data.text)
    else if (data.kind === "call") this.call(turn, data)
    else if (data.kind === "runs") turn.element.querySelector(`[data-approve="${data.run_id}"]`)?.remove()
    else if (data.kind === "denied") {
      this.cells.get(data.run_id)?.end()
      turn.element.querySelector(`[data-approve="${data.run_id}"]`)?.replaceChildren(h("span", {}, "Not allowed."))
    } else if (data.kind === "end") {
      this.busy(false)
      for (const question of turn.element.querySelectorAll(".approve")) question.remove()
      if (data.problem) turn.element.append(h("p.problem", { role: "alert" }, data.problem))
    } else if (data.kind === "rewind") {
      for (const [number, each] of this.turns) {
        if (number < data.turn) continue
        each.element.remove()
        this.turns.delete(number)
      }
      this.busy(false)
    }
    this.follow()
  }

  begin({ turn: number, text, can_rewind: canRewind }) {
    if (!this.turns.size) replace(this.list)
    const element = h("div.turn", { "data-turn": number }, h("div.person", {}, h("span", {}, text),
      canRewind && button("edit", "Take this back, with the variables, and say it in another way", () => told(this.rewind(number)))))
    this.turns.set(number, { element, text: null })
    this.list.append(element)
    this.busy(true)
    this.follow(true)
  }

  text(turn, piece) {
    if (!turn.text) turn.element.append(turn.text = h("div.model"))
    turn.text.raw = (turn.text.raw || "") + piece
    replace(turn.text, formatted(turn.text.raw))
  }

  call(turn, { run_id: id, code, asks }) {
    turn.text = null
    const cell = new Cell({ run_id: id, session: this.session, code, kind: "python" }, {
      base: this.session, edit: () => {}, again: () => {},
    })
    this.cells.set(id, cell)
    const answer = allow => told(post(`${at(this.session)}/chat/approve`, { run_id: id, allow }))
    turn.element.append(cell.element)
    if (asks) turn.element.append(h("div.approve", { "data-approve": id }, h("span", {}, "May this run?"),
      h("button.primary", { type: "button", onclick: () => answer(true) }, "Run it"), h("button", { type: "button", onclick: () => answer(false) }, "No")))
    this.follow(asks)
  }

  // What becomes of the calls of the model.
  heard(name, data) {
    const cell = this.cells.get(data.run_id)
    if (!cell || name === "run" || name === "ask") return
    cell[name]?.(data)
    this.follow()
  }

  async rewind(number) {
    if (!await ask("Take this back? The variables will be as they were before it; files are kept.", { label: "Take back", danger: true })) return
    const { text } = await post(`${at(this.session)}/chat/rewind`, { turn: number })
    this.area.value = text
    this.area.focus()
  }

  follow(always = false) {
    const { scrollTop, scrollHeight, clientHeight } = this.list
    if (always || scrollHeight - scrollTop - clientHeight < 160) requestAnimationFrame(() => { this.list.scrollTop = this.list.scrollHeight })
  }
}
