"use strict";
// Runs commands on Python projects in containers of Limpet, by its command `limpet`. README.md says how to use it.

const { spawn } = require("node:child_process");
const crypto = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const FOLDER = "project"; // of the session, which has the copy
const TIMEOUT = 30; // seconds, as for what follows
const LONGEST = 3600;
const INSTALL_TIMEOUT = 300;
const GRACE = 60; // beyond the time limit, after which `limpet` itself is interrupted
const PROJECT_BYTES = 200 * 2 ** 20;
const SHOWN = 16000; // characters of each stream that the model sees
const TOLD = 30; // messages of progress with output
const PAUSE = 500; // milliseconds between two of them
const SANDBOX_FAILED = 125;
const ENDINGS = {
  124: "it reached its time limit and was ended",
  130: "it was interrupted",
  137: "it was killed, or memory ran out",
};
// Folders that are made again from the others, or that have secrets.
const LEFT_OUT = /^(\.git|\.hg|\.svn|\.?venv|node_modules|__pycache__|\.(mypy|pytest|ruff)_cache|\.tox|\.env(\..*)?)$/;

class Refused extends Error {} // its message is for the model

module.exports.runtime = {
  /** What AnythingLLM calls. Always gives a text, also for what fails. */
  handler: async function (args) {
    const tell = (text) => this.introspect(text);
    try {
      return await run(call(args ?? {}, this.runtimeArgs ?? {}, user(this)), tell);
    } catch (error) {
      this.logger(`limpet-python-sandbox: ${error.message}`);
      return error instanceof Refused ? error.message : `The sandbox failed: ${error.message}`;
    }
  },
};

/** Who asks, where AnythingLLM has users. */
function user(plugin) {
  const invocation = plugin.super?.handlerProps?.invocation;
  return String(invocation?.user_id ?? invocation?.user?.id ?? "anyone");
}

/** The arguments, checked. */
function call(args, setup, who) {
  const mode = args.mode || "ephemeral";
  if (mode !== "ephemeral" && mode !== "persistent")
    throw new Refused(`mode is "ephemeral" or "persistent", not "${mode}".`);
  const reset = args.reset === true || args.reset === "true";
  const command = typeof args.command === "string" ? args.command.trim() : "";
  if (!command && !(reset && mode === "persistent")) throw new Refused("command is missing: a shell command to run.");
  const project = projectOf(args.projectPath, setup.PROJECTS_ROOT || os.homedir());
  return { mode, reset, command, project, setup, session: sessionOf(mode, project, who), timeout: secondsOf(args.timeout, setup) };
}

function secondsOf(given, setup) {
  const seconds = Number(given || setup.RUN_TIMEOUT || TIMEOUT);
  if (!(seconds > 0 && seconds <= LONGEST)) throw new Refused(`timeout is a number of seconds up to ${LONGEST}.`);
  return seconds;
}

/** The real path of a project. Links are followed first, so that none leads out of the root. */
function projectOf(given, root) {
  if (typeof given !== "string" || !path.isAbsolute(given)) throw new Refused("projectPath is the absolute path of the project's folder.");
  let project, allowed;
  try {
    project = fs.realpathSync(given);
    allowed = fs.realpathSync(root);
  } catch (error) {
    throw new Refused(`There is no folder ${error.path ?? given}.`);
  }
  if (!fs.statSync(project).isDirectory()) throw new Refused(`${given} is not a folder.`);
  const inside = path.relative(allowed, project);
  if (!inside || inside.startsWith("..") || path.isAbsolute(inside) || inside.split(path.sep).some((part) => part.startsWith(".")))
    throw new Refused(`${given} may not be run: projects are folders below ${allowed}, and not hidden ones.`);
  return project;
}

/** One for each project and user; for each call of mode ephemeral another one. */
function sessionOf(mode, project, who) {
  if (mode === "ephemeral") return `anythingllm-${crypto.randomBytes(8).toString("hex")}`;
  const digest = crypto.createHash("sha256").update(`${who}\0${project}`).digest("hex");
  return `anythingllm-${digest.slice(0, 16)}`;
}

async function run(one, tell) {
  if (one.reset) {
    await limpet(one, ["close", one.session], { mayFail: true });
    tell("The container of this project was removed.");
    if (!one.command) return "The persistent container of this project was removed. The next call starts a new one.";
  }
  tell(`Preparing ${one.mode === "ephemeral" ? "a clean" : "the"} container for ${path.basename(one.project)} …`);
  await limpet(one, ["open", ...options(one), one.session]);
  try {
    await copy(one, tell);
    const packages = await install(one, tell);
    tell(`Running: ${one.command}`);
    const words = ["exec", "-s", one.session, "-t", String(one.timeout), "--cwd", FOLDER, "-c", one.command];
    const ended = await limpet(one, words, { seconds: one.timeout, progress: new Progress(tell), mayFail: true });
    if (ended.code === SANDBOX_FAILED) throw new Error(ended.err.trim() || "it does not say why");
    tell(`The command ended: ${ending(ended.code)}.`);
    return [packages, `Exit code ${ended.code}: ${ending(ended.code)}.`, section("Output", ended.out), section("Errors", ended.err)]
      .filter(Boolean)
      .join("\n\n");
  } finally {
    if (one.mode === "ephemeral") await limpet(one, ["close", one.session], { mayFail: true });
  }
}

function options({ setup, mode, timeout }) {
  const ttl = mode === "ephemeral" ? INSTALL_TIMEOUT + timeout + GRACE : setup.IDLE_TTL; // should this process end before
  const given = { "--memory": setup.MEMORY, "--cpus": setup.CPUS, "--image": setup.IMAGE, "--ttl": ttl };
  return Object.entries(given).flatMap(([name, value]) => (value ? [name, String(value)] : []));
}

