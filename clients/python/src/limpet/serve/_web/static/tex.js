// Formulas as LaTeX writes them, as MathML: what SymPy, models and notebooks use of it. Where a command is not known here,
// mathml() throws a SyntaxError, and its caller shows the source.
const TOKEN = /\\[a-zA-Z]+\*?|\\[^]|\d+(?:\.\d+)?|\s+|[^]/gu
const DEEPEST = 100
const LONGEST = 10_000 // characters

const letters = text => Object.assign(Object.create(null), Object.fromEntries(text.trim().split(/\s+/).map(pair => pair.split("="))))
const GREEK = letters(`alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν
  xi=ξ omicron=ο pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ
  Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω infty=∞ partial=∂ nabla=∇ hbar=ℏ ell=ℓ imath=ı jmath=ȷ Re=ℜ Im=ℑ aleph=ℵ
  emptyset=∅ varnothing=∅ degree=° prime=′ top=⊤ bot=⊥ angle=∠ triangle=△ square=□ checkmark=✓`)
const SIGNS = letters(`cdot=⋅ times=× div=÷ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ ominus=⊖ otimes=⊗ odot=⊙ wedge=∧ land=∧ vee=∨ lor=∨
  cap=∩ cup=∪ setminus=∖ neg=¬ lnot=¬ forall=∀ exists=∃ nexists=∄ in=∈ notin=∉ ni=∋ subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇ subsetneq=⊊
  le=≤ leq=≤ leqslant=⩽ ge=≥ geq=≥ geqslant=⩾ ll=≪ gg=≫ ne=≠ neq=≠ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅ propto=∝ mid=∣ nmid=∤
  parallel=∥ perp=⊥ prec=≺ succ=≻ to=→ rightarrow=→ longrightarrow=⟶ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ Longrightarrow=⟹
  implies=⟹ Leftarrow=⇐ Leftrightarrow=⇔ iff=⟺ mapsto=↦ uparrow=↑ downarrow=↓ hookrightarrow=↪ rightleftharpoons=⇌ therefore=∴
  because=∵ vdash=⊢ models=⊨ dots=… ldots=… cdots=⋯ vdots=⋮ ddots=⋱ colon=: lt=< gt=> langle=⟨ rangle=⟩ lceil=⌈ rceil=⌉ lfloor=⌊
  rfloor=⌋ lbrace={ rbrace=} lbrack=[ rbrack=] vert=| lvert=| rvert=| Vert=‖ lVert=‖ rVert=‖ backslash=∖
  int=∫ iint=∬ iiint=∭ oint=∮`)
const LARGE = letters("sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀")
const NAMES = new Set("sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan ln log lg exp deg dim hom ker arg".split(" "))
const LIMITS = new Set("lim limsup liminf max min sup inf det gcd Pr argmax argmin".split(" "))
const ACCENTS = letters("hat=^ widehat=^ bar=¯ overline=¯ vec=→ overrightarrow=→ dot=˙ ddot=¨ tilde=~ widetilde=~ check=ˇ breve=˘ acute=´ grave=`")
const SPACES = { __proto__: null, ",": ".17em", ":": ".22em", ">": ".22em", ";": ".28em", "!": "-.17em", " ": ".33em", quad: "1em", qquad: "2em" }
const FENCES = { __proto__: null, pmatrix: "()", bmatrix: "[]", Bmatrix: "{}", vmatrix: "||", Vmatrix: "‖‖", cases: "{" }
const TABLES = new Set("matrix smallmatrix array cases aligned align align* alignat split gathered gather gather* equation equation* eqnarray".split(" "))
const IGNORED = new Set("displaystyle textstyle scriptstyle limits nolimits nonumber notag bigl bigr Bigl Bigr biggl biggr Biggl Biggr big Big bigg Bigg bigm middle hline".split(" "))
const TEXTS = new Set("text mathrm operatorname operatorname* textrm textit textbf textsf texttt mbox mathsf mathtt mathit".split(" "))
const UPRIGHT = { ℂ: "C", ℍ: "H", ℕ: "N", ℙ: "P", ℚ: "Q", ℝ: "R", ℤ: "Z" }
const SCRIPT = { ℬ: "B", ℰ: "E", ℱ: "F", ℋ: "H", ℐ: "I", ℒ: "L", ℳ: "M", ℛ: "R" }
const ALPHABETS = { __proto__: null, // where capitals, small letters and digits are, and which letters are elsewhere
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce, {}], boldsymbol: [0x1d400, 0x1d41a, 0x1d7ce, {}], bm: [0x1d400, 0x1d41a, 0x1d7ce, {}],
  mathbb: [0x1d538, 0x1d552, 0x1d7d8, UPRIGHT], mathcal: [0x1d49c, 0, 0, SCRIPT], mathscr: [0x1d49c, 0, 0, SCRIPT],
}

