#!/usr/bin/env python3
"""A server and a terminal in the background of a session, used from this machine."""

import urllib.request

import limpet

PORT = 8000


def main():
    with limpet.Client() as client, client.open() as session:
        session.files.write("index.html", "<h1>from the sandbox</h1>")
        server = session.start(f"python3 -u -m http.server --bind 127.0.0.1 {PORT}", name="web")
        print("it says:", next(server.follow()).text.strip())
        with session.forward(PORT) as address:
            print("it serves:", urllib.request.urlopen(f"http://{address}/").read().decode())

        shell = session.start(["sh"], pty=(80, 24), env={"PS1": ""})
        shell.send("stty size; exit 7\n")
        print("in its terminal:", shell.wait().stdout.split("\r\n")[-2])

        session.reset()  # Python begins anew; what runs beside it does not notice
        for process in session.processes():
            print(f"{process.command[:30]!r}: {'running' if process.running else f'exit code {process.exit_code}'}")
        server.send_signal("TERM")
        print("ended by signal", server.wait().signal)


main()