/** Gives the session a copy of the project, over the one that is there. */
async function copy(one, tell) {
  const staged = fs.mkdtempSync(path.join(os.tmpdir(), "limpet-project-"));
  const folder = path.join(staged, FOLDER);
  try {
    const left = stage(one.project, folder);
    if (left.length) tell(`Not copied: ${left.slice(0, 10).join(", ")}${left.length > 10 ? " …" : ""}`);
    await limpet(one, ["put", folder, `${one.session}:`]);
  } finally {
    fs.rmSync(staged, { recursive: true, force: true });
  }
}

/** Copies what a sandbox gets into a folder. Returns what was left out: links that lead out, and what is no file. */
function stage(project, folder) {
  const left = [];
  let bytes = 0;
  fs.cpSync(project, folder, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (source) => {
      const name = path.basename(source);
      if (source !== project && LEFT_OUT.test(name)) return false;
      const stat = fs.lstatSync(source);
      const fits = stat.isDirectory() || stat.isFile() || (stat.isSymbolicLink() && leadsInside(source, project));
      if (!fits) left.push(path.relative(project, source));
      bytes += stat.isFile() ? stat.size : 0;
      if (bytes > PROJECT_BYTES)
        throw new Refused(`The project has more than ${PROJECT_BYTES / 2 ** 20} MiB. Name a smaller folder.`);
      return fits;
    },
  });
  return left;
}

function leadsInside(link, project) {
  const target = fs.readlinkSync(link);
  return !path.isAbsolute(target) && !path.relative(project, path.resolve(path.dirname(link), target)).startsWith("..");
}

/** Installs what the project requires. Returns a sentence where that was not possible: the command may not need it. */
async function install(one, tell) {
  const file = path.join(one.project, "requirements.txt");
  if (!fs.existsSync(file)) return "";
  tell("Installing the project's requirements …");
  const words = ["install", "-t", String(INSTALL_TIMEOUT), "-r", file, one.session];
  const ended = await limpet(one, words, { seconds: INSTALL_TIMEOUT, progress: new Progress(tell), mayFail: true });
  if (ended.code === 0) return "";
  const reason = clipped(ended.err.trim(), 2000) || `exit code ${ended.code}`;
  tell("The requirements could not be installed.");
  return `requirements.txt was not installed: ${reason}`;
}

/** Runs `limpet`. Fails where it fails, unless it may. */
function limpet(one, words, { seconds = INSTALL_TIMEOUT, progress = null, mayFail = false } = {}) {
  return new Promise((resolve, reject) => {
    const program = one.setup.LIMPET_COMMAND || "limpet";
    const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"] });
    const texts = { out: new Kept(), err: new Kept() };
    const late = setTimeout(() => child.kill("SIGINT"), (seconds + GRACE) * 1000);
    for (const [name, stream] of [["out", child.stdout], ["err", child.stderr]]) {
      stream.setEncoding("utf8");
      stream.on("data", (text) => {
        texts[name].add(text);
        progress?.add(text);
      });
    }
    const over = () => {
      clearTimeout(late);
      progress?.end();
    };
    child.on("error", (error) => {
      over();
      const where = error.code === "ENOENT" ? `there is no command ${program}; install Limpet, or set LIMPET_COMMAND` : error.message;
      reject(new Error(where));
    });
    child.on("close", (code) => {
      over();
      const ended = { code: code ?? SANDBOX_FAILED, out: texts.out.text(), err: texts.err.text() };
      if (code === 0 || mayFail) resolve(ended);
      else reject(new Error(ended.err.trim() || `limpet ${words[0]} ended with ${code}`));
    });
  });
}

/** The beginning and the end of a stream, however long. */
class Kept {
  constructor() {
    this.head = "";
    this.tail = "";
    this.dropped = 0;
  }

  add(text) {
    const room = SHOWN / 2 - this.head.length;
    if (room > 0) {
      this.head += text.slice(0, room);
      text = text.slice(room);
    }
    this.tail += text;
    const over = this.tail.length - SHOWN / 2;
    if (over > 0) {
      this.tail = this.tail.slice(over);
      this.dropped += over;
    }
  }

  text() {
    return this.dropped ? `${this.head}\n[... ${this.dropped} characters left out ...]\n${this.tail}` : this.head + this.tail;
  }
}

/** Tells the last lines of what comes, while it comes, but not too often. */
class Progress {
  constructor(tell) {
    this.tell = tell;
    this.told = 0;
    this.last = 0;
    this.pending = "";
    this.timer = null;
  }

  add(text) {
    this.pending = clipped(this.pending + text, 2000);
    if (this.timer === null && this.told < TOLD)
      this.timer = setTimeout(() => this.flush(), Math.max(0, this.last + PAUSE - Date.now()));
  }

  flush() {
    this.timer = null;
    const lines = this.pending.trim();
    this.pending = "";
    if (!lines) return;
    this.tell(lines.split("\n").slice(-5).join("\n"));
    this.told += 1;
    this.last = Date.now();
  }

  end() {
    clearTimeout(this.timer);
  }
}

function ending(code) {
  if (code === 0) return "it succeeded";
  return ENDINGS[code] ?? (code > 128 ? `it was ended by signal ${code - 128}` : "it failed");
}

function section(title, text) {
  return text.trim() ? `${title}:\n${text.trimEnd()}` : "";
}

function clipped(text, length) {
  return text.length > length ? `…${text.slice(-length)}` : text;
}