const OTHERS = { // methods of the parser
  __proto__: null, sqrt: "root", left: "left", begin: "environment", underline: "under", underbrace: "under", overbrace: "brace",
  overset: "set", stackrel: "set", underset: "set", not: "not", mod: "modulo", bmod: "modulo", pmod: "modulo",
}

// An element for a formula. `make(tag, attributes, children)` makes one of MathML.
export function mathml(source, make, isBlock = false) {
  if (source.length > LONGEST) throw new SyntaxError("the formula is too long")
  const parser = new Parser(source, make)
  const inside = parser.row([])
  if (parser.next !== undefined) throw new SyntaxError(`${parser.next} closes nothing`)
  return make("math", isBlock ? { display: "block" } : {}, [inside])
}

class Parser {
  constructor(source, make) {
    this.tokens = source.replace(/(?<!\\)%.*/g, "").match(TOKEN) || []
    this.at = 0
    this.depth = 0
    this.make = make
  }

  get next() { return this.tokens[this.at] }

  take() {
    if (this.next === undefined) throw new SyntaxError("the formula ends too early")
    return this.tokens[this.at++]
  }

  blanks() { while (this.next !== undefined && !this.next.trim()) this.at++ }

  expect(token) {
    this.blanks()
    if (this.take() !== token) throw new SyntaxError(`${token} is missing`)
  }

  // What stands before one of these tokens, or the end.
  row(ends) {
    const found = []
    for (this.blanks(); this.next !== undefined && this.next !== "}" && !ends.includes(this.next); this.blanks()) {
      const one = this.scripted()
      if (one) found.push(one)
    }
    return found.length === 1 ? found[0] : this.make("mrow", {}, found)
  }

  // One thing, with what is below and above it.
  scripted() {
    const isLimits = LARGE[this.next.slice(1)] || LIMITS.has(this.next.slice(1)) || /^\\(under|over)brace$/.test(this.next)
    const base = "^_'".includes(this.next) ? this.make("mrow", {}, []) : this.atom()
    const scripts = {}
    for (let token; base && (token = this.script());) {
      if (token === "'") scripts["^"] = this.primes(scripts["^"])
      else if (scripts[token]) throw new SyntaxError(`two ${token}`)
      else scripts[token] = this.argument()
    }
    const { _: below, "^": above } = scripts
    if (!below && !above) return base
    const tag = isLimits ? (below && above ? "munderover" : below ? "munder" : "mover") : below && above ? "msubsup" : below ? "msub" : "msup"
    return this.make(tag, {}, [base, below, above].filter(Boolean))
  }

  script() {
    this.blanks()
    while (this.next === "\\limits" || this.next === "\\nolimits") { this.at++; this.blanks() }
    return ["^", "_", "'"].includes(this.next) ? this.take() : null
  }

  primes(before) {
    let marks = "′"
    while (this.next === "'") marks += this.take() && "′"
    return this.make("mrow", {}, [this.make("mo", {}, [marks]), before].filter(Boolean))
  }

