"""A Docker Engine that takes its time."""

import os
import socket
import threading
import time

DELAY = 1  # seconds: longer than a supervisor takes to find a new controller


class SlowEngine:
    """Passes on what it is asked, questions about one container after a delay, for as long as the process lives."""

    def __init__(self, path):
        self.engine = os.environ.get("LIMPET_DOCKER_SOCKET", "/var/run/docker.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(self.engine)
            threading.Thread(target=self._pass, args=(client, engine, self._wait), daemon=True).start()
            threading.Thread(target=self._pass, args=(engine, client, lambda data: None), daemon=True).start()

    @staticmethod
    def _wait(data):
        line = data.split(b"\r\n")[0]
        if line.startswith(b"GET ") and b"/containers/" in line and b"/json" in line:
            time.sleep(DELAY)

    @staticmethod
    def _pass(source, sink, before):
        try:
            while data := source.recv(65536):
                before(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
