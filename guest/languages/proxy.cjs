// What every Node of a session with a network loads first (NODE_OPTIONS). Node's own `fetch` looks at the proxy of its environment
// from version 22.21 on, and reaches what is plain HTTP through a tunnel, in which no binding is found: here it is a request.
'use strict';

const UNDICI = '/usr/share/nodejs/undici'; // Debian's, which its Node brings
const KEY = Symbol.for('undici.globalDispatcher.1'); // by which it and Node find the one that is to be used

function variable(name) {
  return process.env[name] ?? process.env[name.toUpperCase()];
}

function isDirect({ hostname }) {
  const names = (variable('no_proxy') ?? '').split(/[\s,]+/).filter(Boolean);
  return names.some((name) => name === '*' || hostname === name || hostname.endsWith(`.${name.replace(/^\*?\./, '')}`));
}

function withHost(headers, host) {
  return Array.isArray(headers) ? [...headers, 'host', host] : { host, ...headers };
}

function proxied({ Agent, ProxyAgent }, plain, secure) {
  const tunnels = secure && new ProxyAgent(secure);
  return new (class extends Agent {
    dispatch(options, handler) {
      const url = new URL(options.path, options.origin);
      const isSecure = url.protocol === 'https:';
      if (isDirect(url) || !(isSecure ? tunnels : plain)) return super.dispatch(options, handler);
      if (isSecure) return tunnels.dispatch(options, handler);
      const asked = { origin: plain, path: url.href, headers: withHost(options.headers, url.host) };
      return super.dispatch({ ...options, ...asked }, handler);
    }
  })();
}

// Loaded when something asks for it: most programs do not.
function dispatcher() {
  delete globalThis[KEY];
  const undici = require(UNDICI);
  undici.setGlobalDispatcher(proxied(undici, variable('http_proxy'), variable('https_proxy')));
  return undici.getGlobalDispatcher();
}

if (require('fs').existsSync(UNDICI)) Object.defineProperty(globalThis, KEY, { configurable: true, get: dispatcher });