  // A group in braces, or the next thing alone.
  argument() {
    this.blanks()
    if (this.next === undefined || this.next === "}") throw new SyntaxError("an argument is missing")
    if (/^\d/.test(this.next)) { // of 12 the first digit alone
      const [digit, ...rest] = this.take()
      if (rest.length) this.tokens.splice(this.at, 0, rest.join(""))
      return this.make("mn", {}, [digit])
    }
    return this.atom() || this.argument()
  }

  // The text of a group, as it is written.
  text() {
    this.expect("{")
    let text = ""
    for (let depth = 1; ;) {
      const token = this.take()
      depth += token === "{" ? 1 : token === "}" ? -1 : 0
      if (!depth) return text.replace(/^ | $/g, "\u00a0")
      if (token !== "{" && token !== "}") text += /^\\[^a-zA-Z]$/.test(token) ? token[1] : token.trim() ? token : " "
    }
  }

  atom() {
    if (++this.depth > DEEPEST) throw new SyntaxError("the formula is too deep")
    const made = this.single()
    this.depth--
    return made
  }

  single() {
    const token = this.take()
    if (token === "{") {
      const inside = this.row([])
      this.expect("}")
      return inside
    }
    if (/^\d/.test(token)) return this.make("mn", {}, [token])
    if (/^\p{L}/u.test(token)) return this.make("mi", {}, [token])
    if (token === "~") return this.make("mspace", { width: ".33em" }, [])
    if (token === "&" || token === "}") throw new SyntaxError(`${token} has no place here`)
    if (token[0] === "\\") return this.command(token.slice(1))
    return this.make("mo", "()[]|".includes(token) ? { stretchy: "false" } : {}, [token === "-" ? "−" : token === "*" ? "∗" : token])
  }

