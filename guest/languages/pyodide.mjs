// Runs cells of Python in Pyodide, one after the other; limpet_languages/live.py says how it is asked. It is a second wall
// inside that of the container: Node lets it read and write nothing but /session, and start no program.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import readline from 'node:readline';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

const PYODIDE = '/usr/local/lib/node_modules/pyodide/pyodide.mjs';
const SESSION = '/session';
const INTERRUPT = 2; // SIGINT, as Pyodide has it in its buffer

// Python runs beside this thread, which hears signals while it does.
function serve() {
  const [asks, answers] = process.argv.slice(-2).map(Number);
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL(import.meta.url), { workerData: { answers, signal }, argv: [] });

  process.on('SIGINT', () => {
    Atomics.store(signal, 0, INTERRUPT);
    worker.postMessage({ interrupt: true });
  });
  worker.on('exit', (code) => process.exit(code));
  worker.on('error', (error) => {
    fs.writeSync(2, `${error.stack}\n`);
    process.exit(1);
  });
  const lines = readline.createInterface({ input: new net.Socket({ fd: asks, readable: true, writable: false }) });
  lines.on('line', (line) => worker.postMessage(JSON.parse(line)));
  lines.on('close', () => process.exit());
}

function writer(fd) {
  return {
    isatty: false,
    write(bytes) {
      let at = 0;
      while (at < bytes.length) at += fs.writeSync(fd, bytes, at);
      return bytes.length;
    },
  };
}

async function begin({ answers, signal }) {
  const { loadPyodide } = await import(PYODIDE);
  const out = writer(answers);
  const answer = (text) => out.write(Buffer.from(text + '\n'));
  process.binding = () => ({ fs: fs.constants }); // all that Pyodide wants of what Node keeps from it here
  const python = await loadPyodide({ jsglobals: {} });

  python.setStdout(writer(1));
  python.setStderr(writer(2));
  python.setStdin({ stdin: () => null });
  python.setInterruptBuffer(signal);
  if (fs.existsSync(SESSION)) {
    python.mountNodeFS(SESSION, SESSION);
    const inside = path.relative(SESSION, process.cwd());
    python.FS.chdir(inside.startsWith('..') ? SESSION : process.cwd());
  }
  const run = python.runPython(fs.readFileSync(new URL('pyodide_cells.py', import.meta.url), 'utf8'))(answer);
  parentPort.on('message', ({ interrupt, code, number }) => {
    if (!interrupt) run.cell(code, number);
    // What runs has not taken it: it waits for something.
    else if (Atomics.exchange(signal, 0, 0) === INTERRUPT) run.cancel();
  });
}

if (isMainThread) serve();
else await begin(workerData);
