// The REST interface, as any other client uses it.
const KEY = "limpet-key"

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `HTTP ${status}`)
    this.status = status
    this.name = document.name || "Error"
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) || localStorage.getItem(KEY) || "",
  set(value, stay) {
    key.clear()
    ;(stay ? localStorage : sessionStorage).setItem(KEY, value)
  },
  clear() {
    sessionStorage.removeItem(KEY)
    localStorage.removeItem(KEY)
  },
}

function headers(more = {}) {
  return key.get() ? { Authorization: `Bearer ${key.get()}`, ...more } : more
}

async function checked(response) {
  if (response.ok) return response
  let document = {}
  try { document = await response.json() } catch { /* no document */ }
  throw new Problem(response.status, document)
}

export async function request(method, path, body, more = {}) {
  const json = body !== undefined && !(body instanceof Blob)
  return checked(await fetch(`/v1${path}`, {
    method,
    headers: headers({ ...(json ? { "Content-Type": "application/json" } : {}), ...more }),
    body: json ? JSON.stringify(body) : body,
    cache: "no-store",
  }))
}

export async function get(path) { return (await request("GET", path)).json() }
export async function post(path, body = {}) {
  const response = await request("POST", path, body)
  return response.status === 204 ? null : response.json()
}
export async function put(path, blob) { return (await request("PUT", path, blob)).json() }
export async function remove(path) { await request("DELETE", path) }

// A session or branch, and a path, as parts of an address.
export const at = session => `/sessions/${encodeURIComponent(session)}`
export const encoded = path => path.split("/").map(encodeURIComponent).join("/")

export function runId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, "0")).join("")
}

const BUSY = 30 // milliseconds of work with events, after which the page may draw and hear its user

// Follows a stream of events, and goes on after a loss where it was. `heard(name, data)` gets each; the returned
// function ends it. `lost(whether)` is told when the connection goes and comes; it ends at the events in `last`.
export function follow(path, heard, { lost = () => {}, last = ["closed", "end"], since = "" } = {}) {
  const abort = new AbortController()
  let id = since
  const listen = async () => {
    let pause = 300
    for (;;) {
      try {
        const more = { Accept: "text/event-stream", ...(id ? { "Last-Event-ID": id } : {}) }
        const response = await checked(await fetch(`/v1${path}`, { headers: headers(more), signal: abort.signal, cache: "no-store" }))
        lost(false)
        pause = 300
        let begun = performance.now()
        for await (const event of events(response.body)) {
          if (event.id) id = event.id
          heard(event.name, event.data)
          if (last.includes(event.name)) return
          if (performance.now() - begun < BUSY) continue
          await new Promise(done => setTimeout(done))
          begun = performance.now()
        }
      } catch (error) {
        if (abort.signal.aborted) return
        if (error instanceof Problem && [401, 403, 404].includes(error.status)) {
          heard("gone", { detail: error.message, status: error.status })
          return
        }
      }
      if (abort.signal.aborted) return
      lost(true)
      await new Promise(done => setTimeout(done, pause))
      pause = Math.min(pause * 2, 5000)
    }
  }
  listen()
  return () => abort.abort()
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    text += value
    const blocks = text.split("\n\n")
    text = blocks.pop()
    for (const block of blocks) {
      const event = { name: "message", data: "", id: "" }
      for (const line of block.split("\n")) {
        const [, field, content] = /^(\w*): ?(.*)$/.exec(line) || []
        if (field === "event") event.name = content
        if (field === "data") event.data += content
        if (field === "id") event.id = content
      }
      if (event.data) yield { ...event, data: JSON.parse(event.data) }
    }
  }
}

// The address of a picture that only who has the key may fetch.
export async function picture(path, type) {
  return URL.createObjectURL(new Blob([await (await request("GET", path)).arrayBuffer()], { type }))
}

// Lets the browser save a file.
export async function download(path, name) {
  const blob = await (await request("GET", path)).blob()
  const link = document.createElement("a")
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60000)
}