  command(name) {
    const { make } = this
    if (GREEK[name]) return make("mi", /^[A-Z]/.test(name) ? { mathvariant: "normal" } : {}, [GREEK[name]])
    if (SIGNS[name]) return make("mo", /[|‖⟨⟩⌈⌉⌊⌋]/.test(SIGNS[name]) ? { stretchy: "false" } : {}, [SIGNS[name]])
    if (LARGE[name]) return make("mo", { largeop: "true", movablelimits: "true" }, [LARGE[name]])
    if (LIMITS.has(name)) return make("mo", { movablelimits: "true", lspace: "0", rspace: ".17em" }, [name])
    if (NAMES.has(name)) return make("mi", {}, [name])
    if (SPACES[name]) return make("mspace", { width: SPACES[name] }, [])
    if (IGNORED.has(name)) return null
    if (TEXTS.has(name)) return make(name.startsWith("text") || name === "mbox" ? "mtext" : "mi", name === "mathit" ? {} : { mathvariant: "normal" }, [this.text()])
    if (ALPHABETS[name]) return this.alphabet(...ALPHABETS[name])
    if (ACCENTS[name]) return make("mover", { accent: "true" }, [this.argument(), make("mo", { stretchy: String(/wide|over/.test(name)) }, [ACCENTS[name]])])
    if (/^[{}%$&#_|]$/.test(name)) return make("mo", { stretchy: "false" }, [name === "|" ? "‖" : name])
    if (/^[dtc]?frac$/.test(name)) return make("mfrac", {}, [this.argument(), this.argument()])
    if (/^[dt]?binom$/.test(name)) return this.fenced("(", make("mfrac", { linethickness: "0" }, [this.argument(), this.argument()]), ")")
    if (!OTHERS[name]) throw new SyntaxError(`\\${name} is not known`)
    return this[OTHERS[name]](name)
  }

  root() {
    this.blanks()
    if (this.next !== "[") return this.make("msqrt", {}, [this.argument()])
    this.take()
    const degree = this.row(["]"])
    this.expect("]")
    return this.make("mroot", {}, [this.argument(), degree])
  }

  fence(text) { return text && text !== "." && this.make("mo", { fence: "true", stretchy: "true" }, [text]) }

  fenced(open, inside, close) {
    return this.make("mrow", {}, [this.fence(open), inside, this.fence(close)].filter(Boolean))
  }

  delimiter() {
    this.blanks()
    const token = this.take()
    return token[0] === "\\" ? SIGNS[token.slice(1)] || (token === "\\|" ? "‖" : token.slice(1)) : token
  }

  left() {
    const open = this.delimiter()
    const inside = this.row(["\\right"])
    this.expect("\\right")
    return this.fenced(open, inside, this.delimiter())
  }

  environment() {
    const name = this.text()
    if (!TABLES.has(name) && !FENCES[name]) throw new SyntaxError(`the environment ${name} is not known`)
    if (name === "array" || name === "alignat") this.text()
    const rows = [[]]
    for (;;) {
      rows[rows.length - 1].push(this.row(["&", "\\\\", "\\end"]))
      const end = this.take()
      if (end === "\\\\" && !this.isLast()) rows.push([])
      else if (end !== "&") break
    }
    if (this.text() !== name) throw new SyntaxError(`the end of ${name} is missing`)
    const align = name === "cases" ? ["left"] : /align|split|eqn/.test(name) ? ["right", "left"] : []
    const cell = (each, at) => this.make("mtd", align.length ? { class: align[at % align.length] } : {}, [each])
    const table = this.make("mtable", /align|split|gather|eqn|equation/.test(name) ? { displaystyle: "true" } : {},
      rows.map(row => this.make("mtr", {}, row.map(cell))))
    const [open, close] = FENCES[name] || ""
    return open ? this.fenced(open, table, close) : table
  }

  // After the end of a row: whether that was the last one, whose end is taken then. A distance to the next one is passed over.
  isLast() {
    this.blanks()
    if (this.next === "[") while (this.take() !== "]");
    this.blanks()
    return this.next === "\\end" && Boolean(this.take())
  }

  under(name) {
    return this.make("munder", {}, [this.argument(), this.make("mo", { stretchy: "true" }, [name === "underline" ? "_" : "⏟"])])
  }

  brace() { return this.make("mover", {}, [this.argument(), this.make("mo", { stretchy: "true" }, ["⏞"])]) }

  set(name) {
    const [small, base] = [this.argument(), this.argument()]
    return this.make(name === "underset" ? "munder" : "mover", {}, [base, small])
  }

  not() {
    this.blanks()
    const token = this.take()
    return this.make("mo", {}, [`${SIGNS[token.slice(1)] || token}\u0338`.normalize()])
  }

  modulo(name) {
    const words = [this.make("mi", { mathvariant: "normal" }, ["mod"]), this.make("mspace", { width: ".33em" }, [])]
    if (name !== "pmod") return this.make("mrow", {}, [this.make("mspace", { width: ".33em" }, []), ...words])
    return this.fenced("(", this.make("mrow", {}, [...words, this.argument()]), ")")
  }

  alphabet(capitals, small, digits, elsewhere) {
    const known = Object.fromEntries(Object.entries(elsewhere).map(([shown, letter]) => [letter, shown]))
    const shown = letter => {
      const [begin, from] = /[A-Z]/.test(letter) ? [capitals, 65] : /[a-z]/.test(letter) ? [small, 97] : /\d/.test(letter) ? [digits, 48] : [0, 0]
      return known[letter] || (begin ? String.fromCodePoint(begin + letter.charCodeAt(0) - from) : letter)
    }
    this.blanks()
    const text = this.next === "{" ? this.text() : this.take()
    if (/\\/.test(text)) {
      const name = text.trim().slice(1)
      if (!GREEK[name]) throw new SyntaxError(`${text} has no such letters`)
      return this.make("mi", {}, [GREEK[name]])
    }
    return this.make("mi", {}, [[...text].map(shown).join("")])
  }
}
