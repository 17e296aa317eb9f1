"""A server on loopback that notes what is asked of it."""

import http.server
import threading


class Listener:
    def __init__(self):
        self.paths = []
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                listener.paths.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_HEAD = do_GET

            def log_message(self, *unused):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self._server.server_port}/{path}"

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
