// Runs cells of JavaScript, or of TypeScript, one after the other; limpet_languages/live.py says how it is asked.
'use strict';

const { spawnSync } = require('child_process');
const fs = require('fs');
const net = require('net');
const readline = require('readline');
const repl = require('repl');
const { PassThrough, Writable } = require('stream');
const util = require('util');

const [asks, answers] = process.argv.slice(-2).map(Number);
const typed = process.argv.includes('typescript');
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47]);

// Node's own prompt, without a terminal: it knows `await` outside of functions, and how code is interrupted.
const prompt = repl.start({
  input: new PassThrough(),
  output: new Writable({ write: (chunk, encoding, done) => done() }),
  prompt: '',
  terminal: false,
  useGlobal: true,
  breakEvalOnSigint: true,
});

let running = false;
let fail = () => {}; // ends the cell that runs with an error

// Older versions of the prompt tell errors to its domain, which would print them. What timers throw, and promises that
// nobody waits for, comes there too: it ends the cell that runs, if one does.
prompt._domain?.removeAllListeners('error').on('error', (error) => (running ? fail(error) : complain(error)));

function answer(message) {
  const line = Buffer.from(JSON.stringify(message) + '\n');
  for (let at = 0; at < line.length; ) at += fs.writeSync(answers, line, at);
}

// The forms of a value besides its text, as Deno's notebooks ask for them; null: none.
function forms(value) {
  const method = value?.[Symbol.for('Jupyter.display')];
  if (typeof method === 'function') return method.call(value);
  if (Buffer.isBuffer(value) && value.subarray(0, 4).equals(PNG)) return { 'image/png': value.toString('base64') };
  return null;
}

function isBundle(value) {
  const names = value && typeof value === 'object' ? Object.keys(value) : [];
  return names.length > 0 && names.every((name) => /^[a-z]+\/[\w.+-]+$/.test(name));
}

globalThis.display = (value) => {
  const data = forms(value) ?? (isBundle(value) ? value : null);
  answer({ display: data ?? { 'text/plain': util.inspect(value) } });
};

// Without the frames of Node's prompt and of this file.
function trimmed(stack) {
  const own = (line) => /^\s+at /.test(line) && (line.includes('node:') || line.includes(__filename) || line.includes('new Promise (<anonymous>)'));
  return stack
    .split('\n')
    .filter((line) => !own(line))
    .join('\n');
}

function described(error) {
  if (!(error instanceof Error)) {
    const text = util.inspect(error);
    return ['Error', text, `Uncaught ${text}\n`];
  }
  const stack = typeof error.stack === 'string' ? trimmed(error.stack) : `${error.name}: ${error.message}`;
  return [error.name, error.message, stack + '\n'];
}

function complain(error) {
  console.error(described(error)[2].trimEnd());
}

function toJavaScript(code) {
  const kept = '--tsconfig-raw={"compilerOptions":{"verbatimModuleSyntax":true}}'; // imports that only later cells use
  const options = ['--loader=ts', '--target=es2022', '--log-level=warning', '--color=false', kept];
  const done = spawnSync('esbuild', options, { input: code, encoding: 'utf8' });
  if (done.status === 0) return done.stdout;
  const error = new SyntaxError((done.stderr.match(/\[ERROR\] (.*)/) ?? [])[1] ?? 'this is no TypeScript');
  error.stack = done.stderr;
  throw error;
}

function interrupt() {
  if (running) prompt.emit('SIGINT');
}

const IMPORT = /^([ \t]*)import\s+(?:([^'"`;]+?)\s*from\s*)?(['"])([^'"\n]+)\3[ \t]*;?/gm;

// Code whose imports are those that a prompt can have. Each may come again, as the cell may.
function withImports(code) {
  return code.replace(IMPORT, (found, indent, names, quote, from) => {
    const module = `await import(${quote}${from}${quote});`;
    if (names === undefined) return indent + module;
    const [, first, all, some] = /^([\w$]+)?\s*,?\s*(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?$/.exec(names) ?? [];
    const named = [first && `default: ${first}`, some?.replace(/([\w$]+)\s+as\s+/g, '$1: ')].filter(Boolean).join(', ');
    if (!all && !named) return found;
    return all ? `${indent}var ${all} = ${module}${first ? ` var ${first} = ${all}.default;` : ''}` : `${indent}var { ${named} } = ${module}`;
  });
}

function evaluate(code, number) {
  return new Promise((resolve, reject) => {
    fail = reject;
    // Code that does not give way is interrupted by Node itself, which a listener would keep from doing so.
    process.off('SIGINT', interrupt);
    prompt.eval(code + '\n', prompt.context, `cell ${number}`, (error, value) => {
      const problem = error instanceof repl.Recoverable ? error.err : error;
      const imported = problem instanceof SyntaxError && problem.message.startsWith('Cannot use import statement') ? withImports(code) : code;
      if (imported !== code) evaluate(imported, number).then(resolve, reject);
      else if (problem) reject(problem);
      else resolve([value]); // in an array: a promise is a value here
    });
    process.on('SIGINT', interrupt);
  });
}

async function run({ code, number }) {
  running = true;
  try {
    const [value] = await evaluate(typed ? toJavaScript(code) : code, number);
    answer(value === undefined ? { result: null } : { result: util.inspect(value), data: forms(value) });
  } catch (error) {
    answer({ error: described(error) });
  } finally {
    running = false;
  }
}

process.on('SIGINT', interrupt);
// What goes wrong while no cell runs does not end the context.
process.on('uncaughtException', complain);
process.on('unhandledRejection', complain);

const lines = readline.createInterface({ input: new net.Socket({ fd: asks, readable: true, writable: false }) });
lines.on('line', (line) => run(JSON.parse(line)));
lines.on('close', () => process.exit());
