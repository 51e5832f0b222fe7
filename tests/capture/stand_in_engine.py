"""A server with the ranges and the profiling interface of vLLM or SGLang, and no GPU: STACK serve --port N.

Its engine loops in a child process. Without a GPU nothing opens and closes nsys's capture, so that the engine
writes ranges only inside the window that was asked for, where a capture would have them.
"""

import contextlib
import http.server
import json
import multiprocessing
import sys
import time

import nvtx


def name_of(stack: str, iteration: int) -> str:
    """A prompt of 96 tokens in each tenth iteration beside 7 requests that generate."""
    if stack == "sglang":
        return "scheduler.run_batch"
    return (
        "execute_context_1(96)_generation_7(7)"
        if iteration % 10 == 0
        else "execute_context_0(0)_generation_8(8)"
    )


def engine(stack, windows):
    first, count = windows.get()
    for iteration in range(first + count + 5):
        inside = first <= iteration < first + count
        if inside:
            nvtx.push_range(name_of(stack, iteration))
        time.sleep(0.002)
        if inside:
            nvtx.pop_range()


class Interface(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/start_profile":
            asked = json.loads(body) if body else {}
            flags = dict(word.split("=") for word in sys.argv if word.startswith("--profiler-config."))
            first = asked.get("start_step") or flags["--profiler-config.delay_iterations"]
            count = asked.get("num_steps") or flags["--profiler-config.max_iterations"]
            self.server.windows.put((int(first), int(count)))
        else:
            self.server.engine.join()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words):
        pass


if __name__ == "__main__":
    spawned = multiprocessing.get_context("spawn")
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Interface)
    server.windows = spawned.Queue()
    server.engine = spawned.Process(target=engine, args=(sys.argv[1], server.windows), daemon=True)
    server.engine.start()
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
