// Perfetto's own trace processor as a pipe: requests of its RPC protocol in, replies out.
// Usage: node trace_processor.cjs FOLDER    (see .ci/install-trace-processor for what the folder holds)
//
// stdin: frames of a length (4 bytes, little endian) and that many bytes, each a TraceProcessorRpcStream.
// stdout: what the trace processor answers, as it comes. It never starts a program, and asks no network.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const folder = process.argv[2];

// The bundle is made for a browser's worker; this is what it looks for there.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
Object.defineProperty(globalThis, 'location', { value: { href: 'file:///' }, configurable: true });
globalThis.XMLHttpRequest = class {
  open(method, url) {
    this.url = url;
  }
  send() {
    const data = fs.readFileSync(path.join(folder, path.basename(this.url)));
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  }
};
// The package holds the build for 32 bits: the bundle's probe for 64-bit memory, a module of a memory alone, must fail.
const Module = WebAssembly.Module;
WebAssembly.Module = class extends Module {
  constructor(bytes) {
    if (bytes[8] === 5) throw new Error('no 64-bit memory');
    super(bytes);
  }
};
console.log = console.warn = (...words) => process.stderr.write(`${words.join(' ')}\n`);

vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.node.js'), 'utf8'));
const port = { postMessage: (data) => fs.writeSync(1, data) };
globalThis.onmessage({ data: port });

function read(size) {
  const data = Buffer.alloc(size);
  let at = 0;
  while (at < size) {
    const got = fs.readSync(0, data, at, size - at, null);
    if (got === 0) process.exit(0);
    at += got;
  }
  return data;
}

setTimeout(() => {
  for (;;) {
    const frame = read(read(4).readUInt32LE(0));
    port.onmessage({ data: new Uint8Array(frame) });
  }
}, 0);
